"""What would be done: the document between deciding and doing.

Made by `plan/` from Deployment, Facts, Resolved and Allocations, all pure; interpreted by `execute/`
after a trip through its JSON form. It carries everything apply needs, hosts' addresses included,
and no secret. Its `id` is the sha256 of its canonical JSON.
"""

from __future__ import annotations

from typing import Any, Literal

from .allocation import Allocation
from .base import Struct, digest
from .deployment import Host, Registry
from .operation import HoldBack, Operation


class Fingerprint(Struct, frozen=True, kw_only=True):
    """A statement about one resource of a host, checked against the facts' JSON form.

    Keys are JSON pointers (RFC 6901) into the facts. `equals`: identity, exactly; null means absent.
    `at_least`: quantities.
    """

    equals: dict[str, Any] = {}
    at_least: dict[str, int] = {}


class FieldDiff(Struct, frozen=True, kw_only=True):
    """One field of what is wanted against what is, in the words of the manifest. None: not there."""

    field: str
    before: str | None
    after: str | None
    why: str = ""


class Change(Struct, frozen=True, kw_only=True):
    """One thing to do on one host: `operations` lead from fingerprint `before` to `after`.

    phase: provision < fetch < replace; a host runs them in order, all hosts finish fetch before any
    replaces. action: `create` +, `update` ~, `remove` -, `gate` (only prove what already runs).
    `revert` operations undo within a failed apply; None: can't be undone, and the plan says so.
    `why` is one clause; `summary` the facts worth a line; `gap_s` seconds without service (None: no gap).
    `restarts`: containers that restart because of it beside its own; of them `restarts_foreign` are not ours.
    `hold`: done after the revert when what was wanted failed its gate.
    """

    id: str
    phase: Literal["provision", "fetch", "replace"]
    step: str
    subject: str
    action: Literal["create", "update", "remove", "gate"]
    why: str
    summary: str
    diff: tuple[FieldDiff, ...] = ()
    before: Fingerprint
    after: Fingerprint
    operations: tuple[Operation, ...]
    revert: tuple[Operation, ...] | None = None
    gap_s: int | None = None
    restarts: int = 0
    restarts_foreign: int = 0
    hold: HoldBack | None = None
    unknown: str = ""
    """Why nobody could carry it out: something about it is not known. It has no operations then."""


class HostPlan(Struct, frozen=True, kw_only=True):
    """Everything for one host. `headline`: what it is, for people. `retained`: models that run as wanted.

    `questions` are asked again at apply, so that fingerprints can be checked.
    `unknown`: why nothing could be planned (no facts, or no way to what is wanted); apply fails this host.
    `not_yet`: model → why this version can't plan it; the others are planned, what runs of it is left alone.
    `postponed`: the same of the host itself: nothing is planned for it, everything on it is left alone.
    `unplanned`: model → what about it is not known or can't be had; treated like `not_yet`.
    `held`: model → why what is wanted of it failed before and is not tried again; what runs of it goes on.
    `partial`: more is wanted once these changes are done, which can only be seen then; apply plans again.
    """

    host: Host
    headline: str
    changes: tuple[Change, ...]
    retained: tuple[str, ...] = ()
    allocations: tuple[Allocation, ...] = ()
    warnings: tuple[str, ...] = ()
    questions: tuple[tuple[str, str, str], ...] = ()
    unreachable: str = ""
    unknown: str = ""
    not_yet: dict[str, str] = {}
    postponed: str = ""
    unplanned: dict[str, str] = {}
    held: dict[str, str] = {}
    partial: bool = False

    @property
    def left_out(self) -> dict[str, str]:
        """All that is wanted here and not planned, with why; the host itself under the empty name."""
        return {
            **({"": f"not yet: {self.postponed}"} if self.postponed else {}),
            **{model: f"not yet: {why}" for model, why in self.not_yet.items()},
            **{model: f"not planned: {why}" for model, why in self.unplanned.items()},
            **{model: f"held: {why}" for model, why in self.held.items()},
        }


class Plan(Struct, frozen=True, kw_only=True):
    """One plan for one deployment."""

    schema: Literal["cpudeploy.plan/1"] = "cpudeploy.plan/1"
    deployment: str
    base: str
    """Folder `from_file` secrets resolve against."""
    origin: str
    registries: tuple[Registry, ...] = ()
    hosts: dict[str, HostPlan]
    warnings: tuple[str, ...] = ()
    destroy: bool = False
    recorded: str = ""
    """The folder of recorded facts it was made from: such a plan can be read, never applied."""
    saved: str = ""
    """When it was saved, RFC 3339: it can be carried out once then. Empty: nobody kept it."""

    @property
    def id(self) -> str:
        return digest(self)

    @property
    def empty(self) -> bool:
        """Nothing would change anywhere."""
        return not any(host.changes for host in self.hosts.values())
