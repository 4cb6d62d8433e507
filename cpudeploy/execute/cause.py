"""What a log says: the line that is the cause, the lines worth showing, the last words. Pure.

Engines in Python end in several tracebacks, a process each: the one that failed writes first, what started it
writes last and only knows that something failed. Others repeat their error upwards in words that say less and
less. So the first real error is the cause, and a warning that speaks of errors is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

_SHOWN = 300
_LONGEST = 2000
"""Characters of a line that are looked at: patterns may take the square of that, and some lines are pages."""
_QUIET = frozenset({"DEBUG", "INFO", "WARNING", "D", "I", "W"})
_LOUD = frozenset({"ERROR", "CRITICAL", "FATAL", "E", "F"})
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_PROCESS = re.compile(r"\((?P<process>[\w][\w -]*pid=\d+)\) ?")
_LEVELS = (
    # vLLM: `ERROR 11-30 20:22:26 [core.py:1510] `
    re.compile(r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d \[[^\]]*\] ?"),
    # llama.cpp: `0.00.004.295 E `
    re.compile(r"\d+(?:\.\d+){2,} (?P<level>[DIWE]) +"),
    # torch: `W1130 20:22:23.478000 18248 torch/_library/triton.py:53] `, `[W1130 20:22:24.62 utils.cpp:68] `
    re.compile(r"\[?(?P<level>[DIWEF])\d{4} \d\d:\d\d:\d\d\.\d+ [^\]]*\] "),
    # uvicorn and others: `ERROR:    `
    re.compile(r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL|FATAL):\s+"),
)
_UNASKED = re.compile(r"\b\w*Warning: |^Exception ignored in")
"""What Python itself says beside a program's own words."""
_ERROR = re.compile(
    r"\b(error|fatal|failed|exception|invalid|cannot|can't|couldn't|unable|not found|insufficient)\b"
    r"|Error\b|Exception\b|Killed",
    re.IGNORECASE,
)
_TRACEBACK = "Traceback (most recent call last):"
_EXCEPTION = re.compile(r"(?:[A-Za-z_]\w*\.)*(?P<name>[A-Za-z_]\w*)(?P<message>: .*)?")
_CHAINED = (
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)
_ELSEWHERE = re.compile(
    r"see (the )?(root cause|stack ?trace)|see above|hit an exception|failed to start|cancelled",
    re.IGNORECASE,
)
"""What only says that something else failed."""
_DEATH = re.compile(r"\b(died|exited) unexpectedly\b")
"""Of a process that was killed and left no word itself; some only warn of it."""
_ENDED_BY_OTHERS = frozenset({"KeyboardInterrupt", "SystemExit", "CancelledError"})
_VALIDATION = re.compile(r"\d+ validation errors? for ")
_VALIDATION_TAIL = re.compile(r" \[type=\w+.*$")


@dataclass(frozen=True)
class _Line:
    """`process`: who of several wrote it, as it calls itself; `level`: empty where the line has none."""

    process: str
    level: str
    text: str

    @property
    def quiet(self) -> bool:
        return self.level in _QUIET or (not self.level and bool(_UNASKED.search(self.text)))


def plain(line: str) -> str:
    """A line as it would stand on a terminal in the end: no colours, of a progress bar the last state."""
    states = [part for part in _COLOUR.sub("", line).rstrip().split("\r") if part.strip()]
    return states[-1][:_LONGEST] if states else ""


def words(line: str) -> str:
    """What a line says, without time, level and process."""
    return cut(_parsed(line).text)


def last_words(log: Iterable[str]) -> str:
    """The last line that says something; empty when none does."""
    return "".join(map(words, telling(log, 1)))


def telling(log: Iterable[str], count: int) -> tuple[str, ...]:
    """The last `count` lines that say something: no empty ones, none of the frames of a traceback."""
    told: list[str] = []
    inside: set[str] = set()
    for line in map(plain, log):
        parsed = _parsed(line)
        if parsed.text.strip() == _TRACEBACK:
            inside.add(parsed.process)
        elif parsed.process in inside and parsed.text[:1].isspace():
            continue
        elif parsed.text.strip():
            inside.discard(parsed.process)
            told.append(line)
    return tuple(told[-count:])


def shown(log: Sequence[str], count: int) -> tuple[str, ...]:
    """At most `count` lines for people: the last that say something, and before them the first real error
    where it is not among them."""
    lines = telling(log, count)
    said = root_cause(log)[: _SHOWN // 2]
    if not said or any(said in " ".join(line.split()) for line in lines):
        return lines
    first = next((line for line in map(plain, log) if said in " ".join(line.split())), "")
    return (first, *lines[1 - count :]) if first else lines


def root_cause(log: Sequence[str]) -> str:
    """The first real error; empty when nothing looks like one."""
    lines = [_parsed(line) for line in log]
    elsewhere = ""
    for exception in _exceptions(lines):
        if not _ELSEWHERE.search(exception):
            return cut(exception)
        elsewhere = elsewhere or exception
    outside = list(_outside_tracebacks(lines))
    death = next((line.text for line in outside if _DEATH.search(line.text)), "")
    loud = [line.text for line in outside if _is_error(line)]
    own = next((text for text in loud if not _ELSEWHERE.search(text)), "")
    if death or own or not elsewhere:
        return cut(death or own or next(iter(loud), ""))
    return cut(f"a process was killed, or ended without a word; another says: {elsewhere}")


def _outside_tracebacks(lines: Iterable[_Line]) -> Iterator[_Line]:
    """Lines that belong to no traceback, nor are what it came to."""
    inside: set[str] = set()
    for line in lines:
        if line.text.strip() == _TRACEBACK:
            inside.add(line.process)
        elif line.process in inside:
            if line.text.strip() and not line.text[:1].isspace():
                inside.discard(line.process)
        else:
            yield line


def _is_error(line: _Line) -> bool:
    return bool(line.text.strip()) and (
        line.level in _LOUD or (not line.quiet and bool(_ERROR.search(line.text)))
    )


def _exceptions(lines: Sequence[_Line]) -> Iterator[str]:
    """What each traceback came to, in the order they were written. Of a chain it is the last, which tells
    most, unless that only points to the one before it."""
    for index, line in enumerate(lines):
        if line.text.strip() != _TRACEBACK or line.quiet:
            continue
        before = [
            other.text for other in lines[:index] if other.process == line.process and other.text.strip()
        ]
        if before and before[-1].strip().startswith(("Exception ignored", *_CHAINED)):
            continue
        rest = [other.text for other in lines[index + 1 :] if other.process == line.process]
        chain = list(_chain(rest))
        own = [each for each in chain if not _ELSEWHERE.search(each)]
        if chain:
            yield (own or chain)[-1]


def _chain(texts: Sequence[str]) -> Iterator[str]:
    """The exceptions of one traceback and of those it was the cause of; `texts` begin with its frames."""
    at = 0
    while True:
        while at < len(texts) and (not texts[at].strip() or texts[at][:1].isspace()):
            at += 1
        found = _EXCEPTION.fullmatch(texts[at].strip()) if at < len(texts) else None
        if found is None:
            return
        if found["name"] not in _ENDED_BY_OTHERS:
            yield _exception(found, texts[at + 1 :])
        at += 1
        while at < len(texts) and not texts[at].strip().startswith((*_CHAINED, _TRACEBACK)):
            at += 1
        if at == len(texts) or texts[at].strip() == _TRACEBACK:
            return
        at += 1
        while at < len(texts) and texts[at].strip() != _TRACEBACK:
            at += 1
        at += 1


def _exception(found: re.Match[str], after: Sequence[str]) -> str:
    """One line: an exception's name without its module, and its message; of invalid values the first."""
    message = found["message"] or ""
    if _VALIDATION.match(message[2:]):
        detail = next((text.strip() for text in after if text.strip()), "")
        return _VALIDATION_TAIL.sub("", detail.removeprefix("Value error, ")) or found.group()
    return found["name"] + message


def _parsed(line: str) -> _Line:
    text, process, level = plain(line), "", ""
    if found := _PROCESS.match(text):
        text, process = text[found.end() :], found["process"]
    for pattern in _LEVELS:
        if found := pattern.match(text):
            text, level = text[found.end() :], found["level"]
            break
    return _Line(process, level, text)


def cut(text: str) -> str:
    """One line of bounded length."""
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
