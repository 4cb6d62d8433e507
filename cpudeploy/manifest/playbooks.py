"""Playbook files to Playbook. In: a name and folders. Out: the typed playbook, or every problem in it.

A user's own folders come before the shipped one. Reads only `<folder>/<name>.yaml`; names can't leave it.
Templates stay text; that they parse and use only known names is checked here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from ..data_files import data_dir
from ..errors import ManifestError, Problem
from ..types.base import from_data
from ..types.playbook import Parameter, Playbook
from .document import Node, plain, read_document
from .problems import Problems, nearest, show
from .shape import check_shape
from .sizes import parse_size
from .templates import NEED_NAMES, Allowed, allowed_names, check_condition, check_template

_ELSEWHERE = {
    "insecure-registries": "say http:// in mirrors.images; it is allowed where it is needed",
    "pidfile": "leave it where the engine puts it",
}
_BLINDING = ("data-root", "graph", "exec-root", "storage-driver", "userns-remap")
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")


def load_playbook(name: str, dirs: Sequence[Path] = ()) -> Playbook:
    """The playbook `name`, from the first of `dirs` that has it, else as shipped. Raises ManifestError."""
    path = find_playbook(name, dirs)
    if path is None:
        raise ManifestError(
            [Problem(show(name), "there is no such playbook", nearest(name, playbook_names(dirs)))]
        )
    problems = Problems()
    playbook = read_playbook(path, problems)
    problems.raise_if_any()
    if playbook is None:
        raise AssertionError("a playbook that could not be read was not reported")
    return playbook


def find_playbook(name: str, dirs: Sequence[Path]) -> Path | None:
    """The file of a playbook; None when there is none of that name."""
    if not _NAME.fullmatch(name):
        return None
    candidates = (folder / f"{name}.yaml" for folder in (*dirs, data_dir("playbooks")))
    return next((path for path in candidates if path.is_file()), None)


def playbook_names(dirs: Sequence[Path]) -> list[str]:
    """What there is to choose from, sorted."""
    return sorted({path.stem for folder in (*dirs, data_dir("playbooks")) for path in folder.glob("*.yaml")})


def read_playbook(path: Path, problems: Problems) -> Playbook | None:
    """The playbook in a file; None when it was too wrong to type, with problems added."""
    before = Problems()
    try:
        root = check_shape(read_document(path, before), "playbook", before)
        _check_patterns(root, before)
        _check_templates(root, before)
        _check_shm(root, before)
        _check_parameters(root, before)
        _check_engine_settings(root, before)
        _check_by_hand(root, before)
        named = root.get("name")
        if named is not None and isinstance(named.value, str) and named.value != path.stem:
            before.add(
                named.place,
                f"the playbook calls itself {show(named.value)}",
                f"the file's name says {path.stem}",
            )
        before.raise_if_any()
        return from_data(plain(root), Playbook)
    except ManifestError as error:
        for problem in error.problems:
            problems.add(problem.where, problem.what, problem.do)
    except msgspec.ValidationError as error:
        problems.add(f"{path}:1:1", f"the playbook can't be used: {str(error)[:200]}")
    return None


def _check_patterns(root: Node, problems: Problems) -> None:
    version = root.get("version_pattern")
    if version is not None and _compiles(version, problems) and re.compile(str(version.value)).groups != 1:
        problems.add(
            version.place, "the pattern must have exactly one group", "put ( ) around the version alone"
        )
    for rule in _items(root.get("diagnose")):
        log = rule.get("log")
        names = re.compile(str(log.value)).groupindex if log is not None and _compiles(log, problems) else {}
        for text in (rule.get("cause"), rule.get("do")):
            for name in re.findall(r"\{(\w+)\}", str(text.value) if text is not None else ""):
                if text is not None and name not in names:
                    problems.add(
                        text.place,
                        f"`{{{name}}}` stands for a group that `log` does not have",
                        f"write (?P<{name}>…) in `log`",
                    )
    for check in _checks(root.get("health")):
        when = check.get("instead_when")
        if when is not None:
            _compiles(when, problems)


def _compiles(node: Node, problems: Problems) -> bool:
    if not isinstance(node.value, str):
        return False
    try:
        re.compile(node.value)
    except (re.error, OverflowError, RecursionError) as error:
        problems.add(node.place, f"not a regular expression: {str(error)[:120]}", "see Python's re syntax")
        return False
    return True


def _check_templates(root: Node, problems: Problems) -> None:
    params = root.get("parameters")
    allowed = allowed_names(params.entries if params is not None and params.entries is not None else ())
    before = {name: names for name, names in allowed.items() if name in NEED_NAMES}
    for need in (*_items(root.get("images")), *_items(root.get("cpu")), *_items(root.get("overheads"))):
        when = need.get("when")
        if when is not None and isinstance(when.value, str):
            _report(when, check_condition(when.value, before), problems)
    container = root.get("container")
    texts: list[Node] = []
    if container is not None:
        for argument in _items(container.get("arguments")):
            texts.extend(_items(argument.get("args")))
            when = argument.get("when")
            if when is not None and isinstance(when.value, str):
                _report(when, check_condition(when.value, allowed), problems)
        texts.extend(_items(container.get("entrypoint")))
        texts.extend(_values(container.get("env")))
        texts.extend(node for node in (container.get("shm"),) if node is not None)
    texts.extend(
        node
        for check in _checks(root.get("health"))
        for key in ("path", "body", "equals")
        if (node := check.get(key)) is not None
    )
    for text in texts:
        check_text(text, allowed, problems)


def _check_shm(root: Node, problems: Problems) -> None:
    """A size as written is checked here; one that a template gives, when the plan is made."""
    container = root.get("container")
    shm = container.get("shm") if container is not None else None
    if shm is not None and "{" not in str(shm.value):
        _check_size(shm, "shm", problems)


def _check_size(node: Node, key: str, problems: Problems) -> None:
    if not isinstance(node.value, str):
        return
    try:
        parse_size(node.value)
    except ValueError as error:
        problems.add(node.place, f"`{key}` is {error}", "write a size such as 4GiB")


def _check_parameters(root: Node, problems: Problems) -> None:
    """A default must be a value that could be chosen."""
    parameters = root.get("parameters")
    for name, node in ((parameters.entries or {}) if parameters is not None else {}).items():
        default = node.get("default")
        if default is None or any(part.broken for part in (node, *_values(node))):
            continue
        fault = parameter_fault(default.value, from_data(plain(node), Parameter))
        if fault is not None:
            problems.add(default.place, f"the default of {show(name)} {fault[0]}", fault[1])


def _check_by_hand(root: Node, problems: Problems) -> None:
    """What may be written by hand must become something there is, and can't be refused as well."""
    parameters = root.get("parameters")
    known = (parameters.entries or {}) if parameters is not None else {}
    refused = {
        str(word.value)
        for refusal in _items(root.get("refuses"))
        for key in ("flags", "env")
        for word in _items(refusal.get(key))
    }
    for entry in _items(root.get("by_hand")):
        sets, unit, gives = entry.get("sets"), entry.get("unit"), entry.get("gives")
        for word in (*_items(entry.get("flags")), *_items(entry.get("env"))):
            if word.value in refused:
                problems.add(word.place, f"{show(word.value)} is in `refuses` as well", "keep one of them")
        what = str(sets.value) if sets is not None else ""
        name = what.removeprefix("params.")
        if unit is not None:
            _check_size(unit, "unit", problems)
            if what != "kv":
                problems.add(unit.at, "`unit` is for what sets `kv`", "remove it")
        if name != what and name not in known:
            problems.add(
                sets.place if sets else entry.place,
                f"there is no parameter {show(name)}",
                nearest(name, known),
            )
        elif gives is not None and name == what:
            problems.add(gives.place, "`gives` is for what sets a parameter", "remove it")
        elif gives is not None and not known[name].broken:
            fault = parameter_fault(gives.value, from_data(plain(known[name]), Parameter))
            if fault is not None:
                problems.add(gives.place, f"the value of {show(name)} {fault[0]}", fault[1])


def _check_engine_settings(root: Node, problems: Problems) -> None:
    """Some settings have a place of their own, and some would take all that the engine holds out of sight."""
    for step in _items(root.get("steps")):
        daemon = step.get("docker_daemon")
        settings = daemon.get("settings") if daemon is not None else None
        for key, value in ((settings.entries or {}) if settings is not None else {}).items():
            if key in _ELSEWHERE:
                problems.add(value.at, f"{show(key)} is not set here", _ELSEWHERE[key])
            elif key in _BLINDING or value.get("containerd-snapshotter") is not None:
                problems.add(
                    value.at,
                    f"{show(key)} would take the containers and images the engine holds out of its sight",
                    "set it in daemon.json yourself, before the engine holds any",
                )


def parameter_fault(value: object, parameter: Parameter) -> tuple[str, str] | None:
    """What is wrong with a parameter's value, and what to do; None when nothing is."""
    default = parameter.default
    if isinstance(default, float):
        right = isinstance(value, int | float) and not isinstance(value, bool)
    else:
        right = type(value) is type(default)
    if not right:
        return "is of another type", f"its default is {show(default)}"
    if parameter.choices and value not in parameter.choices:
        return f"can't be {show(value)}", f"choose from {', '.join(map(show, parameter.choices))}"
    if isinstance(value, int | float) and not isinstance(value, bool):
        if parameter.minimum is not None and value < parameter.minimum:
            return f"is {value}", f"at least {parameter.minimum:g}"
        if parameter.maximum is not None and value > parameter.maximum:
            return f"is {value}", f"at most {parameter.maximum:g}"
    return None


def check_text(node: Node, allowed: Allowed, problems: Problems) -> None:
    """Adds what is wrong with a template where it stands; what isn't text is somebody else's problem."""
    if isinstance(node.value, str):
        _report(node, check_template(node.value, allowed), problems)


def _report(node: Node, findings: Sequence[tuple[str, str]], problems: Problems) -> None:
    for what, do in findings:
        problems.add(node.place, what, do)


def _checks(health: Node | None) -> list[Node]:
    """All checks of a health section, with those that are asked instead of one."""
    if health is None:
        return []
    checks = [*_items(health.get("ready"))]
    for task in _values(health.get("tasks")):
        checks.extend(_items(task))
    checks.extend(node for key in ("closed", "busy") if (node := health.get(key)) is not None)
    for check in checks:  # grows
        instead = check.get("instead")
        if instead is not None:
            checks.append(instead)
    return checks


def _items(node: Node | None) -> tuple[Node, ...]:
    return () if node is None or node.items is None else node.items


def _values(node: Node | None) -> tuple[Node, ...]:
    return () if node is None or node.entries is None else tuple(node.entries.values())
