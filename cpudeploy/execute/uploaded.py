"""A weights file of this machine, sent to the host as it is read.

In: where the file lies and what the host has of it. Out: how the attempt ended. The host's checksum decides
whether it is still the file that the plan names.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from ..errors import StalePlan
from ..types.operation import Fetch
from ..types.resolved import WeightFile
from .fetching import Attempt, Shell
from .streamed import pushed

_PIECE = 64 << 10


def uploaded_attempt(host: Shell, operation: Fetch) -> Attempt:
    """Attempts that read the file and push it to the host's script."""
    return pushed(host, operation, lambda path, offset: _pieces(Path(path), offset, operation.file))


def other_file(file: WeightFile, why: str) -> StalePlan:
    """The error for a file that is not what the plan names."""
    return StalePlan(f"{file.upload}: {why}", do="plan again")


def _pieces(path: Path, offset: int, file: WeightFile) -> Iterator[bytes]:
    """The file from `offset` to its end. Raises StalePlan where it is another one, or gone."""
    left = file.size - offset
    try:
        with path.open("rb") as source:
            if os.fstat(source.fileno()).st_size != file.size:
                raise other_file(file, "it changed since this was planned")
            source.seek(offset)
            while left and (piece := source.read(min(_PIECE, left))):
                left -= len(piece)
                yield piece
    except OSError as error:
        raise other_file(file, f"can't be read any more ({error.strerror or error})") from None
    if left:
        raise other_file(file, "it changed since this was planned")
