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
from ..types.shape import Variant
from ..types.words import decimal_size

Format = Literal["gguf", "safetensors"]

_SHARD = re.compile(r"(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.IGNORECASE)
_PROJECTOR = re.compile(r"(?:^|[-._])mmproj(?:[-._]|$)", re.IGNORECASE)
# What quantisations are called in file names: Q4_K_M, IQ4_XS, Q8_0, UD-Q4_K_XL, TQ1_0, BF16, MXFP4_MOE.
_QUANT = re.compile(
    r"(?<![A-Za-z0-9])(?:UD[-_])?(?:I?Q\d+(?:_[A-Z0-9]+)*|TQ\d+_\d+|B?F16|F32|FP(?:16|32)|MXFP4(?:_MOE)?|NVFP4)"
    r"(?![A-Za-z0-9_])",
    re.IGNORECASE,
)
_LISTED = 25
# What an engine reads of a safetensors repository: weights, configuration, tokenizer, templates.
_FOLDER = ("*.safetensors", "*.json", "*.txt", "*.model", "*.tiktoken", "*.jinja")
# The same model once more, for other programs.
_ELSEWHERE = (
    "original/*",
    "onnx/*",
    "openvino/*",
    "consolidated*.safetensors",
    "*/consolidated*.safetensors",
)


@dataclass(frozen=True)
class Listed:
    """A file as a repository lists it: path, bytes, sha256 where the Hub knows it, git's own blob id."""

    path: str
    size: int
    sha256: str | None = None
    blob: str | None = None


@dataclass(frozen=True)
class Selection:
    """The chosen files in name order; `entry` is a path among them, empty for a folder as a whole.

    projector: the path among them that lets the model see. variants: what else there is of this model, the
    smallest first.
    """

    files: tuple[Listed, ...]
    entry: str
    projector: str = ""
    variants: tuple[Variant, ...] = ()


def safe_name(name: str) -> bool:
    """Whether a name from outside may become a file below a folder of ours."""
    parts = name.split("/")
    return (
        0 < len(name) <= 512
        and name.isprintable()
        and "\\" not in name
        and not any(part in ("", ".", "..") or len(part.encode()) > 255 for part in parts)
    )


def same_model(name: str, entry: str) -> bool:
    """Whether a file is `entry`, or another shard of the model that `entry` is a shard of."""
    its, shard = _SHARD.fullmatch(name), _SHARD.fullmatch(entry)
    return name == entry or bool(its and shard and its["stem"] == shard["stem"])


def quant_of(path: str) -> str:
    """The quantisation that a file's name tells (`Q4_K_M`), or its folder's where it tells none, or empty."""
    pure = PurePosixPath(path)
    for part in (pure.name, str(pure.parent)):
        if told := _QUANT.findall(part):
            return str(told[-1]).upper()
    return ""


def select(
    listed: Iterable[Listed],
    *,
    quant: str | None,
    globs: Sequence[str],
    form: Format,
    where: str,
    mmproj: str | None = None,
    exclude: Sequence[str] = (),
) -> Selection:
    """The files that the selectors name; what `exclude` names is as if it were not there.

    Raises HubError that lists the choices with their sizes.
    """
    everything = sorted(
        (file for file in listed if not _matches(file.path, exclude)), key=lambda file: file.path
    )
    chosen = _by_globs(everything, globs, where) if globs else everything
    if form == "safetensors" and quant is None:
        if mmproj is not None:
            raise HubError(
                "`mmproj` is for .gguf files; a folder of safetensors has its own",
                where=where,
                do="leave it out",
            )
        chosen = chosen if globs else _folder(chosen)
        if not any(file.path.endswith(".safetensors") for file in chosen):
            raise HubError(f"no .safetensors file; there is {_names(everything)}", where=where, do=SELECT)
        return Selection(tuple(chosen), entry="")
    models = _models(chosen)
    if quant is not None:
        fitting = {stem: files for stem, files in models.items() if _has_quant(stem, quant)}
        if not fitting:
            raise _no_quant(quant, models, where)
        # Q4_K_M is also in `UD-Q4_K_M`, which has a name of its own.
        exact = {stem: files for stem, files in fitting.items() if quant_of(files[0].path) == quant.upper()}
        models = exact or fitting
    if not models:
        raise HubError(f"no .gguf file of a model; there is {_names(everything)}", where=where, do=SELECT)
    if len(models) > 1:
        stem, files = next(iter(models.items()))
        name = files[0].path if len(files) == 1 else f"{stem}-*.gguf"
        do = SELECT if quant is None else f'name one beside the repository: `files: ["{name}"]`'
        raise HubError(f"several models fit: {_choices(models)}", where=where, do=do)
    [shards] = models.values()
    _check_shards(shards, where)
    taken = {file.path: file for file in shards}
    taken.update({file.path: file for file in chosen if globs and not _is_model(file.path)})
    projector = _projector(everything, mmproj, where) if mmproj is not None else None
    if projector is not None:
        taken[projector.path] = projector
    return Selection(
        tuple(taken[path] for path in sorted(taken)),
        entry=shards[0].path,
        projector=projector.path if projector else "",
        variants=_variants(shards[0].path, everything),
    )


SELECT = 'choose with `quant: Q4_K_M` or `files: ["name.gguf"]` beside the repository'


def _folder(files: Sequence[Listed]) -> list[Listed]:
    """What an engine reads of a folder, its weights once."""
    found = [file for file in files if _matches(file.path, _FOLDER)]
    once = [file for file in found if not _matches(file.path, _ELSEWHERE)]
    return once if any(file.path.endswith(".safetensors") for file in once) else found


def _projector(everything: Sequence[Listed], pattern: str, where: str) -> Listed:
    """The one file that a `mmproj` pattern names, by its path or its last part."""
    there = [file for file in everything if _is_projector(file.path)]
    fitting = [
        file for file in there if _matches(file.path, [pattern]) or _matches(_name(file.path), [pattern])
    ]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise HubError(
            f"several files fit `mmproj: {pattern}`: {_names(fitting)}", where=where, do="name one of them"
        )
    raise HubError(
        f"no mmproj file matches `{pattern}`; there is {_names(there)}", where=where, do="correct `mmproj`"
    )


def _variants(entry: str, everything: Sequence[Listed]) -> tuple[Variant, ...]:
    """Other quantisations of the model that `entry` begins: files of the same name but for that."""
    told = [
        Variant(quant=quant_of(path), size=sum(file.size for file in files))
        for path, files in ((files[0].path, files) for files in _models(everything).values())
        if path != entry and quant_of(path) and _without_quant(path) == _without_quant(entry)
    ]
    return tuple(sorted(dict.fromkeys(told), key=lambda each: (each.size, each.quant)))


def _without_quant(path: str) -> str:
    name = _SHARD.sub(r"\g<stem>.gguf", _name(path))
    return re.sub(r"[-._]+", "-", _QUANT.sub("", name)).lower()


def _name(path: str) -> str:
    return PurePosixPath(path).name


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
    return path.lower().endswith(".gguf") and not _is_projector(path)


def _is_projector(path: str) -> bool:
    name = _name(path)
    return name.lower().endswith(".gguf") and _PROJECTOR.search(name[: -len(".gguf")]) is not None


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
        f"no file of quant {quant}; there is {_choices(models)}",
        where=where,
        do="take one of them: `quant` in the manifest, `--quant` on the command line of recommend",
    )


def _choices(models: dict[str, list[Listed]]) -> str:
    shown = [
        f"{stem}.gguf ({decimal_size(sum(file.size for file in files))})" for stem, files in models.items()
    ]
    return _cut(shown)


def _names(files: Sequence[Listed]) -> str:
    return _cut([f"{file.path} ({decimal_size(file.size)})" for file in files]) or "nothing"


def _cut(shown: Sequence[str]) -> str:
    more = f" and {len(shown) - _LISTED} more" if len(shown) > _LISTED else ""
    return ", ".join(shown[:_LISTED]) + more
