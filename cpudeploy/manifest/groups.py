"""Which hosts there are, in which groups. In: `defaults`, `hosts` and `groups`. Out: `Declared`. Pure.

Ranges are written out here, and groups end here: what they say is a layer of each of their hosts.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from .document import Node, plain
from .merge import HOST_KEYS, MODEL_KEYS, merge, only
from .problems import Problems, nearest, show
from .ranges import Range, find_range

_MOST_HOSTS = 10_000
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")


@dataclass(frozen=True)
class DeclaredHost:
    """A host's name with everything that bears on it, outermost layer first, its own entry last."""

    name: str
    node: Node
    layers: tuple[Node, ...]

    @property
    def model_layers(self) -> tuple[Node, ...]:
        """The same layers, only what models inherit."""
        return tuple(only(layer, MODEL_KEYS) for layer in self.layers)


@dataclass(frozen=True)
class Declared:
    """Every host a manifest names, broken ones included, and each group's hosts in the manifest's order."""

    hosts: Mapping[str, DeclaredHost]
    groups: Mapping[str, tuple[str, ...]]


@dataclass
class _Group:
    """A group as written. `depth`: 1 at the top. `members`: its own hosts, then those of groups inside it."""

    name: str
    node: Node
    depth: int
    members: dict[str, None] = field(default_factory=dict)

    @property
    def settings(self) -> Node:
        return only(self.node, (*HOST_KEYS, *MODEL_KEYS))


def declare(root: Node, problems: Problems) -> Declared:
    """The hosts of `hosts` and of every group, with their layers. Every problem is added."""
    census = _Census(problems)
    hosts = root.get("hosts")
    if hosts is not None:
        census.declare(hosts)
    groups = root.get("groups")
    if groups is not None:
        census.group(groups, ())
    census.resolve_lists()
    if not census.hosts and not problems:
        problems.add(root.place, "the manifest names no host", "list the machines under `hosts`")
    defaults = root.get("defaults")
    outer = () if defaults is None or defaults.broken else (defaults,)
    declared = {
        name: DeclaredHost(name, own, (*outer, *census.layers(name, own), own))
        for name, own in census.own_settings().items()
    }
    return Declared(declared, {name: tuple(group.members) for name, group in census.groups.items()})


class _Census:
    """Counts hosts and groups once through the document, then settles what only names refer to."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._listed: list[tuple[_Group, tuple[_Group, ...], Node]] = []
        self._by_range: dict[str, Node] = {}
        self._by_name: dict[str, Node] = {}
        self._groups_of: dict[str, dict[str, _Group]] = {}
        self._told: set[tuple[str, ...]] = set()
        self._written = 0
        self.hosts: dict[str, None] = {}
        self.groups: dict[str, _Group] = {}

    def declare(self, hosts: Node) -> list[str]:
        """The hosts of a map, each with its own settings; ranges written out."""
        names = []
        for written, node in (hosts.entries or {}).items():
            found = self._range(written, node.at)
            for name, own in self._with_settings(found, node):
                if not self._is_name(name, node):
                    continue
                self._add(name, own, self._by_range if isinstance(found, Range) else self._by_name)
                self.hosts[name] = None
                names.append(name)
        return names

    def group(self, groups: Node, above: tuple[_Group, ...]) -> None:
        """The groups of a map and those inside them."""
        for name, node in (groups.entries or {}).items():
            known = self.groups.get(name)
            if known is not None:
                self._problems.add(
                    node.at,
                    f"a group {show(name)} is there already",
                    f"choose another name; see {known.node.at}",
                )
            group = _Group(name, node, len(above) + 1)
            self.groups.setdefault(name, group)
            hosts = node.get("hosts")
            if hosts is not None and hosts.entries is not None:
                for host in self.declare(hosts):
                    self._join(host, (*above, group))
            elif hosts is not None:
                self._listed.append((group, above, hosts))
            inner = node.get("groups")
            if inner is not None:
                self.group(inner, (*above, group))

    def resolve_lists(self) -> None:
        """Hosts that groups name and others declare; and that no name is a host's and a group's."""
        for group, above, listed in self._listed:
            for item in listed.items or ():
                for host in self._known(item) if not item.broken else ():
                    self._join(host, (*above, group))
        for name, group in self.groups.items():
            if name in self.hosts:
                self._problems.add(
                    group.node.at, f"{show(name)} is the name of a host too", "call one of them otherwise"
                )

    def own_settings(self) -> dict[str, Node]:
        """Each host's own settings: those of its range, and over them those under its name."""
        found = {}
        for name in self.hosts:
            layers = [part[name] for part in (self._by_range, self._by_name) if name in part]
            broken = next((node for node in layers if node.broken), None)
            found[name] = broken or (layers[0] if len(layers) == 1 else merge(layers))
        return found

    def layers(self, host: str, own: Node) -> tuple[Node, ...]:
        """What a host's groups say, the outermost first. Where two of a depth disagree is reported."""
        mine = sorted(self._groups_of.get(host, {}).values(), key=lambda group: group.depth)
        for depth, several in itertools.groupby(mine, key=lambda group: group.depth):
            together = Node("", entries={})
            for group in several:
                for path, one, other in _disagreements(together, group.settings):
                    closer = [own, *(deeper.settings for deeper in mine if deeper.depth > depth)]
                    if not any(_says(layer, path) for layer in closer):
                        self._disagree(host, group, path, one, other)
                together = merge((together, group.settings))
        return tuple(group.settings for group in mine)

    def _disagree(self, host: str, group: _Group, path: tuple[str, ...], one: Node, other: Node) -> None:
        """Told once, however many hosts are in both."""
        if (group.name, *path) in self._told:
            return
        self._told.add((group.name, *path))
        first = next(
            known.name
            for known in self._groups_of[host].values()
            if known.depth == group.depth and _says(known.settings, path)
        )
        self._problems.add(
            other.place,
            f"groups {show(first)} and {show(group.name)} disagree on {show('.'.join(path))}, "
            f"and host {show(host)} is in both",
            f"set it for the host, or in one of them alone; the other is at {one.place}",
        )

    def _join(self, host: str, groups: tuple[_Group, ...]) -> None:
        for group in groups:
            group.members[host] = None
            self._groups_of.setdefault(host, {})[group.name] = group

    def _add(self, name: str, own: Node, part: dict[str, Node]) -> None:
        known = part.get(name)
        if known is None or (known.entries == {} and not known.broken):
            part[name] = own
        elif own.broken or own.entries != {}:
            self._problems.add(
                own.at,
                f"host {show(name)} has settings in two places",
                f"keep them in one, and only name it in the other; the first is at {known.at}",
            )

    def _known(self, item: Node) -> tuple[str, ...]:
        """The declared hosts that an entry of a list names; the first that is none of them is reported."""
        found = self._range(str(item.value), item.place)
        names = found.texts() if isinstance(found, Range) else (found,)
        unknown = next((name for name in names if name not in self.hosts), None)
        if unknown in self.groups:
            what = f"{show(unknown)} is a group, and this is a list of hosts"
            self._problems.add(item.place, what, "put groups inside groups under `groups`")
        elif unknown is not None and self._is_name(unknown, item):
            self._problems.add(item.place, f"there is no host {show(unknown)}", nearest(unknown, self.hosts))
        return tuple(name for name in names if name in self.hosts)

    def _range(self, written: str, where: str) -> Range | str:
        """The range a name has, else the name; a wrong range is reported and none."""
        try:
            found = find_range(written)
        except ValueError as error:
            self._problems.add(where, f"the name {show(written)} {error}", "write it as in xeon-[01:04]")
            return ""
        if found is None:
            return written
        self._written += len(found)
        if self._written <= _MOST_HOSTS:
            return found
        self._problems.add(where, f"ranges stand for more than {_MOST_HOSTS} hosts", "write fewer")
        return ""

    def _with_settings(self, names: Range | str, node: Node) -> list[tuple[str, Node]]:
        """Each host of a name with its settings, the address counted along."""
        written = names.texts() if isinstance(names, Range) else (names,)
        address = node.get("address")
        if address is None or address.broken:
            return [(name, node) for name in written]
        text = str(address.value)
        try:
            places = find_range(text)
        except ValueError as error:
            self._problems.add(
                address.place, f"the address {show(text)} {error}", "write it as in 10.20.1.[11:14]"
            )
            return [(name, _without_address(node)) for name in written]
        addresses = places.texts() if places is not None else (text,)
        if len(addresses) == len(written):
            return [
                (
                    name,
                    replace(node, entries={**(node.entries or {}), "address": replace(address, value=each)}),
                )
                for name, each in zip(written, addresses, strict=True)
            ]
        self._problems.add(
            address.place,
            f"the name stands for {_count(written)}, the address {show(text)} for {_count(addresses)}",
            "write as long a range in both, or leave the address out",
        )
        return [(name, _without_address(node)) for name in written]

    def _is_name(self, name: str, named: Node) -> bool:
        """Reported unless it was: by the shape, or as a range that is none."""
        if _NAME.fullmatch(name):
            return True
        if name and not named.broken:
            self._problems.add(
                named.at or named.where,
                f"{show(name)} must be a name of lower-case letters, digits and `-`, beginning with a letter "
                "or digit, at most 40 long",
                "choose another name",
            )
        return False


def _without_address(node: Node) -> Node:
    """The settings of a host whose address was reported: its own name stands in."""
    return replace(
        node, entries={key: value for key, value in (node.entries or {}).items() if key != "address"}
    )


def _count(texts: tuple[str, ...]) -> str:
    return "one host" if len(texts) == 1 else f"{len(texts)} hosts"


def _disagreements(
    one: Node, other: Node, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Node, Node]]:
    """Keys that both set and that can't be both, with their two values."""
    for key, value in (other.entries or {}).items():
        known = one.get(key)
        if known is None or known.broken or value.broken:
            continue
        if known.entries is not None and value.entries is not None and key not in _WHOLE:
            yield from _disagreements(known, value, (*path, key))
        elif plain(known) != plain(value):
            yield (*path, key), known, value


_WHOLE = frozenset({"source", "api_key", "password"})
"""Maps that are one value: where they came from two groups, their parts would make a third."""


def _says(layer: Node, path: tuple[str, ...]) -> bool:
    """Whether a layer settles a key, itself or by something around it that is no map."""
    node: Node | None = layer
    for key in path:
        node = node.get(key) if node is not None else None
        if node is not None and node.entries is None:
            return True
    return node is not None
