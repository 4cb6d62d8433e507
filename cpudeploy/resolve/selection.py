"""Which files of a repository are the model. Pure.

In: the names and sizes a Hub listed, which are hostile until checked here, and the manifest's
selectors. Out: the files and the one an engine is pointed at. No match and several matches are
errors that list what there is.
"""

from __future__ import annotations

import difflib
import fnmatch
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

from ..errors import HubError

Format = Literal["gguf", "safetensors"]

_SHARD = re.compile(r"(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.IGNORECASE)
_PROJECTOR = re.compile(r"mmproj[-._]", re.IGNORECASE)
_LISTED = 25
# What an engine reads of a safetensors repository: weights, configuration, tokenizer, templates.
_FOLDER = ("*.safetensors", "*.json", "*.txt", "*.model", "*.tiktoken", "*.jinja")


@dataclass(frozen=True)
class Listed:
    """A file as a repository lists it: path, bytes, sha256 where the Hub knows it, git's own blob id."""

    path: str
    size: int
    sha256: str | None = None
    blob: str | None = None


@dataclass(frozen=True)
class Selection:
    """The chosen files in name order; `entry` is a path among them, empty for a folder as a whole."""

    files: tuple[Listed, ...]
    entry: str


def safe_name(name: str) -> bool:
    """Whether a name from outside may become a file below a folder of ours."""
    parts = name.split("/")
    return (
        0 < len(name) <= 512
        and name.isprintable()
        and "\\" not in name
        and not any(part in ("", ".", "..") or len(part.encode()) > 255 for part in parts)
    )


def select(
    listed: Iterable[Listed], *, quant: str | None, globs: Sequence[str], form: Format, where: str
) -> Selection:
    """The files that the selectors name. Raises HubError that lists the choices with their sizes."""
    everything = sorted(listed, key=lambda file: file.path)
    chosen = _by_globs(everything, globs, where) if globs else everything
    if form == "safetensors" and quant is None:
        chosen = chosen if globs else [file for file in chosen if _matches(file.path, _FOLDER)]
        if not any(file.path.endswith(".safetensors") for file in chosen):
            raise HubError(f"no .safetensors file; there is {_names(everything)}", where=where, do=_SELECT)
        return Selection(tuple(chosen), entry="")
    models = _models(chosen)
    if quant is not None:
        fitting = {stem: files for stem, files in models.items() if _has_quant(stem, quant)}
        if not fitting:
            raise _no_quant(quant, models, where)
        models = fitting
    if not models:
        raise HubError(f"no .gguf file of a model; there is {_names(everything)}", where=where, do=_SELECT)
    if len(models) > 1:
        raise HubError(f"several models fit: {_choices(models)}", where=where, do=_SELECT)
    [shards] = models.values()
    _check_shards(shards, where)
    beside = [file for file in chosen if globs and not _is_model(file.path)]
    return Selection(tuple(sorted([*shards, *beside], key=lambda file: file.path)), entry=shards[0].path)


_SELECT = 'choose with `quant: Q4_K_M` or `files: ["name.gguf"]` beside the repository'


def _by_globs(everything: Sequence[Listed], globs: Sequence[str], where: str) -> list[Listed]:
    names = [file.path for file in everything]
    for pattern in globs:
        if not any(_matches(name, [pattern]) for name in names):
            near = difflib.get_close_matches(pattern, names, n=3, cutoff=0.5)
            hint = f"nearest: {', '.join(near)}" if near else f"there is {_names(everything)}"
            raise HubError(f"no file matches `{pattern}`; {hint}", where=where, do="correct `files`")
    return [file for file in everything if _matches(file.path, globs)]


def _matches(path: str, globs: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(path, pattern) for pattern in globs)


def _is_model(path: str) -> bool:
    """A model's own GGUF, not the projector of a vision model beside it."""
    return path.lower().endswith(".gguf") and not _PROJECTOR.match(PurePosixPath(path).name)


def _models(files: Iterable[Listed]) -> dict[str, list[Listed]]:
    """GGUF models by their path without shard number and ending; shards in order."""
    models: dict[str, list[Listed]] = {}
    for file in files:
        if _is_model(file.path):
            shard = _SHARD.fullmatch(file.path)
            models.setdefault(shard["stem"] if shard else file.path[: -len(".gguf")], []).append(file)
    return models


def _has_quant(stem: str, quant: str) -> bool:
    """Q4_K is not in `x-Q4_K_M`, F16 not in `x-BF16`, but both in `x_F16` and `Q4_K/x`."""
    pattern = rf"(?<![A-Za-z0-9]){re.escape(quant)}(?![A-Za-z0-9_])"
    return re.search(pattern, stem, re.IGNORECASE) is not None


def _check_shards(shards: Sequence[Listed], where: str) -> None:
    numbers = [_SHARD.fullmatch(file.path) for file in shards]
    first = numbers[0]
    if first is None and len(shards) == 1:
        return
    count = int(first["count"]) if first else 0
    there = [int(shard["number"]) if shard else 0 for shard in numbers]
    if there != list(range(1, count + 1)):
        missing = sorted(set(range(1, count + 1)) - set(there))[:5]
        what = (
            f"shards {', '.join(map(str, missing))} of {count} are missing"
            if missing
            else "shards don't fit together"
        )
        raise HubError(
            f"{shards[0].path}: {what}", where=where, do="select all shards, or another repository"
        )


def _no_quant(quant: str, models: dict[str, list[Listed]], where: str) -> HubError:
    if not models:
        return HubError(
            f"no .gguf file at all, so no quant {quant}", where=where, do="name a repository with GGUF files"
        )
    return HubError(
        f"no file of quant {quant}; there is {_choices(models)}", where=where, do="correct `quant`"
    )


def _choices(models: dict[str, list[Listed]]) -> str:
    shown = [f"{stem}.gguf ({size_text(sum(file.size for file in files))})" for stem, files in models.items()]
    return _cut(shown)


def _names(files: Sequence[Listed]) -> str:
    return _cut([f"{file.path} ({size_text(file.size)})" for file in files]) or "nothing"


def _cut(shown: Sequence[str]) -> str:
    more = f" and {len(shown) - _LISTED} more" if len(shown) > _LISTED else ""
    return ", ".join(shown[:_LISTED]) + more


def size_text(size: int) -> str:
    """Bytes for people: `986 kB`, `2.5 GB`."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= factor:
            value = size / factor
            return f"{value:.1f} {unit}" if value < 10 else f"{value:.0f} {unit}"
    return f"{size} B"
