"""The engine's byte streams as something typed: log frames and pull progress. Pure; no connection."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ..errors import EngineError

_HEADER = 8
_DONE = ("Download complete", "Pull complete", "Extracting", "Verifying Checksum")


def frames(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The payloads of a multiplexed stream (8 byte header: stream, 3 zeros, length big-endian)."""
    held = b""
    for chunk in chunks:
        held += chunk
        while len(held) >= _HEADER:
            end = _HEADER + int.from_bytes(held[4:_HEADER], "big")
            if len(held) < end:
                break
            yield held[_HEADER:end]
            held = held[end:]


def lines(payloads: Iterable[bytes]) -> Iterator[str]:
    """Text lines of a log, a last one without newline included."""
    held: list[bytes] = []  # joined once a line: a progress bar of hours is one
    for payload in payloads:
        first, *others = payload.split(b"\n")
        held.append(first)
        for other in others:
            yield _text(held)
            held = [other]
    if any(held):
        yield _text(held)


def _text(pieces: Iterable[bytes]) -> str:
    return b"".join(pieces).decode(errors="replace").rstrip("\r")


def messages(text_lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """The JSON messages of a pull. Raises EngineError for an error told inside the stream."""
    for line in text_lines:
        if not line.strip():
            continue
        message: dict[str, Any] = json.loads(line)
        if "error" in message or "errorDetail" in message:
            detail = message.get("errorDetail") or {}
            raise EngineError(str(detail.get("message") or message.get("error")))
        yield message


@dataclass
class PullProgress:
    """Layers' messages summed into bytes done of total. `expected`: the plan's size, 0 when unknown."""

    expected: int
    _done: dict[str, int] = field(default_factory=dict)
    _total: dict[str, int] = field(default_factory=dict)
    _unpacked: set[str] = field(default_factory=set)
    _begun: set[str] = field(default_factory=set)

    def take(self, message: dict[str, Any]) -> bool:
        """Count one message; True when it shows that something moved."""
        layer, status = str(message.get("id") or ""), str(message.get("status") or "")
        detail = message.get("progressDetail") or {}
        if status == "Downloading":
            before = self._done.get(layer, 0)
            self._total[layer] = max(int(detail.get("total") or 0), self._total.get(layer, 0))
            self._done[layer] = max(int(detail.get("current") or 0), before)
            return self._done[layer] > before
        if status == "Extracting":
            self._begun.add(layer)
        elif status == "Pull complete":
            self._unpacked.add(layer)
        if status in _DONE and layer in self._total:
            self._done[layer] = self._total[layer]
        return not status.startswith("Retrying")

    @property
    def done(self) -> int:
        """Bytes downloaded so far."""
        return sum(self._done.values())

    @property
    def unpacking(self) -> str:
        """`unpacking layer 2 of 5`, while one is; empty otherwise."""
        if not self._begun - self._unpacked:
            return ""
        return f"unpacking layer {len(self._unpacked) + 1} of {max(len(self._total), len(self._begun))}"

    @property
    def total(self) -> int:
        """Bytes to download, as far as known."""
        return max(self.expected, sum(self._total.values()))
