"""Models that lie on the controller: the same headers, read from files.

In: the path of a GGUF file or of a folder. Out: its files and what they say. Nothing is written or hashed.
"""

from __future__ import annotations

import itertools
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..errors import HubError
from . import gguf, safetensors
from .files import SMALL, read_header
from .headers import Told, told_by
from .selection import Format, Listed, Selection, safe_name, same_model, select

_MAX_FILES = 10_000


@dataclass(frozen=True)
class LocalModel:
    """`folder`: below which the chosen files lie. `told`: what they say."""

    folder: Path
    chosen: Selection
    told: Told


def read_local(path: Path, form: Format, *, quant: str | None = None) -> LocalModel:
    """The model at `path`: a GGUF with its shards, or what is chosen of a folder. Raises HubError."""
    where = str(path)
    try:
        if path.is_dir():
            folder = path
            chosen = select(_listed(path), quant=quant, globs=(), form=form, where=where)
        else:
            folder = path.parent
            check_regular(path)
            names = [
                file.name for file in folder.iterdir() if same_model(file.name, path.name) and file.is_file()
            ]
            listed = [Listed(name, (folder / name).stat().st_size) for name in names]
            chosen = select(listed, quant=None, globs=(), form="gguf", where=where)
        sizes = {file.path: file.size for file in chosen.files}
        return LocalModel(folder, chosen, told_by(sizes, chosen.entry, _Reader(folder), where))
    except OSError as error:
        raise HubError(
            f"can't be read ({error.strerror or error})", where=where, do="check the path and its rights"
        ) from None


def check_regular(path: Path) -> None:
    """Raises HubError for pipes and devices, which may be read for ever, and OSError for what is gone."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise HubError("it is neither a file nor a folder", where=str(path), do="name the model's own file")


@dataclass(frozen=True)
class _Reader:
    """Headers of files below a folder."""

    folder: Path

    def gguf(self, name: str) -> gguf.Parsed:
        with (self.folder / name).open("rb") as file:
            return read_header(file, str(self.folder / name), gguf.parse_header)

    def safetensors(self, name: str) -> safetensors.Header:
        with (self.folder / name).open("rb") as file:
            return read_header(file, str(self.folder / name), safetensors.parse_header)

    def text(self, name: str) -> str:
        path = self.folder / name
        if path.stat().st_size > SMALL:
            raise HubError("larger than such a file should be", where=str(path), do="check the folder")
        return path.read_text("utf-8", errors="replace")


def _listed(folder: Path) -> list[Listed]:
    """Every file that may be part of a model. Raises HubError for a folder of far more than that."""
    found = list(itertools.islice(_below(folder), _MAX_FILES + 1))
    if len(found) > _MAX_FILES:
        raise HubError(
            f"holds more than {_MAX_FILES} files", where=str(folder), do="name the folder of one model"
        )
    names = {file.relative_to(folder).as_posix(): file for file in found}
    return [Listed(name, file.stat().st_size) for name, file in names.items() if safe_name(name)]


def _below(folder: Path) -> Iterator[Path]:
    """Files, but those that version control and downloads keep for themselves; links to folders are none."""
    for root, folders, names in os.walk(folder):
        folders[:] = [each for each in folders if not each.startswith(".")]
        files = (Path(root, name) for name in names if not name.startswith("."))
        yield from (file for file in files if file.is_file())
