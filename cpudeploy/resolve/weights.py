"""A model's source becomes files with sizes and checksums, and what its header says.

In: a source of the manifest, the Hub to ask, what the hosts already hold. Out: ResolvedWeights, with
a tree id that names exactly this content. Weights themselves are never downloaded here.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

import msgspec

from ..errors import HubError
from ..secrets import Secrets
from ..types.deployment import HostPath, HuggingFace, Source, Url
from ..types.resolved import GgufHeader, ResolvedWeights, WeightFile
from .cache import Cache
from .files import Files
from .gguf import Parsed, describe
from .hub import Hub, Snapshot, snapshot
from .selection import Format, Listed, safe_name, select

_AT_ONCE = 8


@dataclass(frozen=True)
class Asking:
    """Whom to ask, and what is known without asking. `held`: sha256 → bytes of blobs that hosts hold."""

    hub: Hub
    secrets: Secrets
    cache: Cache
    held: Mapping[str, int]


def resolve_weights(source: Source, form: Format, asking: Asking) -> ResolvedWeights:
    """The files of `source`. Raises HubError (names every address asked) and SecretError."""
    if isinstance(source, HuggingFace):
        return _from_hub(source, form, asking)
    if isinstance(source, Url):
        return _from_url(source, asking)
    return _from_host(source)


def tree_id(name: str, files: Iterable[tuple[str, str]]) -> str:
    """`<slug>-<12 hex>` for files as (name, sha256): safe as a file name, the same for the same content.

    The hex is of `sha256sum`-like lines sorted by name, so it can be recomputed by hand.
    """
    lines = "".join(f"{sha256}  {file}\n" for file, sha256 in sorted(files))
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:80].strip("-") or "model"
    return f"{slug}-{hashlib.sha256(lines.encode()).hexdigest()[:12]}"


def _from_hub(source: HuggingFace, form: Format, asking: Asking) -> ResolvedWeights:
    token = asking.secrets.get(source.token) if source.token else None
    found = snapshot(asking.hub, source.repo, source.revision, token)
    where = f"huggingface {source.repo}@{source.revision}"
    chosen = select(found.files, quant=source.quant, globs=source.files, form=form, where=where)
    prefix = f"{asking.hub.origin}/"
    with Files(token, prefix) as web:
        with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
            sums = list(pool.map(lambda file: _checksum(file, found, web, asking.cache), chosen.files))
        # An engine is pointed at one GGUF whose shards lie beside it; other formats are a folder.
        names = [PurePosixPath(file.path).name if chosen.entry else file.path for file in chosen.files]
        if len(set(names)) < len(names):
            raise HubError("two of the selected files have the same name", where=where, do="narrow `files`")
        files = tuple(
            WeightFile(
                name=name,
                size=file.size,
                sha256=sha256,
                urls=found.urls(file.path),
                token=source.token,
                token_for=prefix if source.token else "",
            )
            for name, file, sha256 in zip(names, chosen.files, sums, strict=True)
        )
        entry = PurePosixPath(chosen.entry).name
        gguf = _header(files, entry, web, asking.cache, where) if entry else None
    return ResolvedWeights(
        tree=tree_id(source.repo, ((file.name, file.sha256) for file in files)),
        source=f"huggingface {source.repo}@{found.commit[:7]}",
        revision=found.commit,
        files=files,
        entry=entry,
        gguf=gguf,
        notes=found.notes,
    )


def _from_url(source: Url, asking: Asking) -> ResolvedWeights:
    name = PurePosixPath(unquote(urlsplit(source.url).path)).name
    sha256 = source.sha256.lower()
    if not safe_name(name):
        raise HubError("the address does not end in a file name", where=source.url, do="name the file itself")
    notes: tuple[str, ...] = ()
    with Files() as web:
        try:
            size = web.size(source.url)
        except HubError as error:
            if sha256 not in asking.held:
                raise
            size, notes = (
                asking.held[sha256],
                (f"the address does not answer ({error.what}); hosts hold the file",),
            )
        files = (WeightFile(name=name, size=size, sha256=sha256, urls=(source.url,)),)
        is_gguf = name.lower().endswith(".gguf")
        gguf = _header(files, name, web, asking.cache, source.url) if is_gguf else None
    return ResolvedWeights(
        tree=tree_id(name, [(name, sha256)]),
        source=f"url {source.url}",
        revision="",
        files=files,
        entry=name,
        gguf=gguf,
        notes=notes,
    )


def _from_host(source: HostPath) -> ResolvedWeights:
    return ResolvedWeights(
        tree="",
        source=f"path {source.path}",
        revision="",
        files=(),
        entry=PurePosixPath(source.path).name,
        notes=("mounted where it lies: size and header are not read from here",),
    )


def _checksum(file: Listed, found: Snapshot, web: Files, cache: Cache) -> str:
    """sha256 from the Hub for LFS files; small files that only git knows are fetched and hashed, once."""
    if file.sha256 is not None:
        return file.sha256
    key = f"{found.repo}@{found.commit}/{file.path}"
    known = cache.get("checksums", key, str)
    if known is None:
        known = web.sha256(found.urls(file.path), file.size, file.blob)
        cache.put("checksums", key, known)
    return known


def _header(files: Sequence[WeightFile], entry: str, web: Files, cache: Cache, where: str) -> GgufHeader:
    """The entry's header; the tensors of a model in shards are those of all its shards."""
    shards = [file for file in files if file.name == entry or _same_shards(file.name, entry)]
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        parsed = dict(zip(shards, pool.map(lambda file: _parsed(file, web, cache), shards), strict=True))
    first = next(file for file in shards if file.name == entry)
    header = describe(parsed[first], size=first.size, where=f"{where} {entry}")
    rest = sum(
        max(shard.size - its.data_offset, 0) if its.unknown_types else its.tensor_bytes
        for shard, its in parsed.items()
        if shard is not first
    )
    return msgspec.structs.replace(header, tensor_bytes=header.tensor_bytes + rest)


def _parsed(file: WeightFile, web: Files, cache: Cache) -> Parsed:
    known = cache.get("gguf", file.sha256, Parsed)
    if known is None:
        known = web.header(file.urls)
        cache.put("gguf", file.sha256, known)
    return known


def _same_shards(name: str, entry: str) -> bool:
    shard = r"-\d{5}-of-\d{5}\.gguf"
    return bool(re.search(shard, name)) and re.sub(shard, "", name) == re.sub(shard, "", entry)
