"""What pruning does to a host in memory, by the rules that its scripts state."""

from __future__ import annotations

from typing import Any

from cpudeploy.errors import EngineError


def prune_records(state: dict[str, Any], args: dict[str, str]) -> None:
    """Like `prune-records.sh`."""
    ours, weights = args["deployment"], state["weights"]
    for ref in args["refs"].splitlines():
        weights["refs"].pop(ref, None)
    _without(weights["refs"], f"{ours}.fetched", args["fetched"])
    _without(weights["claims"], ours, args["claims"])
    for container in args["holds"].splitlines():
        state["held"].get(ours, {}).pop(container, None)
    if ours in state["used_plans"]:
        state["used_plans"][ours] = state["used_plans"][ours][: int(args["plans"])]
    for release in args["releases"].splitlines():
        state["releases"][ours].pop(release, None)


def prune_weights(state: dict[str, Any], args: dict[str, str]) -> None:
    """Like `prune-weights.sh`: what is named or claimed stays."""
    weights = state["weights"]
    named = {tree for trees in weights["refs"].values() for tree in trees}
    claimed = {sha for shas in weights["claims"].values() for sha in shas}
    for tree in args["trees"].splitlines():
        if tree not in named:
            weights["trees"].pop(tree, None)
    linked = {inode for tree in weights["trees"].values() for inode in tree.values()}
    for sha in args["blobs"].splitlines():
        if sha in weights["blobs"] and weights["blobs"][sha]["inode"] not in linked and sha not in claimed:
            del weights["blobs"][sha]
    for sha in args["partial"].splitlines():
        if sha not in claimed:
            weights["partial"].pop(sha, None)


def remove_image(state: dict[str, Any], reference: str) -> None:
    """As an engine does: the last name takes the image along, unless a container was made from it."""
    for digest, image in list(state["images"].items()):
        if reference in image["references"]:
            image["references"].remove(reference)
            if not image["references"]:
                if any(each["image"].endswith(digest) for each in state["containers"].values()):
                    raise EngineError(f"{reference} is in use", status=409)
                del state["images"][digest]


def _without(lists: dict[str, list[str]], name: str, gone: str) -> None:
    left = [line for line in lists.get(name, ()) if line not in gone.splitlines()]
    if left:
        lists[name] = left
    else:
        lists.pop(name, None)
