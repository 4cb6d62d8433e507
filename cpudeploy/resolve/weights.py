"""A model's source becomes files with sizes and checksums, and what its header says.

In: a source of the manifest, the Hub to ask, what the hosts already hold. Out: ResolvedWeights, with
a tree id that names exactly this content. Weights themselves are never downloaded here.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

import msgspec

from ..errors import HubError
from ..secrets import Secrets
from ..types.deployment import HostPath, HuggingFace, Source, Url
from ..types.resolved import ResolvedWeights, WeightFile
from ..types.shape import ModelShape, Tensors
from .cache import Cache
from .files import Files
from .gguf import Parsed
from .gguf_shape import describe, tensors_of
from .hub import Hub, Snapshot, snapshot
from .known import HeldTree, source_text
from .selection import Format, Listed, safe_name, select

_AT_ONCE = 8
_UNREAD = (None, None)


@dataclass(frozen=True)
class Asking:
    """Whom to ask, and what is known without asking. `held`: sha256 → bytes of blobs that hosts hold."""

    hub: Hub
    secrets: Secrets
    cache: Cache
    held: Mapping[str, int]


def resolve_weights(
    source: Source, form: Format, asking: Asking, released: HeldTree | None = None
) -> ResolvedWeights:
    """The files of `source`. `released`: what every host that is to have them holds of the last release,
    for when no Hub answers. Raises HubError (names every address asked) and SecretError."""
    if isinstance(source, HuggingFace):
        return _from_hub(source, form, asking, released)
    if isinstance(source, Url):
        return _from_url(source, asking)
    if isinstance(source, HostPath):
        return _from_host(source)
    raise HubError(f"files from {type(source).__name__.lower()} can't be had yet", where=str(source))


def tree_id(name: str, files: Iterable[tuple[str, str]]) -> str:
    """`<slug>-<12 hex>` for files as (name, sha256): safe as a file name, the same for the same content.

    The hex is of `sha256sum`-like lines sorted by name, so it can be recomputed by hand.
    """
    lines = "".join(f"{sha256}  {file}\n" for file, sha256 in sorted(files))
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:80].strip("-") or "model"
    return f"{slug}-{hashlib.sha256(lines.encode()).hexdigest()[:12]}"


def _from_hub(
    source: HuggingFace, form: Format, asking: Asking, released: HeldTree | None
) -> ResolvedWeights:
    token = asking.secrets.get(source.token) if source.token else None
    where = f"huggingface {source.repo}@{source.revision}"
    try:
        found = snapshot(asking.hub, source.repo, source.revision, token)
    except HubError as error:
        kept = _from_release(source, form, asking, released)
        if kept is None:
            raise
        told = " ".join(error.what.split())
        return msgspec.structs.replace(kept, notes=(f"{told}; every host holds the last release's files",))
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
        # A header can't be checked against the file's checksum: it is the word of who is asked for it.
        order = sorted(found.endpoints, key=lambda endpoint: endpoint != found.authority)
        asked = {
            file.sha256: [
                (_told_by(asking.hub, endpoint), found.url(endpoint, listed.path)) for endpoint in order
            ]
            for file, listed in zip(files, chosen.files, strict=True)
        }
        entry = PurePosixPath(chosen.entry).name

        def parsed(file: WeightFile) -> Parsed:
            return _header_of(file.sha256, asked[file.sha256], web, asking.cache)

        shape, tensors = _header(files, entry, parsed, where) if entry else _UNREAD
    return ResolvedWeights(
        tree=tree_id(source.repo, ((file.name, file.sha256) for file in files)),
        source=source_text(source, found.commit),
        revision=found.commit,
        files=files,
        entry=entry,
        shape=shape,
        tensors=tensors,
        notes=found.notes,
    )


def _from_release(
    source: HuggingFace, form: Format, asking: Asking, released: HeldTree | None
) -> ResolvedWeights | None:
    """The files that hosts hold, where they are what `source` selects and their headers are known here."""
    if released is None or tree_id(source.repo, released.sums.items()) != released.tree:
        return None
    listed = [Listed(name, asking.held[sha256], sha256) for name, sha256 in released.sums.items()]
    where = f"huggingface {source.repo}@{source.revision}"
    try:
        chosen = select(listed, quant=source.quant, globs=source.files, form=form, where=where)
    except HubError:
        return None
    if len(chosen.files) != len(listed):
        return None
    files = tuple(
        WeightFile(name=file.path, size=file.size, sha256=released.sums[file.path], urls=())
        for file in chosen.files
    )

    def parsed(file: WeightFile) -> Parsed:
        for endpoint in reversed(asking.hub.endpoints):
            known = asking.cache.get("gguf", f"{_told_by(asking.hub, endpoint)} {file.sha256}", Parsed)
            if known is not None:
                return known
        raise HubError("its header is not known here", where=where)

    try:
        shape, tensors = _header(files, chosen.entry, parsed, where) if chosen.entry else _UNREAD
    except HubError:
        return None
    return ResolvedWeights(
        tree=released.tree,
        source=released.source,
        revision=released.revision,
        files=files,
        entry=chosen.entry,
        shape=shape,
        tensors=tensors,
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

        def parsed(file: WeightFile) -> Parsed:
            return _header_of(file.sha256, [(source.url, source.url)], web, asking.cache)

        shape, tensors = _header(files, name, parsed, source.url) if is_gguf else _UNREAD
    return ResolvedWeights(
        tree=tree_id(name, [(name, sha256)]),
        source=f"url {source.url}",
        revision="",
        files=files,
        entry=name,
        shape=shape,
        tensors=tensors,
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
    # Git's id is of the content, which is checked against it: whoever listed it, the sum is right.
    known = cache.get("checksums", file.blob, str) if file.blob else None
    if known is None:
        known = web.sha256(found.urls(file.path), file.size, file.blob)
        if file.blob:
            cache.put("checksums", file.blob, known)
    return known


def _header(
    files: Sequence[WeightFile], entry: str, parsed_of: Callable[[WeightFile], Parsed], where: str
) -> tuple[ModelShape, Tensors]:
    """The entry's header; the tensors of a model in shards are those of all its shards."""
    shards = [file for file in files if file.name == entry or _same_shards(file.name, entry)]
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        parsed = dict(zip(shards, pool.map(parsed_of, shards), strict=True))
    first = next(file for file in shards if file.name == entry)
    shape = describe(
        parsed[first], where=f"{where} {entry}", parameters=sum(each.parameters for each in parsed.values())
    )
    order = sorted(shards, key=lambda file: file != first)
    return shape, tensors_of([(parsed[file], file.size) for file in order])


def _header_of(sha256: str, asked: Sequence[tuple[str, str]], web: Files, cache: Cache) -> Parsed:
    """A file's header from the first of `asked` (who, URL) that serves it, remembered as that one's word."""
    failure: HubError | None = None
    for who, url in asked:
        known = cache.get("gguf", f"{who} {sha256}", Parsed)
        if known is not None:
            return known
        try:
            told = web.header(url)
        except HubError as error:
            failure = failure or error
            continue
        cache.put("gguf", f"{who} {sha256}", told)
        return told
    raise failure or HubError("no address serves it", where=sha256)


def _told_by(hub: Hub, endpoint: str) -> str:
    """Under whose name a header is remembered."""
    return "hub" if endpoint == hub.origin else endpoint


def _same_shards(name: str, entry: str) -> bool:
    shard = r"-\d{5}-of-\d{5}\.gguf"
    return bool(re.search(shard, name)) and re.sub(shard, "", name) == re.sub(shard, "", entry)
