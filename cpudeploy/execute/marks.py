"""Secrets as marks (salted scrypt), so that it can be told later whether one changed. Values go nowhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..secrets import Secrets, mark, same
from ..types.release import SecretFile


def secret_marks(
    files: Iterable[SecretFile], secrets: Secrets, known: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Path → mark of the value it has now. A mark that is `known` and still true is kept: marks of the same
    value differ, and a file that says the same should be the same."""
    marks = {}
    for file in files:
        value, old = secrets.get(file.secret).reveal(), (known or {}).get(file.path, "")
        marks[file.path] = old if same(value, old) else mark(value)
    return marks
