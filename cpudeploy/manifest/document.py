"""One YAML file as a tree that remembers where everything was written. In: a path. Out: a Node.

The file is untrusted: size, depth and expansion by aliases are bounded, tags and merge keys are refused,
nothing is constructed but maps, lists and scalars. Reads the one file it is given.
"""

from __future__ import annotations

import posixpath
import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Protocol

import yaml

from .problems import Problems, show
from .scalars import AmbiguousScalar, Scalar, plain_value

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 40
MAX_NODES = 100_000
_AT_ONCE = 50_000
"""Events that are read before the first is looked at: more than a manifest or a playbook has."""
_READ_DIFFERENTLY = re.compile(r"\t|(?:^|[\s\[{,:?-])!", re.MULTILINE)
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")

NodePath = tuple[str | int, ...]
"""Keys and list indexes from the root of a document."""


@dataclass(frozen=True)
class Node:
    """A value and its places: `where` it begins, `at` its key if it has one (else the same).

    Exactly one of `entries` (a map), `items` (a list) and `value` (a scalar) speaks. `broken`: already
    reported; its value means nothing. `folder`: that of its file, as the manifest's own folder sees it.
    """

    where: str
    at: str = ""
    value: Scalar = None
    entries: Mapping[str, Node] | None = None
    items: tuple[Node, ...] | None = None
    broken: bool = False
    folder: str = ""

    @property
    def place(self) -> str:
        """Where a reader looks first: a scalar itself, the key of a map or list."""
        return self.where if self.entries is None and self.items is None else self.at or self.where

    def get(self, key: str) -> Node | None:
        """An entry of a map; None when absent or when this is no map."""
        return None if self.entries is None else self.entries.get(key)

    @property
    def path(self) -> str:
        """A text that names a file, as seen from the manifest's folder."""
        text = str(self.value)
        return text if text.startswith("~") else posixpath.join(self.folder, text)


def plain(node: Node) -> object:
    """The tree as dicts, lists and scalars."""
    if node.entries is not None:
        return {key: plain(value) for key, value in node.entries.items()}
    if node.items is not None:
        return [plain(item) for item in node.items]
    return node.value


def read_document(path: Path, problems: Problems) -> Node:
    """The file's single YAML document. Problems that leave a tree are added; others raise ManifestError."""
    text = _read_text(path, problems)
    root = _Composer(str(path), text, problems).compose()
    if root is None:
        problems.raise_if_any()
        raise AssertionError("a document without a root was not reported")
    return root


def read_included(path: Path, folder: str, named: Node, problems: Problems) -> Node | None:
    """The document of a file that another one names at `named`; None when it can't be read, with problems.

    `folder`: that of the file, as the manifest's own folder sees it.
    """
    try:
        # Only files: opening a pipe would wait for whoever writes it.
        if not stat.S_ISREG(path.stat().st_mode):
            raise ValueError("is not a file")
        text = read_text(path).removeprefix("\ufeff")
    except OSError as error:
        problems.add(
            named.place,
            f"the file {show(named.value)} can't be read: {(error.strerror or 'unknown error').lower()}",
            "paths are relative to the file they stand in",
        )
    except ValueError as error:
        problems.add(named.place, f"{show(named.value)} {error}", "name a small UTF-8 text file")
    else:
        return _Composer(str(path), text, problems, folder).compose()
    return None


def read_text(path: Path) -> str:
    """A small UTF-8 text file. Raises OSError, or ValueError saying what is wrong."""
    if path.is_dir():
        raise IsADirectoryError(21, "is a directory")
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ValueError("is larger than 1 MiB")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line, column = before.count(b"\n") + 1, len(before) - before.rfind(b"\n")
        raise ValueError(f"is not UTF-8 text (line {line}, byte {column})") from None


def _read_text(path: Path, problems: Problems) -> str:
    try:
        return read_text(path).removeprefix("\ufeff")
    except FileNotFoundError:
        problems.add(str(path), "there is no such file", "name an inventory; the README shows a short one")
    except IsADirectoryError:
        problems.add(str(path), "this is a folder", f"name a file in it, such as {path / 'inventory.yaml'}")
    except OSError as error:
        problems.add(str(path), f"the file can't be read: {(error.strerror or 'unknown error').lower()}")
    except ValueError as error:
        problems.add(str(path), f"the file {error}", "an inventory is a small UTF-8 text file")
    problems.raise_if_any()
    raise AssertionError("unreachable: every failure above was reported")


class _Mark(Protocol):
    """A place as the parser counts: from zero. Its C and Python forms share no class."""

    line: int
    column: int


class _Refused(Exception):
    """The document can't be read any further; the reason was reported."""


def _events(text: str) -> Iterable[yaml.Event]:
    """What the YAML says. libyaml reads it ten times as fast. What it refuses, PyYAML's own parser refuses in
    the same place, and says why in words that hold for every version of it; what it alone lets through, tabs
    and empty tags, it is not asked about."""
    fast = getattr(yaml, "CSafeLoader", None)
    if fast is not None and not _READ_DIFFERENTLY.search(text):
        try:
            events = list(islice(yaml.parse(text, Loader=fast), _AT_ONCE))
        except (yaml.YAMLError, ValueError):
            pass
        else:
            if len(events) < _AT_ONCE:
                return events
    return yaml.parse(text, Loader=yaml.SafeLoader)


@dataclass
class _Frame:
    """A map or list being read. `key` is None while a key is expected; `skip` drops the coming value."""

    where: str
    anchor: str | None
    is_map: bool
    folder: str
    entries: dict[str, Node] = field(default_factory=dict)
    items: list[Node] = field(default_factory=list)
    key: str | None = None
    key_where: str = ""
    skip: bool = False
    broken: bool = False
    size: int = 1

    def node(self) -> Node:
        if self.broken:
            return Node(self.where, broken=True)
        if self.is_map:
            return Node(self.where, entries=self.entries, folder=self.folder)
        return Node(self.where, items=tuple(self.items), folder=self.folder)


class _Composer:
    """Events of the YAML parser to nodes, on a stack of our own: depth is a limit, not a crash."""

    def __init__(self, name: str, text: str, problems: Problems, folder: str = "") -> None:
        self._name = name
        self._text = text
        self._folder = folder
        self._problems = problems
        self._stack: list[_Frame] = []
        self._anchors: dict[str, tuple[Node, int]] = {}
        self._root: Node | None = None

    def compose(self) -> Node | None:
        try:
            self._read_events()
        except _Refused:
            return None
        if self._root is None:
            self._problems.add(f"{self._name}:1:1", "the file is empty", "the README shows a short one")
        return self._root

    def _read_events(self) -> None:
        documents = 0
        last: yaml.Event | None = None
        try:
            for event in _events(self._text):
                last = event
                documents += isinstance(event, yaml.DocumentStartEvent)
                if documents > 1:
                    self._refuse(
                        self._at(event.start_mark), "a second document begins here", "one file, one manifest"
                    )
                self._take(event)
        except yaml.MarkedYAMLError as error:
            self._syntax(error)
        except yaml.reader.ReaderError as error:
            self._refuse(self._at_index(error.position), "a control character", "remove it")
        except (ValueError, OverflowError):
            # The scanner turns escapes such as "\\UFFFFFFFF" into characters without looking.
            place = self._at(last.end_mark if last is not None else None)
            self._refuse(place, "after this, an escape that is no character", "write the character itself")

    def _take(self, event: yaml.Event) -> None:
        where = self._at(event.start_mark)
        if isinstance(event, yaml.AliasEvent):
            known = self._anchors.get(event.anchor or "")
            if known is None:
                self._refuse(
                    where,
                    f"no finished value is named {show(event.anchor)} before this",
                    "name it first",
                )
            else:
                self._complete(known[0], known[1], where)
        elif isinstance(event, yaml.ScalarEvent):
            self._scalar(event, where)
        elif isinstance(event, yaml.CollectionStartEvent):
            if len(self._stack) >= MAX_DEPTH:
                self._refuse(where, f"nested more than {MAX_DEPTH} deep", "no key of a manifest is that deep")
            is_map = isinstance(event, yaml.MappingStartEvent)
            tagged = self._has_tag(event.tag, where)
            self._stack.append(_Frame(where, event.anchor, is_map, self._folder, broken=tagged))
        elif isinstance(event, yaml.CollectionEndEvent):
            frame = self._stack.pop()
            node = frame.node()
            if frame.anchor is not None:
                self._anchors[frame.anchor] = (node, frame.size)
            self._complete(node, frame.size, frame.where)

    def _scalar(self, event: yaml.ScalarEvent, where: str) -> None:
        frame = self._stack[-1] if self._stack else None
        broken = self._has_tag(event.tag, where)
        control = _CONTROL.search(event.value)
        if control:
            self._problems.add(where, f"a control character (U+{ord(control[0]):04X})", "remove it")
            broken = True
        quoted = not event.implicit[0]
        if frame is not None and frame.is_map and frame.key is None:
            self._key(frame, event.value, where, quoted)
            return
        node = Node(where, value=event.value, broken=broken, folder=self._folder)
        if not quoted and not broken:
            try:
                node = replace(node, value=plain_value(event.value))
            except AmbiguousScalar as error:
                self._problems.add(where, error.what, error.do)
                node = replace(node, value=None, broken=True)
        if event.anchor is not None:
            self._anchors[event.anchor] = (node, 1)
        self._complete(node, 1, where)

    def _key(self, frame: _Frame, text: str, where: str, quoted: bool) -> None:
        """Keys are names: their text counts as written, `8080` and `0.21` and `on` included."""
        frame.key, frame.key_where, frame.skip = text, where, True
        if text == "<<" and not quoted:
            self._problems.add(
                where, "merge keys (`<<`) are not taken", "use defaults for what several share"
            )
        elif text in ("", "~", "null") and not quoted:
            self._problems.add(where, "a key without a name", "give it one")
        elif text in frame.entries:
            first = frame.entries[text].at.rsplit(":", 2)[1]
            self._problems.add(
                where, f"the key {show(text)} is here twice, first in line {first}", "keep one"
            )
        else:
            frame.skip = bool(_CONTROL.search(text))

    def _complete(self, node: Node, size: int, where: str) -> None:
        """A finished value goes to whoever waits for it."""
        if not self._stack:
            self._root = node
            return
        frame = self._stack[-1]
        frame.size += size
        if frame.size > MAX_NODES:
            self._refuse(
                where, f"more than {MAX_NODES} values, aliases counted each time", "write less of it"
            )
        if not frame.is_map:
            frame.items.append(node)
        elif frame.key is None:
            self._problems.add(where, "a key must be plain text", "write it as `name: value`")
            frame.key, frame.skip = "", True
        else:
            if not frame.skip:
                frame.entries[frame.key] = replace(node, at=frame.key_where)
            frame.key = None

    def _has_tag(self, tag: str | None, where: str) -> bool:
        if tag is not None:
            do = "remove it; quote text that looks like a number"
            self._problems.add(where, f"the tag {show(tag)} is not taken", do)
        return tag is not None

    def _syntax(self, error: yaml.MarkedYAMLError) -> None:
        mark = error.problem_mark or error.context_mark
        index = mark.index if mark is not None else 0
        if self._text[index : index + 1] == "\t":
            self._refuse(self._at(mark), "a tab where YAML takes only spaces", "indent with spaces")
        reason = error.problem or error.context or "unreadable"
        self._refuse(
            self._at(mark), f"not valid YAML: {reason[:120]}", "check indentation, colons and quotes here"
        )

    def _refuse(self, where: str, what: str, do: str) -> None:
        self._problems.add(where, what, do)
        raise _Refused

    def _at(self, mark: _Mark | None) -> str:
        return self._name if mark is None else f"{self._name}:{mark.line + 1}:{mark.column + 1}"

    def _at_index(self, index: int) -> str:
        before = self._text[:index]
        return f"{self._name}:{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}"
