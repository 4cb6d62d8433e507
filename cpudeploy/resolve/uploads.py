"""Models on the controller that are sent to hosts: their files with checksums, and what their headers say.

In: the path of a GGUF file or of a folder. Out: ResolvedWeights whose files are had from here. A file is
hashed once, and again when its size, times or inode are others.
"""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath

from ..errors import HubError
from ..types.deployment import Upload
from ..types.resolved import ResolvedWeights, WeightFile
from .cache import Cache
from .local import LocalModel, check_regular, read_local
from .selection import SELECT, Format
from .trees import tree_id

_PIECE = 1 << 20
_AT_ONCE = 2

_UPLOAD: dict[Format, str] = {
    "gguf": "name the file itself: `upload: folder/model.gguf`",
    "safetensors": "name the folder with the model's config.json and safetensors: `upload: folder`",
}
"""What to do where nothing in a path is a model, by what the engine reads."""


def from_here(source: Upload, base: str, form: Format, cache: Cache) -> ResolvedWeights:
    """The model of `source`, seen from the folder `base`. Raises HubError where it can't be read, or a link
    in it leads elsewhere."""
    try:
        path = Path(base, Path(source.path).expanduser())
    except RuntimeError:
        raise HubError(
            "lies in a home that nobody has", where=source.path, do="write its whole path"
        ) from None
    found = _read(path, form)
    chosen = found.chosen
    paths = [found.folder / file.path for file in chosen.files]
    for each in paths:
        if each != path:  # what somebody named may be a link to anywhere
            _refuse_link_outside(each, found.folder)
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        sums = list(pool.map(lambda each: local_sha256(each, cache), paths))
    names = [PurePosixPath(file.path).name if chosen.entry else file.path for file in chosen.files]
    files = tuple(
        WeightFile(name=name, size=size, sha256=sha256, urls=(), upload=str(each.absolute()))
        for name, each, (sha256, size) in zip(names, paths, sums, strict=True)
    )
    return ResolvedWeights(
        tree=tree_id(path.name, ((file.name, file.sha256) for file in files)),
        source=f"upload {source.path}",
        revision="",
        files=files,
        entry=PurePosixPath(chosen.entry).name,
        shape=found.told.shape,
        tensors=found.told.tensors,
        variants=chosen.variants,
        notes=found.told.notes,
    )


def _read(path: Path, form: Format) -> LocalModel:
    try:
        return read_local(path, form)
    except HubError as error:
        if error.do == SELECT:  # nothing stands beside `upload` to choose with
            error.do = _UPLOAD[form]
        raise


def local_sha256(path: Path, cache: Cache) -> tuple[str, int]:
    """Checksum and bytes of a file of this machine; read only when it is not as it was. Raises HubError."""
    try:
        check_regular(path)
        with path.open("rb") as file:
            before = _identity(os.fstat(file.fileno()))
            key = f"{path.absolute()} {before}"
            known = cache.get("uploads", key, str)
            if known is None:
                digest = hashlib.sha256()
                while piece := file.read(_PIECE):
                    digest.update(piece)
                if _identity(os.fstat(file.fileno())) != before:
                    raise HubError(
                        "it changes while it is read", where=str(path), do="wait until it is written"
                    )
                known = digest.hexdigest()
                cache.put("uploads", key, known)
            return known, os.fstat(file.fileno()).st_size
    except OSError as error:
        raise HubError(
            f"can't be read ({error.strerror or error})", where=str(path), do="check the path and its rights"
        ) from None


def changed(file: WeightFile, folder: Path | None) -> str:
    """Why a file of this machine is not what a plan names; empty where it is. `folder`: of the cache."""
    try:
        sha256, _ = local_sha256(Path(file.upload), Cache(folder))
    except HubError as error:
        return error.what
    return "" if sha256 == file.sha256 else "it changed since this was planned"


def _identity(stat: os.stat_result) -> str:
    return f"{stat.st_size} {stat.st_mtime_ns} {stat.st_ctime_ns} {stat.st_dev} {stat.st_ino}"


def _refuse_link_outside(file: Path, folder: Path) -> None:
    """A folder from elsewhere must not make us send what lies beside it. The Hub's own cache is one of links:
    its snapshots lead to the blobs of the same repository."""
    allowed = [folder.resolve()]
    if allowed[0].parent.name == "snapshots":
        allowed.append(allowed[0].parents[1] / "blobs")
    target = file.resolve()
    if not any(target.is_relative_to(each) for each in allowed):
        raise HubError(
            f"it is a link to {target}, outside of the folder",
            where=str(file),
            do="put the file itself there, or leave the link out",
        )
