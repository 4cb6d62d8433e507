"""A model's source becomes files with sizes and checksums, and what its header says.

In: a source of the manifest, the Hub to ask, what the hosts already hold. Out: ResolvedWeights, with
a tree id that names exactly this content. Weights themselves are never downloaded here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TypeVar
from urllib.parse import unquote, urlsplit

import msgspec

from ..errors import HubError
from ..secrets import Secrets
from ..types.deployment import HostPath, HuggingFace, ModelScope, Source, Upload, Url
from ..types.resolved import ResolvedWeights, WeightFile
from . import gguf, safetensors
from .cache import Cache
from .files import Files, Parse
from .headers import Told, told_by
from .hub import Hub
from .known import HeldTree, source_text
from .modelscope import Scope
from .selection import Format, Listed, safe_name, select
from .snapshots import Site, Snapshot, snapshot
from .trees import tree_id
from .uploads import from_here

_AT_ONCE = 8

T = TypeVar("T")


@dataclass(frozen=True)
class Asking:
    """Whom to ask, and what is known without asking. `held`: sha256 → bytes of blobs that hosts hold.
    `base`: the folder that paths of this machine are seen from."""

    hub: Hub
    secrets: Secrets
    cache: Cache
    held: Mapping[str, int]
    scope: Scope = field(default_factory=Scope)
    base: str = "."

    def site(self, source: HuggingFace | ModelScope) -> Site:
        """Who has a repository."""
        return self.hub if isinstance(source, HuggingFace) else self.scope


def resolve_weights(
    source: Source, form: Format, asking: Asking, released: HeldTree | None = None
) -> ResolvedWeights:
    """The files of `source`. `released`: what every host that is to have them holds of the last release,
    for when no Hub answers. Raises HubError (names every address asked) and SecretError."""
    if isinstance(source, HuggingFace | ModelScope):
        return _from_repository(source, form, asking, released)
    if isinstance(source, Url):
        return _from_url(source, asking)
    if isinstance(source, Upload):
        return from_here(source, asking.base, form, asking.cache)
    return _from_host(source)


def _from_repository(
    source: HuggingFace | ModelScope, form: Format, asking: Asking, released: HeldTree | None
) -> ResolvedWeights:
    token = asking.secrets.token(source.token) if source.token else None
    site = asking.site(source)
    where = f"{site.kind} {source.repo}@{source.revision}"
    try:
        found = snapshot(site, source.repo, source.revision, token)
    except HubError as error:
        kept = _from_release(source, form, asking, released)
        if kept is None:
            raise
        why = f"{' '.join(error.what.split())}; every host holds the last release's files"
        return msgspec.structs.replace(kept, notes=(why, *kept.notes))
    chosen = select(
        found.files,
        quant=source.quant,
        globs=source.files,
        form=form,
        where=where,
        mmproj=source.mmproj,
        exclude=source.exclude,
    )
    prefix = f"{site.origin}/"
    with Files(token, prefix, site.cookie) as web:
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
                token_cookie=site.cookie if source.token else "",
            )
            for name, file, sha256 in zip(names, chosen.files, sums, strict=True)
        )
        entry, projector = (PurePosixPath(path).name for path in (chosen.entry, chosen.projector))
        # A header can't be checked against the file's checksum: it is the word of who is asked for it.
        order = sorted(found.endpoints, key=lambda endpoint: endpoint != found.authority)
        paths = dict(zip(names, (file.path for file in chosen.files), strict=True))
        reader = _Web(
            {file.name: file for file in files},
            lambda name: [(_told_by(site, endpoint), found.url(endpoint, paths[name])) for endpoint in order],
            web,
            asking.cache,
        )
        told = told_by({file.name: file.size for file in files}, entry, reader, where)
    return ResolvedWeights(
        tree=tree_id(source.repo, ((file.name, file.sha256) for file in files)),
        source=source_text(source, found.commit),
        revision=found.commit,
        files=files,
        entry=entry,
        shape=told.shape,
        tensors=told.tensors,
        projector=projector,
        variants=chosen.variants,
        notes=(*found.notes, *told.notes),
    )


def _from_release(
    source: HuggingFace | ModelScope, form: Format, asking: Asking, released: HeldTree | None
) -> ResolvedWeights | None:
    """The files that hosts hold, where they are what `source` selects and their headers are known here."""
    if released is None or tree_id(source.repo, released.sums.items()) != released.tree:
        return None
    listed = [Listed(name, asking.held[sha256], sha256) for name, sha256 in released.sums.items()]
    site = asking.site(source)
    where = f"{site.kind} {source.repo}@{source.revision}"
    globs, mmproj, exclude = source.files, source.mmproj, source.exclude
    if form == "gguf" or source.quant is not None:
        # On hosts these lie beside each other, whatever folder of the repository they come from.
        globs = tuple(PurePosixPath(pattern).name for pattern in globs)
        mmproj = PurePosixPath(mmproj).name if mmproj is not None else None
        exclude = tuple(pattern for pattern in exclude if "/" not in pattern)
    try:
        chosen = select(
            listed,
            quant=source.quant,
            globs=globs,
            form=form,
            where=where,
            mmproj=mmproj,
            exclude=exclude,
        )
    except HubError:
        return None
    if len(chosen.files) != len(listed):
        return None
    files = tuple(
        WeightFile(name=file.path, size=file.size, sha256=released.sums[file.path], urls=())
        for file in chosen.files
    )

    reader = _Web(
        {file.name: file for file in files},
        lambda name: [(_told_by(site, endpoint), "") for endpoint in reversed(site.endpoints)],
        None,
        asking.cache,
    )
    try:
        told = told_by({file.name: file.size for file in files}, chosen.entry, reader, where)
    except HubError:
        return None
    return ResolvedWeights(
        tree=released.tree,
        source=released.source,
        revision=released.revision,
        files=files,
        entry=chosen.entry,
        shape=told.shape,
        tensors=told.tensors,
        projector=chosen.projector,
        notes=told.notes,
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
        told = Told()
        if name.lower().endswith(".gguf"):
            reader = _Web({name: files[0]}, lambda _: [(source.url, source.url)], web, asking.cache)
            told = told_by({name: size}, name, reader, source.url)
    return ResolvedWeights(
        tree=tree_id(name, [(name, sha256)]),
        source=f"url {source.url}",
        revision="",
        files=files,
        entry=name,
        shape=told.shape,
        tensors=told.tensors,
        notes=(*notes, *told.notes),
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


@dataclass(frozen=True)
class _Web:
    """Headers and small files by HTTP, each asked once: what was told is remembered as that one's word.

    asked: by name, whom to ask and where, in order. web: None where nobody can be asked any more.
    """

    files: Mapping[str, WeightFile]
    asked: Callable[[str], Sequence[tuple[str, str]]]
    web: Files | None
    cache: Cache

    def gguf(self, name: str) -> gguf.Parsed:
        return self._header(name, "gguf", gguf.Parsed, gguf.parse_header)

    def safetensors(self, name: str) -> safetensors.Header:
        return self._header(name, "safetensors", safetensors.Header, safetensors.parse_header)

    def text(self, name: str) -> str:
        # Checked against the file's checksum: whoever serves it, the content is right.
        its = self.files[name]
        known = self.cache.get("texts", its.sha256, str)
        if known is None:
            if self.web is None:
                raise HubError("not known here", where=name)
            body = self.web.content([url for _, url in self.asked(name)], its.size, its.sha256)
            known = body.decode(errors="replace")
            self.cache.put("texts", its.sha256, known)
        return known

    def _header(self, name: str, kind: str, type_: type[T], parse: Parse[T]) -> T:
        sha256, failure = self.files[name].sha256, None
        for who, url in self.asked(name):
            known = self.cache.get(kind, f"{who} {sha256}", type_)
            if known is not None:
                return known
            if self.web is None:
                continue
            try:
                told = self.web.header(url, parse)
            except HubError as error:
                failure = failure or error
                continue
            self.cache.put(kind, f"{who} {sha256}", told)
            return told
        raise failure or HubError("its header is not known here", where=name)


def _told_by(site: Site, endpoint: str) -> str:
    """Under whose name a header is remembered."""
    return site.kind if endpoint == site.origin else endpoint
