"""A model's files on a host: blobs by content, and one folder of hard links a revision."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from ..errors import HostError
from ..types.base import Unknown
from ..types.deployment import HostPath, Placement, Upload
from ..types.facts import Blob, Disk, File, Question
from ..types.names import STATE_DIR
from ..types.operation import Fetch, Operation
from ..types.plan import Change, Fingerprint
from ..types.resolved import ResolvedWeights, WeightFile
from ..types.words import decimal_size
from .context import HostContext, pointer, script

_SLOWEST = 50_000
"""Bytes a second below which a download is given up in the end."""


def weights_folder(context: HostContext, placement: Placement, weights: ResolvedWeights) -> str:
    """The folder on the host that an engine's container mounts."""
    if isinstance(placement.source, HostPath):
        return placement.source.path.rpartition("/")[0] or "/"
    return f"{context.host.weights_dir}/trees/{weights.tree or '(unknown)'}"


def weights_changes(
    context: HostContext,
    placement: Placement,
    weights: ResolvedWeights,
    brought: Collection[str] = (),
) -> tuple[Change, ...]:
    """Claim, fetch what is missing, link the folder. A file already on the host only has to be there. Where
    too little is known of a file, the change says so and can't be carried out. `brought`: sha256 of files
    that changes before this one bring; fetching such a one then ends where it begins."""
    facts = context.facts
    if isinstance(placement.source, HostPath):
        _refuse_missing(context, placement.source.path)
        return ()
    wanted = tuple(file for file in weights.files if isinstance(file, WeightFile))
    if len(wanted) < len(weights.files):
        return (_unread(placement, weights),)
    held = facts.weights
    folder = held.trees.get(weights.tree, {})
    missing = [
        file for file in wanted if not (file.sha256 in held.blobs and held.blobs[file.sha256].verified)
    ]
    linked = all(
        file.sha256 in held.blobs and folder.get(file.name) == held.blobs[file.sha256].inode
        for file in wanted
    )
    if not missing and linked:
        return ()
    shared = sum(file.size for file in missing if file.sha256 in brought)
    fetched = [file for file in missing if file.sha256 not in brought]
    to_fetch = sum(file.size - held.partial.get(file.sha256, 0) for file in fetched)
    root = context.host.weights_dir
    at_least = {}
    if isinstance(facts.disks.get(root), Disk):
        at_least[pointer("disks", root, "free")] = to_fetch
    files = "\n".join(f"{file.sha256} {file.name}" for file in wanted)
    claim = script(
        "claim-weights",
        {
            "state": STATE_DIR,
            "weights": root,
            "deployment": context.deployment.name,
            "tree": weights.tree,
            "files": files,
        },
        id="claim",
        deadline_s=60,
    )
    way, why_way = _way(context, placement)
    operations: list[Operation] = [
        claim,
        *(
            Fetch(
                id=f"fetch:{file.sha256[:12]}",
                deadline_s=300 + file.size // _SLOWEST,
                weights_dir=root,
                file=file,
                via=way,
            )
            for file in missing
        ),
    ]
    link = {"weights": root, "tree": weights.tree, "files": files}
    operations.append(script("link-tree", link, id="link", deadline_s=60))
    entry = weights.entry or weights.source
    begun = sum(held.partial.get(file.sha256, 0) for file in fetched)
    resume = f" · {decimal_size(begun)} already there" if begun else ""
    once = f" · {decimal_size(shared)} come with another model" if shared else ""
    what = f"{decimal_size(to_fetch)} to fetch{resume}{why_way}{once} · {_checksum(weights, wanted)}"
    return (
        Change(
            id=f"weights:{weights.tree}",
            phase="fetch",
            step="weights",
            subject="weights",
            action="create",
            why=f"model {placement.model}",
            summary=f"{entry}   {what}",
            before=Fingerprint(
                equals={pointer("weights", "trees", weights.tree): _as_found(folder)}, at_least=at_least
            ),
            after=_linked(weights.tree, wanted, held.blobs),
            operations=tuple(operations),
            revert=(),
        ),
    )


def brought_by(changes: Iterable[Change]) -> frozenset[str]:
    """sha256 of the files that changes fetch."""
    return frozenset(
        operation.file.sha256
        for change in changes
        for operation in change.operations
        if isinstance(operation, Fetch)
    )


def weights_questions(placements: Iterable[Placement]) -> tuple[Question, ...]:
    """What must be asked of a host: the files that models say are there already."""
    return tuple(
        Question(kind="file", key=placement.source.path)
        for placement in placements
        if isinstance(placement.source, HostPath)
    )


def bytes_to_load(context: HostContext, placement: Placement, weights: ResolvedWeights) -> int:
    """Bytes an engine reads when it starts, as far as they are known: where a file's size isn't, those of the
    tensors, else 0."""
    if isinstance(placement.source, HostPath):
        found = context.facts.files.get(placement.source.path)
        return found.size if isinstance(found, File) else 0
    size = weights.size
    if isinstance(size, Unknown):
        return weights.tensors.size if weights.tensors else 0
    return size


def _way(context: HostContext, placement: Placement) -> tuple[str, str]:
    """How the files come, and what the plan says about it: nothing where the host simply downloads them."""
    if isinstance(placement.source, Upload):
        return "controller", " from this machine"
    if placement.fetch == "controller":
        return "controller", " through this machine (fetch: controller)"
    if placement.fetch == "host":
        return "host", ""
    if context.facts.tools.get("curl") or not context.facts.tools:  # without any, nobody looked
        return "auto", ""
    return "controller", " through this machine (no curl on the host)"


def _refuse_missing(context: HostContext, path: str) -> None:
    found = context.facts.files.get(path)
    if not isinstance(found, File):
        why = found.unknown if isinstance(found, Unknown) else "it is not there"
        raise HostError(
            f"the model file {path} can't be used: {why}",
            where=context.host.name,
            do="put it there, or give another source",
        )


def _linked(tree: str, files: Sequence[WeightFile], blobs: Mapping[str, Blob]) -> Fingerprint:
    """Every blob verified and in the folder: by its inode where the blob is there already."""
    equals: dict[str, object] = {}
    at_least = {}
    for file in files:
        entry = pointer("weights", "trees", tree, file.name)
        equals[pointer("weights", "blobs", file.sha256, "verified")] = True
        blob = blobs.get(file.sha256)
        if blob is not None and blob.verified:
            equals[entry] = blob.inode
        else:
            at_least[entry] = 1
    return Fingerprint(equals=equals, at_least=at_least)


def _as_found(folder: dict[str, int]) -> dict[str, int] | None:
    return dict(folder) or None


def _checksum(weights: ResolvedWeights, files: Sequence[WeightFile]) -> str:
    if len(files) == 1:
        return f"sha256:{files[0].sha256[:12]}…"
    at = f" at {weights.revision[:12]}" if weights.revision else ""
    return f"{len(files)} files{at}"


def _unread(placement: Placement, weights: ResolvedWeights) -> Change:
    """The change for files that nobody told enough of to fetch them."""
    size = weights.size
    told = f"size unknown ({size.unknown})" if isinstance(size, Unknown) else f"{decimal_size(size)} to fetch"
    sums = dict.fromkeys(file.sha256.unknown for file in weights.files if isinstance(file.sha256, Unknown))
    if sums:
        told += f" · checksum unknown ({'; '.join(sums)})"
    return Change(
        id=f"weights:{placement.model}",
        phase="fetch",
        step="weights",
        subject="weights",
        action="create",
        why=f"model {placement.model}",
        summary=f"{weights.entry or weights.source}   {told}",
        before=Fingerprint(),
        after=Fingerprint(),
        operations=(),
        revert=(),
        unknown=f"not enough is known to fetch it: {told}",
    )
