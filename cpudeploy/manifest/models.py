"""Models onto hosts. In: `models`, hosts with their layers, backends, playbooks. Out: Placements. Pure.

One Placement is one model on one host with all precedence applied. Checks of single placements and of
their company on a host are in `checks`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..types.base import from_data
from ..types.deployment import Backend, Placement, Positions
from ..types.playbook import Playbook
from .by_hand import read_by_hand
from .checks import check_clashes, check_listen, check_playbook_fit, check_texts
from .document import Node
from .groups import DeclaredHost
from .merge import MODEL_KEYS, SOURCE_KEYS, merge, only, source_kinds
from .places import model_fault
from .problems import Problems, nearest, show
from .settings import Settings, given
from .sizes import check_cpu_list

_PLACED_KEYS = (*MODEL_KEYS, "port", "served_name")


@dataclass(frozen=True)
class House:
    """What models may refer to. `backends` and `playbooks` hold the sound ones, `*_names` all."""

    hosts: Mapping[str, DeclaredHost]
    groups: Mapping[str, tuple[str, ...]]
    backends: Mapping[str, Backend]
    backend_names: tuple[str, ...]
    playbooks: Mapping[str, Playbook]
    warnings: Problems
    """What is allowed but should be known; filled beside the problems."""


def build_placements(root: Node, house: House, problems: Problems) -> tuple[tuple[Placement, ...], Positions]:
    """Model by model, within a model as `on` lists its hosts; and where the value of each setting stands
    that a placement has, whichever layer it came from (`qwen@genoa-1.context`)."""
    placed: list[tuple[Placement, Settings]] = []
    models = Settings(root).get("models")
    for name, node in (models.entries or {}).items() if models is not None else ():
        if name == "vllm":
            problems.add(
                node.at,
                "a model can't be called `vllm`",
                "choose another: a service of that name brings VLLM_PORT, which the engine obeys",
            )
        if node.broken:
            continue
        for host, entry in _places(name, node, house, problems):
            settings = _settings(node, house.hosts[host], entry)
            placement = _place(name, host, settings, house, problems)
            if placement is not None:
                placed.append((placement, settings))
    check_clashes(placed, problems)
    written = {
        f"{placement.model}@{placement.host}.{key}": node.place
        for placement, settings in placed
        for key, node in (settings.node.entries or {}).items()
    }
    return tuple(placement for placement, _ in placed), written


def _places(model: str, node: Node, house: House, problems: Problems) -> Iterator[tuple[str, Node]]:
    """Each host of `on` with its entry; unknown, retired and repeated ones are reported."""
    seen: dict[str, str] = {}
    on = Settings(node).get("on")
    for entry in (on.items or ()) if on is not None else ():
        for named in _host_names(entry, problems):
            if named.broken:
                continue
            for name in _meant(named, house, problems):
                host = house.hosts[name]
                if name in seen:
                    problems.add(
                        named.place,
                        f"model {show(model)} is on host {show(name)} twice, first at {seen[name]}",
                        "keep one; several instances on a host are several models",
                    )
                elif not host.node.broken:
                    yield name, entry
                seen.setdefault(name, named.place)


def _meant(named: Node, house: House, problems: Problems) -> Iterator[str]:
    """The hosts that a name in `on` stands for: of a group all but the retired ones."""
    name = str(named.value)
    if name in house.hosts:
        if Settings(house.hosts[name].node).flag("retired"):
            problems.add(named.place, f"host {show(name)} is retired", "take it out of `on`")
        else:
            yield name
    elif name not in house.groups:
        what = "host or group" if house.groups else "host"
        problems.add(
            named.place, f"there is no {what} {show(name)}", nearest(name, {*house.hosts, *house.groups})
        )
    elif not house.groups[name]:
        problems.add(named.place, f"group {show(name)} has no hosts", "list some in it")
    else:
        yield from (
            host for host in house.groups[name] if not Settings(house.hosts[host].node).flag("retired")
        )


def _host_names(entry: Node, problems: Problems) -> tuple[Node, ...]:
    """The name or names an entry of `on` gives."""
    if entry.entries is None:
        return (entry,)
    named = [node for key in ("host", "hosts") if (node := entry.get(key)) is not None]
    if len(named) != 1:
        problems.add(
            entry.place, "an entry of `on` has either `host` or `hosts`", "say where: {host: name, …}"
        )
        return ()
    return named[0].items if named[0].items is not None else (named[0],)


def _settings(model: Node, host: DeclaredHost, entry: Node) -> Settings:
    """Everything that bears on a model on a host, the strongest on top; its place is that in `on`."""
    return Settings(merge((*host.model_layers, only(model, _PLACED_KEYS), only(entry, _PLACED_KEYS))))


def _place(model: str, host: str, settings: Settings, house: House, problems: Problems) -> Placement | None:
    """The typed placement; None when something it can't do without is wrong or missing."""
    for key, do in (
        ("source", "say where its files come from"),
        ("backend", "name one"),
        ("port", "give one"),
    ):
        if settings.missing(key):
            problems.add(settings.node.place, f"model {show(model)} on host {show(host)} has no `{key}`", do)
    source = _source(settings, problems)
    backend = _backend(settings, house, problems)
    memory = _memory(settings, problems)
    cpus = _cpus(settings, problems)
    check_listen(settings, problems)
    known = house.backends.get(backend) if backend is not None else None
    playbook = house.playbooks.get(known.playbook) if known is not None else None
    if playbook is not None and playbook.kind != "engine":
        playbook = None  # reported where the backend names it
    hand = read_by_hand(settings, playbook, known.params if known is not None else {}, problems)
    for where, what in hand.warnings:
        house.warnings.add(where, what)
    check_texts(hand.args, hand.env, playbook, problems)
    if playbook is not None:
        check_playbook_fit(settings, playbook, problems)
    port, last_port = _ports(settings, problems)
    if source is None or backend is None or port is None:
        return None
    api_key = settings.get("api_key")
    data = given(
        model=model,
        host=host,
        task=settings.text("task"),
        source=source,
        fetch=settings.text("fetch"),
        backend=backend,
        each=settings.text("each"),
        listen=settings.text("listen"),
        port=port,
        last_port=last_port,
        context=settings.number("context"),
        parallel=settings.number("parallel"),
        cpus=cpus,
        memory=memory,
        params=dict(hand.params),
        warnings=tuple(what for _, what in hand.warnings),
        served_name=settings.text("served_name") or model,
        api_key=settings.secret("api_key"),
        open=api_key is not None and api_key.value == "none",
        args=tuple(str(node.value) for node in hand.args),
        env={name: str(node.value) for name, node in hand.env.items()},
        replace=settings.text("replace"),
        drain_s=settings.seconds("drain", problems),
    )
    return from_data({**data, **hand.fields}, Placement)


def _backend(settings: Settings, house: House, problems: Problems) -> str | None:
    name = settings.text("backend")
    if name is not None and name not in house.backend_names:
        problems.add(
            settings.place("backend"), f"there is no backend {show(name)}", nearest(name, house.backend_names)
        )
        return None
    return name


def _source(settings: Settings, problems: Problems) -> dict[str, Any] | None:
    """The one source, as its tagged form; reported when it is none, several, or half of one."""
    node = settings.get("source")
    if node is None or any(value.broken for value in (node.entries or {}).values()):
        return None
    source, where = Settings(node), node.place
    kinds = source_kinds(node)
    if len(kinds) != 1:
        said = f"has {' and '.join(f'`{kind}`' for kind in kinds)}" if kinds else "says not where from"
        problems.add(
            where, f"the source {said}", f"give one of {', '.join(f'`{kind}`' for kind in SOURCE_KEYS)}"
        )
        return None
    kind = kinds[0]
    strays = [key for key in node.entries or {} if key != kind and key not in SOURCE_KEYS[kind]]
    for key in strays:
        problems.add(source.place(key), f"`{key}` means nothing beside `{kind}`", "remove it")
    if kind == "url" and source.missing("sha256"):
        problems.add(
            where,
            "a source with `url` needs `sha256`",
            "give the checksum of the file, as sha256sum prints it",
        )
        return None
    if strays:
        return None
    if kind == "path" and (fault := model_fault(source.text(kind) or "")):
        problems.add(source.place(kind), *fault)
        return None
    if kind == "upload":
        if source.path("upload", Path(), problems) is None:
            return None
        return {"kind": kind, "path": (node.entries or {})["upload"].path}
    if kind not in ("huggingface", "modelscope"):
        return {"kind": kind, **{key: source.text(key) for key in (kind, *SOURCE_KEYS[kind])}}
    return given(
        kind=kind,
        repo=source.text(kind),
        revision=source.text("revision"),
        quant=source.text("quant"),
        files=source.texts("files"),
        exclude=source.texts("exclude"),
        mmproj=source.text("mmproj"),
        token=source.secret("token"),
    )


def _ports(settings: Settings, problems: Problems) -> tuple[int | None, int | None]:
    """The first port, and the last one where a range is given."""
    text = settings.text("port")
    if text is None:
        return settings.number("port"), None
    first, last = (int(part) for part in text.split("-"))
    if not 1 <= first <= last <= 65535:
        problems.add(
            settings.place("port"),
            f"`port` is {show(text)}: a range goes up, from 1 to 65535",
            'write one such as "8100-8103"',
        )
        return None, None
    return first, last


def _memory(settings: Settings, problems: Problems) -> int | None:
    """Bytes of the container's limit; None for `auto`."""
    memory = settings.size("memory", problems)
    if memory == 0:
        # An engine reads 0 as no limit at all.
        problems.add(settings.place("memory"), "`memory` is nothing", "write auto, or a size such as 8GiB")
        return None
    return memory


def _cpus(settings: Settings, problems: Problems) -> str | None:
    """The wish in its one form: `auto`, `shared`, `numa:N`, `cores:N` for a count, or a cpu list."""
    count, text = settings.number("cpus"), settings.text("cpus")
    if count is not None:
        return f"cores:{count}"
    if text is None or text in ("auto", "shared"):
        return text
    if settings.text("each") == "numa":
        problems.add(
            settings.place("cpus"),
            f"`cpus` is {show(text)}, and `each: numa` puts every instance on a node of its own",
            "leave `cpus` out, or `each`",
        )
        return text
    node = text.removeprefix("numa:")
    if node != text and node.isdecimal() and len(node) <= 4:
        return text
    try:
        check_cpu_list(text)
    except ValueError as error:
        problems.add(settings.place("cpus"), f"`cpus` is {error}", 'write auto, 8, "0-7", numa:0 or shared')
    return text
