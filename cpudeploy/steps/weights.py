"""A model's files on a host: blobs by content, and one folder of hard links a revision."""

from __future__ import annotations

from ..errors import HostError
from ..types.deployment import HostPath, Placement
from ..types.facts import Disk
from ..types.operation import Fetch, Operation
from ..types.plan import Change, Fingerprint
from ..types.resolved import ResolvedWeights
from .context import GIB, HostContext, decimal_size, pointer, script

_SLOWEST = 50_000
"""Bytes a second below which a download is given up in the end."""


def weights_folder(context: HostContext, placement: Placement, weights: ResolvedWeights) -> str:
    """The folder on the host that an engine's container mounts."""
    if isinstance(placement.source, HostPath):
        return placement.source.path.rpartition("/")[0] or "/"
    return f"{context.host.weights_dir}/trees/{weights.tree}"


def weights_changes(
    context: HostContext, placement: Placement, weights: ResolvedWeights
) -> tuple[Change, ...]:
    """Fetch what is missing and link the folder. Raises HostError when the disk is too small."""
    facts = context.facts
    if isinstance(placement.source, HostPath):
        return ()
    held = facts.weights
    folder = held.trees.get(weights.tree, {})
    missing = [
        file for file in weights.files if not (file.sha256 in held.blobs and held.blobs[file.sha256].verified)
    ]
    if not missing and all(file.name in folder for file in weights.files):
        return ()
    to_fetch = sum(file.size - held.partial.get(file.sha256, 0) for file in missing)
    root = context.host.weights_dir
    at_least = {}
    disk = facts.disks.get(root)
    if isinstance(disk, Disk):
        at_least[pointer("disks", root, "free")] = to_fetch
        if disk.free < to_fetch + GIB:
            raise HostError(
                f"{root} has {decimal_size(disk.free)} free, "
                f"{placement.model} needs {decimal_size(to_fetch + GIB)}",
                where=facts.host,
                do="free disk space, or set dirs: {weights: …} to a larger disk",
            )
    operations: list[Operation] = [
        Fetch(
            id=f"fetch:{file.sha256[:12]}",
            deadline_s=300 + file.size // _SLOWEST,
            weights_dir=root,
            file=file,
            via=placement.fetch,
        )
        for file in missing
    ]
    operations.append(
        script(
            "link-tree",
            {
                "weights": root,
                "tree": weights.tree,
                "files": "\n".join(f"{file.sha256} {file.name}" for file in weights.files),
            },
            id="link",
            deadline_s=60,
        )
    )
    entry = weights.entry or weights.source
    begun = sum(held.partial.get(file.sha256, 0) for file in missing)
    resume = f" · {decimal_size(begun)} already there" if begun else ""
    return (
        Change(
            id=f"weights:{weights.tree}",
            phase="fetch",
            step="weights",
            subject="weights",
            action="create",
            why=f"model {placement.model}",
            summary=f"{entry}   {decimal_size(to_fetch)} to fetch{resume} · {_checksum(weights)}",
            before=Fingerprint(
                equals={pointer("weights", "trees", weights.tree): _as_found(folder)}, at_least=at_least
            ),
            after=Fingerprint(
                equals={pointer("weights", "blobs", file.sha256, "verified"): True for file in weights.files},
                at_least={pointer("weights", "trees", weights.tree, file.name): 1 for file in weights.files},
            ),
            operations=tuple(operations),
            revert=(),
        ),
    )


def _as_found(folder: dict[str, int]) -> dict[str, int] | None:
    return dict(folder) or None


def _checksum(weights: ResolvedWeights) -> str:
    if len(weights.files) == 1:
        return f"sha256:{weights.files[0].sha256[:12]}…"
    return f"{len(weights.files)} files at {weights.revision[:12]}"
