"""What a host still keeps of a deployment and nobody needs any more: releases, images, volumes, weights.

Whatever a container names, and what a rollback would go back to, stays; so does all that another deployment
may need, and every image that no release of ours ever named. In: facts. Out: removals, each in its order:
what it takes to find the rest goes last.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from ..errors import HostError
from ..types.facts import Image, Weights
from ..types.names import STATE_DIR
from ..types.operation import Engine, RemoveImage
from ..types.plan import Change, Fingerprint
from ..types.release import Release, read_release
from ..types.words import count, decimal_size
from .context import HostContext, pointer, script
from .kept import FETCHED, Kept
from .volume import our_volumes, volume_removal

_MARKS_KEPT = 100
"""Marks of finished saved plans that stay: as long as one is there its plan can't be carried out twice."""
_NAMED = 3
"""Things named one by one; more are counted."""


def prune_changes(
    context: HostContext, keep: int, way_back: str, *, unfinished: bool
) -> tuple[tuple[Change, ...], tuple[str, ...]]:
    """The removals, and what stays that might surprise. `keep`: releases that stay beside those in use
    and `way_back`, the one a rollback leads to (empty: none). `unfinished`: what was
    fetched for an apply that did not come to use it goes, too.

    Raises HostError where what is in use can't be seen.
    """
    _refuse_blind(context)
    kept = Kept(context, keep, way_back, unfinished=unfinished)
    _refuse_unread(kept)
    images, warnings = _images(kept)
    changes = (*images, *_volumes(kept), *_records(kept), *_weights(kept))
    return changes, (*warnings, *_unfinished(kept))


def _refuse_blind(context: HostContext) -> None:
    facts = context.facts
    if facts.root == "none":
        raise HostError(
            "there is no root on this host: the login is not root and sudo is not used",
            where=context.host.name,
            do="log in as root, or allow sudo for this user",
        )
    # One that was uninstalled may come back with its containers.
    if facts.engine.state != "running" and (facts.releases or facts.weights != Weights()):
        raise HostError(
            f"the container engine is {facts.engine.state}, so what its containers use can't be seen",
            where=context.host.name,
            do="see that Docker runs there (systemctl start docker), then run this again",
        )


def _refuse_unread(kept: Kept) -> None:
    if kept.unread:
        raise HostError(
            f"{STATE_DIR}/{kept.unread[0]} can't be understood, so what it needs is not known",
            where=kept.context.host.name,
            do="use the newest cpudeploy that works on this host; if the file is damaged, remove it",
        )


@dataclass(frozen=True)
class _Held:
    """An image the engine holds, under all its digests."""

    image: Image
    digests: tuple[str, ...]


def _images(kept: Kept) -> tuple[list[Change], list[str]]:
    facts = kept.facts
    over = [release for id in kept.gone if (release := read_release(kept.documents[id])) is not None]
    named = _digests(over)
    held: dict[str, _Held] = {}
    for digest, image in facts.images.items():
        known = held.get(image.id)
        held[image.id] = _Held(image, (*(known.digests if known else ()), digest))
    candidates = [each for each in held.values() if named & set(each.digests)]
    needed = _digests(kept.read) | {each.image.rpartition("@")[2] for each in facts.containers.values()}
    running = {each.image_id for each in facts.containers.values()}
    changes, warnings = [], []
    for each in sorted(candidates, key=lambda found: found.digests):
        if each.image.id in running or needed & set(each.digests):
            continue
        # We pull by digest and give no tags.
        tags = [reference for reference in each.image.references if "@" not in reference]
        if tags:
            warnings.append(f"image {tags[0]} stays: no release needs it, but somebody gave it that tag")
        else:
            changes.append(_image(each, _asked_for(over, each)))
    return changes, warnings


def _digests(releases: Iterable[Release]) -> set[str]:
    return {
        instance.container.image.rpartition("@")[2]
        for release in releases
        for instance in release.instances.values()
    }


def _asked_for(releases: Iterable[Release], held: _Held) -> str:
    """The image's name as the last release that used it asked for it; else as the engine has it."""
    names = [
        instance.image_reference
        for release in releases
        for instance in release.instances.values()
        if instance.container.image.rpartition("@")[2] in held.digests
    ]
    return names[-1] or held.image.references[0]


def _image(held: _Held, name: str) -> Change:
    image = held.image
    return Change(
        id=f"image:{held.digests[0][:19]}",
        phase="provision",
        step="prune",
        subject="image",
        action="remove",
        why="no release and no container uses it",
        summary=f"{name} · {decimal_size(image.size)}",
        before=Fingerprint(equals={pointer("images", digest, "id"): image.id for digest in held.digests}),
        after=Fingerprint(equals={pointer("images", digest): None for digest in held.digests}),
        operations=tuple(
            Engine(id=f"remove:{number}", deadline_s=300, request=RemoveImage(reference=reference))
            for number, reference in enumerate(image.references, start=1)
        ),
        revert=None,
    )


def _volumes(kept: Kept) -> list[Change]:
    """Volumes that models do without: their playbook names them no more, or no release has the model."""
    context = kept.context
    removals = [
        volume_removal(context, name, model, "no release and no container uses it")
        for name, model in our_volumes(context).items()
        if name not in kept.volumes
    ]
    return [msgspec.structs.replace(change, phase="provision", step="prune") for change in removals]


def _records(kept: Kept) -> tuple[Change, ...]:
    facts, name = kept.facts, kept.name
    refs = sorted(id for id in kept.refs.keys() - {FETCHED} if id not in kept.releases)
    staying = kept.documents.keys() & kept.releases
    holds = sorted(
        container for container, hold in facts.held.get(name, {}).items() if hold.release not in staying
    )
    fetched = [tree for tree in kept.refs.get(FETCHED, ()) if tree not in kept.fetched]
    claims = [sha for sha in facts.weights.claims.get(name, ()) if sha not in kept.claims]
    marks = max(0, len(facts.used_plans.get(name, ())) - _MARKS_KEPT)
    told = [
        (len(kept.gone), "release", _few(kept.gone)),
        (len(refs) if not kept.gone else 0, "lost release", _few(refs)),
        (len(holds), "hold", _few(holds)),
        (marks, "mark of a finished plan", ""),
        (len(fetched) if not kept.gone else 0, "fetched model", _few(fetched)),
        (len(claims) if not (kept.gone or fetched) else 0, "claim on a file", ""),
    ]
    parts = [f"{count(number, noun)}{names and f' ({names})'}" for number, noun, names in told if number]
    if not parts:
        return ()
    args = {
        "state": STATE_DIR,
        "weights": kept.context.host.weights_dir,
        "deployment": name,
        "releases": "\n".join(kept.gone),
        "refs": "\n".join(f"{name}.{id}" for id in refs),
        "holds": "\n".join(holds),
        "fetched": "\n".join(fetched),
        "claims": "\n".join(claims),
        "plans": str(_MARKS_KEPT),
    }
    weights = facts.weights
    before: dict[str, object] = {
        pointer("containers", container, "mark", "release"): each.mark.release
        for container, each in kept.ours.items()
        if each.mark is not None
    }
    gone: dict[str, object] = {
        **{pointer("releases", name, id): None for id in kept.gone},
        **{pointer("weights", "refs", f"{name}.{id}"): None for id in refs},
        **{pointer("held", name, container): None for container in holds},
        **({pointer("used_plans", name, str(_MARKS_KEPT)): None} if marks else {}),
    }
    lists = (
        (pointer("weights", "refs", f"{name}.{FETCHED}"), kept.refs.get(FETCHED, ()), kept.fetched),
        (pointer("weights", "claims", name), weights.claims.get(name, ()), kept.claims),
    )
    for at, now, then in lists:
        if now != then:
            before[at] = list(now)
            gone[at] = list(then) or None
    return (
        Change(
            id="releases",
            phase="provision",
            step="prune",
            subject="releases",
            action="remove",
            why=f"{count(len(staying), 'release')} staying" if kept.gone else "nothing refers to it",
            summary=" · ".join(parts),
            before=Fingerprint(equals=before),
            after=Fingerprint(equals=gone),
            operations=(script("prune-records", args, id="forget", deadline_s=120),),
            revert=None,
        ),
    )


def _unfinished(kept: Kept) -> list[str]:
    """What stays although no release has it yet."""
    weights = kept.facts.weights
    begun = [sha for sha in kept.claims if sha in weights.partial]
    waiting = [sha for sha in kept.claims if sha not in kept.held_by_releases and sha in weights.blobs]
    size = sum(weights.partial[sha] for sha in begun) + sum(weights.blobs[sha].size for sha in waiting)
    if not size:
        return []
    told = f"{decimal_size(size)} in {count(len(begun) + len(waiting), 'file')}"
    return [f"{told}, fetched and not used yet, stay for the next apply; --unfinished takes them, too"]


def _weights(kept: Kept) -> tuple[Change, ...]:
    weights = kept.facts.weights
    trees = sorted(weights.trees.keys() - kept.trees)
    blobs = sorted(weights.blobs.keys() - kept.files)
    partial = sorted(weights.partial.keys() - kept.claimed)
    if not (trees or blobs or partial):
        return ()
    freed = sum(weights.blobs[sha].size for sha in blobs) + sum(weights.partial[sha] for sha in partial)
    files = len(blobs) + len(partial)
    what = f"{decimal_size(freed)} in {count(files, 'file')}" if files else "only links to files in use"
    args = {
        "weights": kept.context.host.weights_dir,
        "trees": "\n".join(trees),
        "blobs": "\n".join(blobs),
        "partial": "\n".join(partial),
    }
    return (
        Change(
            id="weights",
            phase="provision",
            step="prune",
            subject="weights",
            action="remove",
            why="no release and no container uses them",
            summary=" · ".join(part for part in (what, _few(trees)) if part),
            before=Fingerprint(
                equals={pointer("weights", "blobs", sha, "inode"): weights.blobs[sha].inode for sha in blobs}
            ),
            after=Fingerprint(
                equals={
                    **{pointer("weights", "trees", tree): None for tree in trees},
                    **{pointer("weights", "blobs", sha): None for sha in blobs},
                    **{pointer("weights", "partial", sha): None for sha in partial},
                }
            ),
            operations=(script("prune-weights", args, id="remove", deadline_s=600),),
            revert=None,
        ),
    )


def _few(names: Sequence[str]) -> str:
    more = [f"and {len(names) - _NAMED} more"] if len(names) > _NAMED else []
    return ", ".join([*names[:_NAMED], *more])
