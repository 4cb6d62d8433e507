"""From an inventory to a Deployment. In: a path. Out: a Manifest, or one error with everything wrong.

Reads the inventory, the files it includes, the CA files it names and the playbooks it uses; nothing else, and
no secret.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ..errors import Problem
from ..types.deployment import Backend, Deployment, Positions
from ..types.playbook import Playbook
from .document import Node, NodePath
from .engine_settings import with_engine_settings
from .groups import declare
from .hosts import build_hosts
from .include import read_manifest
from .models import House, build_placements
from .places import deployment_fault
from .playbooks import find_playbook, parameter_fault, playbook_names, read_playbook
from .problems import Problems, nearest, show
from .settings import Settings
from .shape import dotted
from .site import build_backends, build_mirrors, build_pool, build_proxy, build_registries
from .templates import evaluate
from .versions import backend_version


@dataclass(frozen=True)
class Manifest:
    """What is wanted, where each value was written, and every playbook it needs by name. warnings: what is
    allowed but should be known."""

    deployment: Deployment
    positions: Positions
    playbooks: dict[str, Playbook]
    warnings: tuple[Problem, ...] = ()


def load(path: Path, playbook_dirs: Sequence[Path] = ()) -> Manifest:
    """The manifest in a file. `playbook_dirs`: a user's own playbooks, before the shipped ones.

    Raises ManifestError with every problem found, each with file:line:column.
    """
    problems, warnings = Problems(), Problems()
    root = read_manifest(path, problems)
    base = Path(path).absolute().parent
    name = _deployment_name(Settings(root), problems)
    declared = declare(root, problems)
    hosts = build_hosts(declared.hosts, base, problems)
    backends = build_backends(root, problems)
    shelf = _Shelf(playbook_dirs, problems)
    shelf.take_from(root)
    _check_params(root, backends, shelf.playbooks, problems)
    _check_images(root, backends, shelf.playbooks, problems)
    backends = _with_overheads(backends, shelf.playbooks)
    backend_map = root.get("backends")
    house = House(
        hosts=declared.hosts,
        groups=declared.groups,
        backends=backends,
        backend_names=tuple(backend_map.entries or ()) if backend_map is not None else (),
        playbooks=shelf.playbooks,
        warnings=warnings,
    )
    placements, written = build_placements(root, house, problems)
    at = {name: host.node.place for name, host in declared.hosts.items()}
    deployment = Deployment(
        name=name,
        base=str(base),
        hosts=with_engine_settings(hosts, placements, backends, shelf.playbooks, at, problems),
        proxy=build_proxy(root, problems),
        network_pool=build_pool(root, problems),
        mirrors=build_mirrors(root, problems),
        registries=build_registries(root, base, problems),
        backends=backends,
        placements=placements,
    )
    problems.raise_if_any()
    places = {f"hosts.{name}": place for name, place in at.items()}
    return Manifest(
        deployment=deployment,
        positions={**places, **written, **positions(root)},
        playbooks=shelf.playbooks,
        warnings=warnings.in_file_order(),
    )


def _deployment_name(settings: Settings, problems: Problems) -> str:
    name = settings.text("name") or ""
    fault = deployment_fault(name)
    if fault is not None:
        problems.add(settings.place("name"), *fault)
    return name


def positions(root: Node) -> Positions:
    """Dotted path → file:line:column of everything in a document."""
    found: Positions = {}
    rest: list[tuple[NodePath, Node]] = [((), root)]
    while rest:
        path, node = rest.pop()
        if path:
            found[dotted(path)] = node.place
        rest.extend(((*path, key), child) for key, child in (node.entries or {}).items())
        rest.extend(((*path, index), child) for index, child in enumerate(node.items or ()))
    return found


class _Shelf:
    """Playbooks taken by name, each read once, with those they require."""

    def __init__(self, dirs: Sequence[Path], problems: Problems) -> None:
        self._dirs = dirs
        self._problems = problems
        self._tried: set[str] = set()
        self.playbooks: dict[str, Playbook] = {}

    def take_from(self, root: Node) -> None:
        """Every playbook that backends, hosts, groups and defaults name."""
        settings = Settings(root)
        for backend in (settings.inner("backends").node.entries or {}).values():
            self._take(backend.get("playbook"), "engine")
        for layer in (settings.inner("defaults").node, *_host_layers(root)):
            listed = layer.get("playbooks")
            for name in (listed.items or ()) if listed is not None else ():
                self._take(name, "host")

    def _take(self, name: Node | None, kind: str) -> None:
        if name is None or name.broken or not isinstance(name.value, str):
            return
        playbook = self._read(name.value, name.place)
        if playbook is not None and playbook.kind != kind:
            use = (
                "models, name it under `backends`"
                if playbook.kind == "engine"
                else "hosts, name it under `playbooks`"
            )
            self._problems.add(
                name.place, f"playbook {show(playbook.name)} is not for this", f"it is for {use}"
            )

    def _read(self, name: str, where: str) -> Playbook | None:
        if name in self._tried:
            return self.playbooks.get(name)
        self._tried.add(name)
        path = find_playbook(name, self._dirs)
        if path is None:
            do = nearest(name, playbook_names(self._dirs))
            self._problems.add(where, f"there is no playbook {show(name)}", do)
            return None
        playbook = read_playbook(path, self._problems)
        if playbook is not None:
            self.playbooks[name] = playbook
            for required in playbook.requires:
                self._read(required, f"{path}:1:1")
        return playbook


def _host_layers(part: Node) -> Iterator[Node]:
    """What `hosts` and `groups` of the manifest, or of a group, say of hosts."""
    hosts, groups = part.get("hosts"), part.get("groups")
    yield from (hosts.entries or {}).values() if hosts is not None else ()
    for group in (groups.entries or {}).values() if groups is not None else ():
        yield group
        yield from _host_layers(group)


def _check_images(
    root: Node, backends: Mapping[str, Backend], playbooks: Mapping[str, Playbook], problems: Problems
) -> None:
    """An image must be of a version that its playbook knows."""
    for backend in backends.values():
        playbook = playbooks.get(backend.playbook)
        if playbook is None:
            continue
        settings = Settings(root).inner("backends").inner(backend.name)
        values = _known_before(backend, playbook)
        for need in playbook.images:
            if not evaluate(need.when, values):
                version = str(backend_version(backend, playbook))
                problems.add(
                    settings.place("version" if backend.version else "image"),
                    f"playbook {show(playbook.name)} does not know version {show(version)}: {need.why}",
                    need.do,
                )


def _with_overheads(backends: Mapping[str, Backend], playbooks: Mapping[str, Playbook]) -> dict[str, Backend]:
    """Each backend with what its playbook says of the memory that its version takes."""
    found = {}
    for name, backend in backends.items():
        playbook = playbooks.get(backend.playbook)
        every = playbook.overheads if playbook is not None else ()
        values = _known_before(backend, playbook) if playbook is not None else {}
        fitting = (each for each in every if each.when is None or evaluate(each.when, values))
        found[name] = msgspec.structs.replace(backend, overhead=next(fitting, None))
    return found


def _known_before(backend: Backend, playbook: Playbook) -> dict[str, Mapping[str, object]]:
    """What conditions can know before anything is allotted (`templates.NEED_NAMES`)."""
    return {
        "image": {"version": backend_version(backend, playbook), "reference": backend.image},
        "param": playbook.params_with(backend.params),
    }


def _check_params(
    root: Node, backends: Mapping[str, Backend], playbooks: Mapping[str, Playbook], problems: Problems
) -> None:
    """Parameters a backend sets must be the playbook's own, of the default's type, and within its bounds."""
    for backend in backends.values():
        playbook = playbooks.get(backend.playbook)
        given = Settings(root).inner("backends").inner(backend.name).inner("params").node
        for key, node in (given.entries or {}).items() if playbook is not None else ():
            if playbook is None or node.broken:
                continue
            if key not in playbook.parameters:
                what = f"playbook {show(playbook.name)} has no parameter {show(key)}"
                problems.add(node.at, what, nearest(key, playbook.parameters))
                continue
            fault = parameter_fault(node.value, playbook.parameters[key])
            if fault is not None:
                problems.add(node.place, f"parameter {show(key)} {fault[0]}", fault[1])
