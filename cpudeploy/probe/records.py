"""The probe's document as records: `key code bytes`, that many bytes, a newline. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import HostError
from ..types.base import Unknown


@dataclass(frozen=True)
class Record:
    """What one question to the host gave. code 0: text is the answer, else it says why there is none."""

    code: int
    text: str

    @property
    def lines(self) -> list[str]:
        """The answer's lines; none of a failure."""
        return self.text.splitlines() if self.code == 0 else []


class Records:
    """All records of a document, by key. `host`: whose they are."""

    def __init__(self, document: bytes, host: str) -> None:
        self.host = host
        self._records: dict[str, Record] = {}
        at = 0
        while at < len(document):
            newline = document.find(b"\n", at)
            header = document[at : newline if newline >= 0 else len(document)]
            try:
                key, code, size = header.decode(errors="replace").rsplit(" ", 2)
                start, end = newline + 1, newline + 1 + int(size)
                record = Record(int(code), document[start:end].decode(errors="replace"))
            except ValueError:
                raise self._broken(header) from None
            if newline < 0 or document[end : end + 1] != b"\n":
                raise self._broken(header)
            self._records[key] = record
            at = end + 1
        if "end" not in self._records:
            raise self._broken(b"no end")

    def _broken(self, header: bytes) -> HostError:
        shown = header[:80].decode(errors="replace")
        return HostError(f"the facts of this host came back damaged (at {shown!r})", where=self.host)

    def get(self, key: str) -> Record | None:
        return self._records.get(key)

    def text(self, key: str) -> str:
        """The answer, empty if there is none."""
        record = self.get(key)
        return record.text if record is not None and record.code == 0 else ""

    def lines(self, key: str) -> list[str]:
        record = self.get(key)
        return record.lines if record is not None else []

    def why(self, key: str, otherwise: str) -> Unknown:
        """Why there is no answer to `key`."""
        record = self.get(key)
        reason = record.text.strip() if record is not None and record.code != 0 else ""
        return Unknown(unknown=reason or otherwise)

    def below(self, prefix: str) -> dict[str, Record]:
        """Records whose key begins with `prefix`, by the rest of it."""
        return {
            key.removeprefix(prefix): record
            for key, record in self._records.items()
            if key.startswith(prefix)
        }
