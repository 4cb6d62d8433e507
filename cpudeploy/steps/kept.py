"""What stays of a deployment on a host when it is pruned, and what stays of everybody's weights there.

In: facts, and how many releases are to stay beside those in use. Out: `Kept`. What can't be judged stays.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from ..types.facts import Container
from ..types.release import Release, by_age, read_release
from .context import HostContext
from .found import is_ours

FETCHED = "fetched"
"""Stands for a release in the name of the file that lists what was fetched before a release names it."""


class Kept:
    """Everything of one host that stays, by kind."""

    def __init__(self, context: HostContext, keep: int, way_back: str, *, unfinished: bool) -> None:
        self.context = context
        self.name = context.deployment.name
        self.facts = context.facts
        self.documents = context.facts.releases.get(self.name, {})
        self.refs = {
            ref.partition(".")[2]: trees
            for ref, trees in context.facts.weights.refs.items()
            if ref.partition(".")[0] == self.name
        }
        self._keep = keep
        self._way_back = way_back
        self._waiting = not unfinished

    @cached_property
    def ours(self) -> dict[str, Container]:
        return {name: each for name, each in self.facts.containers.items() if is_ours(self.context, each)}

    @cached_property
    def releases(self) -> frozenset[str]:
        """Those in use, the newest (it may be the one that failed last), the one a rollback goes back to, and
        the newest of the rest."""
        used = {each.mark.release for each in self.ours.values() if each.mark is not None}
        newest = by_age(self.documents)[::-1]
        fixed = {*used, *newest[:1], self._way_back}
        rest = [id for id in newest if id not in fixed]
        return frozenset({*fixed, *rest[: self._keep]})

    @cached_property
    def gone(self) -> list[str]:
        """Releases that go, oldest first."""
        return by_age(self.documents.keys() - self.releases)

    @cached_property
    def read(self) -> list[Release]:
        """Every release that stays, of all deployments, as far as it can be understood."""
        return [release for release in self._staying.values() if release is not None]

    @property
    def unread(self) -> list[str]:
        """Files of releases that stay and can't be understood, below the state folder."""
        return [path for path, release in self._staying.items() if release is None]

    @cached_property
    def _staying(self) -> dict[str, Release | None]:
        return {
            f"{deployment}/releases/{id}.json": read_release(document)
            for deployment, documents in self.facts.releases.items()
            for id, document in documents.items()
            if deployment != self.name or id in self.releases
        }

    @cached_property
    def our_trees(self) -> frozenset[str]:
        """Trees of releases that stay."""
        named = {tree for id, trees in self.refs.items() if id in self.releases for tree in trees}
        ours = [release for release in self.read if release.deployment == self.name]
        told = {each.tree for release in ours for each in release.instances.values()}
        return frozenset(named | told)

    @cached_property
    def fetched(self) -> tuple[str, ...]:
        """Of the trees we fetched, those that stay."""
        # Of a release that is half gone the file is left, which goes last.
        recorded = [
            release for each in self.documents.values() if (release := read_release(each)) is not None
        ]
        ever = {tree for id, trees in self.refs.items() if id != FETCHED for tree in trees}
        ever |= {each.tree for release in recorded for each in release.instances.values()}
        return tuple(
            tree
            for tree in self.refs.get(FETCHED, ())
            if tree in self.our_trees or (self._waiting and tree not in ever)
        )

    @cached_property
    def held_by_releases(self) -> set[str]:
        """Files of our releases that stay, by sha256."""
        return self._files(self.our_trees)

    @cached_property
    def claims(self) -> tuple[str, ...]:
        """Of the files we claim, those that stay."""
        held = self.held_by_releases | self._files(self.fetched)
        linked = self._files(self.facts.weights.trees)
        return tuple(
            sha
            for sha in self.facts.weights.claims.get(self.name, ())
            if sha in held or (self._waiting and sha not in linked)
        )

    @cached_property
    def trees(self) -> frozenset[str]:
        """Trees that stay: whoever names or sees them."""
        weights = self.facts.weights
        others = {
            tree
            for ref, trees in weights.refs.items()
            if ref.partition(".")[0] != self.name
            for tree in trees
        }
        told = {each.tree for release in self.read for each in release.instances.values()}
        folder = f"{self.context.host.weights_dir}/trees/"
        seen = {
            mount.removeprefix(folder).partition("/")[0]
            for each in self.facts.containers.values()
            for mount in each.mounts
            if mount.startswith(folder)
        }
        return frozenset({*others, *told, *seen, *self.our_trees, *self.fetched})

    @cached_property
    def volumes(self) -> frozenset[str]:
        """Volumes that stay: whoever names or mounts them."""
        named = {
            mount.source
            for release in self.read
            for each in release.instances.values()
            for mount in each.container.mounts
        }
        return frozenset(named.union(*(each.volumes for each in self.facts.containers.values())))

    @cached_property
    def claimed(self) -> frozenset[str]:
        """Files that somebody claims, by sha256."""
        claims = {**self.facts.weights.claims, self.name: self.claims}
        return frozenset(sha for each in claims.values() for sha in each)

    @cached_property
    def files(self) -> frozenset[str]:
        """Weights files that stay, by sha256: those in trees that do, and those that somebody claims."""
        return self.claimed | self._files(self.trees)

    def _files(self, trees: Iterable[str]) -> set[str]:
        weights = self.facts.weights
        inodes = {inode for tree in trees for inode in weights.trees.get(tree, {}).values()}
        return {sha for sha, blob in weights.blobs.items() if blob.inode in inodes}
