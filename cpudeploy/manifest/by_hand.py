"""What a model's `args` and `env` say although the playbook renders it. In: merged settings, a playbook.
Out: `Hand`. Pure.

Such a value becomes the model's own setting, as if its field had been written: sizing counts with it, and the
playbook renders it, once. It wins over the field, and that is told.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from dataclasses import field as struct_field
from typing import Any

from ..types.cpulist import format_cpulist, parse_cpulist
from ..types.playbook import ByHand, Playbook, Value
from .document import Node
from .flags import spells
from .playbooks import parameter_fault
from .problems import Problems, show
from .settings import Settings
from .sizes import parse_size

_NUMBERS = {"context": 100_000_000, "parallel": 1024, "kv": 2**50}
"""What takes a number, and the most of it; the same as of the manifest's own fields."""
_CPUS = re.compile(r"[0-9]{1,5}(-[0-9]{1,5})?(,[0-9]{1,5}(-[0-9]{1,5})?)*")


@dataclass(frozen=True)
class Hand:
    """fields: of the placement. params: of the playbook. args, env: what is left for the engine as written.
    warnings: a clause each, with the place of what it speaks of."""

    args: tuple[Node, ...] = ()
    env: Mapping[str, Node] = struct_field(default_factory=dict)
    fields: Mapping[str, Any] = struct_field(default_factory=dict)
    params: Mapping[str, Value] = struct_field(default_factory=dict)
    warnings: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class _Said:
    """One value written by hand. name: the flag or the variable that said it, as written."""

    entry: ByHand
    name: str
    node: Node
    value: Value

    @property
    def field(self) -> str:
        """The setting it is about: the context of a request follows from that of all."""
        return "context" if self.entry.sets == "context_total" else self.entry.sets

    @property
    def shown(self) -> str:
        """Flag or variable with its value, as written."""
        return show(self.name if self.entry.gives is not None else f"{self.name}={self.value}")


def read_by_hand(
    settings: Settings, playbook: Playbook | None, own: Mapping[str, Value], problems: Problems
) -> Hand:
    """What args and env set of what is rendered, and the rest of them. `own`: the backend's parameters.

    Values that make no sense are reported, and so is what is said twice.
    """
    args, env = settings.get("args"), settings.get("env")
    items = tuple(node for node in (args.items or () if args else ()) if not node.broken)
    variables = {name: node for name, node in (env.entries or {} if env else {}).items() if not node.broken}
    if playbook is None:
        return Hand(items, variables)
    said: dict[str, _Said] = {}
    left: list[Node] = []
    for each in (*_flags(items, playbook, left, problems), *_variables(variables, playbook)):
        first = said.setdefault(each.field, each)
        if first is not each:
            problems.add(
                each.node.place,
                f"{show(each.name)} says again what {show(first.name)} says at {first.node.place}",
                "keep one of them",
            )
    rest = {name: node for name, node in variables.items() if _of_variable(name, playbook) is None}
    meant = {
        what: value
        for what, each in said.items()
        if (value := _meaning(each, playbook, problems)) is not None
    }
    fields = _fields(said, meant, settings, problems)
    params = {
        what.removeprefix("params."): value for what, value in meant.items() if what.startswith("params.")
    }
    warnings = (*_won(said, fields, params, settings, own), *_harms(said))
    return Hand(tuple(left), rest, fields, params, warnings)


def _flags(
    items: tuple[Node, ...], playbook: Playbook, left: list[Node], problems: Problems
) -> Iterator[_Said]:
    """What the flags say; every other argument goes to `left`. A flag's value is behind its `=`, or next."""
    waiting = list(reversed(items))
    while waiting:
        node = waiting.pop()
        name, equals, value = str(node.value).partition("=")
        whole = name.partition(".")[0]
        entry = next((e for e in playbook.by_hand if any(spells(whole, flag) for flag in e.flags)), None)
        if entry is None:
            left.append(node)
        elif name != whole:
            problems.add(
                node.place,
                f"{show(name)} sets a part of {show(whole)}, which has none",
                f"write {show(whole)} alone",
            )
        elif entry.gives is not None:
            if equals:
                problems.add(node.place, f"{show(name)} takes no value", f"write {show(name)} alone")
            yield _Said(entry, name, node, entry.gives)
        elif equals:
            yield _Said(entry, name, node, value)
        else:
            if not waiting or str(waiting[-1].value).startswith("--"):
                problems.add(node.place, f"{show(name)} lacks its value", f"write it behind: {name}=…")
            else:
                given = waiting.pop()
                yield _Said(entry, name, given, str(given.value))


def _variables(variables: Mapping[str, Node], playbook: Playbook) -> Iterator[_Said]:
    for name, node in variables.items():
        entry = _of_variable(name, playbook)
        if entry is not None:
            yield _Said(entry, name, node, str(node.value))


def _of_variable(name: str, playbook: Playbook) -> ByHand | None:
    return next((entry for entry in playbook.by_hand if name in entry.env), None)


def _meaning(said: _Said, playbook: Playbook, problems: Problems) -> Value | None:
    """The value as what it sets has it; None when it makes no sense, which is reported."""
    if said.field in _NUMBERS:
        fault, value = _number(said)
    elif said.field == "bind":
        fault, value = _binding(str(said.value), said.entry)
    else:
        fault, value = _parameter(said, playbook)
    if fault is not None:
        problems.add(said.node.place, f"{show(said.name)} {fault[0]}", fault[1])
        return None
    return value


_Read = tuple[tuple[str, str] | None, Value | None]
"""What is wrong and what to do, or None; and the value."""


def _number(said: _Said) -> _Read:
    text, most = str(said.value), _NUMBERS[said.field]
    unit = parse_size(said.entry.unit) if said.entry.unit else 1
    what = f"a whole number of {said.entry.unit}" if said.entry.unit else "a whole number"
    if not (text.isascii() and text.isdecimal()) or not int(text[:20]):
        return (f"can't be {show(text)}", f"write {what}, at least 1"), None
    if len(text) > 20 or int(text) * unit > most:
        return (f"can't be {show(text)}", f"write {what}, at most {most // unit}"), None
    return None, int(text) * unit


def _binding(text: str, entry: ByHand) -> _Read:
    words = ", ".join(entry.harms)
    do = f"write {words + ', ' if words else ''}or the CPUs of each rank: 0-3, or 0-3|4-7 for two"
    if text in entry.harms:
        return None, text
    seen: set[int] = set()
    for ranks in text.split("|"):
        if not _CPUS.fullmatch(ranks):
            return (f"can't be {show(text)}", do), None
        try:
            cpus = parse_cpulist(ranks)
        except ValueError:
            return (f"can't be {show(text)}: a range goes up, and no machine has so many CPUs", do), None
        if seen & cpus:
            return (f"can't be {show(text)}: CPU {min(seen & cpus)} is there twice", do), None
        seen |= cpus
    return None, text


def _parameter(said: _Said, playbook: Playbook) -> _Read:
    parameter = playbook.parameters[said.entry.sets.removeprefix("params.")]
    value = said.value
    whole = isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= 15
    if type(parameter.default) is int and whole:
        value = int(value)
    return parameter_fault(value, parameter), value


def _fields(
    said: Mapping[str, _Said], meant: Mapping[str, Value], settings: Settings, problems: Problems
) -> dict[str, Any]:
    """The placement's fields that were set."""
    fields: dict[str, Any] = {name: meant[name] for name in (*_NUMBERS, "bind") if name in meant}
    if "context" in meant and said["context"].entry.sets == "context_total":
        parallel = fields.get("parallel") or settings.number("parallel") or 1
        fields["context"] = int(meant["context"]) // parallel
        if not fields["context"]:
            problems.add(
                said["context"].node.place,
                f"{show(said['context'].name)} is less than a token for each of {parallel} requests",
                "it is shared by all of them: write context × parallel",
            )
    bound = str(meant.get("bind", ""))
    if settings.missing("cpus") and bound[:1].isdecimal():
        # Where threads are to run is where the model runs.
        fields["cpus"] = format_cpulist(parse_cpulist(bound.replace("|", ",")))
    return fields


def _won(
    said: Mapping[str, _Said],
    fields: Mapping[str, Any],
    params: Mapping[str, Value],
    settings: Settings,
    own: Mapping[str, Value],
) -> Iterator[tuple[str, str]]:
    """What was also written in its own place, and otherwise."""
    for field, each in said.items():
        parameter = field.removeprefix("params.")
        now = params.get(parameter) if parameter != field else fields.get(field)
        written = own.get(parameter) if parameter != field else settings.number(field)
        if now is not None and written is not None and written != now:
            yield each.node.place, f"{each.shown} wins over `{field}: {_text(written)}`"


def _harms(said: Mapping[str, _Said]) -> Iterator[tuple[str, str]]:
    for each in said.values():
        harm = each.entry.harms.get(_text(each.value))
        if harm is not None:
            yield each.node.place, f"{each.shown}: {harm}"


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
