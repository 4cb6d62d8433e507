"""The operations of one edit of daemon.json, in an order in which it can be left at no bad point. Pure.

Guarded on the host: until the engine has answered with what is wanted, the file goes back to what it was by
itself. That has to be done with care, as seen on 20.10 and 26.1: an engine that starts without `live-restore`
ends the containers that outlived its predecessor, and one that reloads does not forget what is no longer in
the file. So each way goes through the file that `keep_json` kept for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from ..types.base import digest
from ..types.names import KEPT
from ..types.operation import (
    AssignJson,
    Claim,
    Disclaim,
    GuardArm,
    GuardCommit,
    KeepJson,
    MergeJson,
    Operation,
    Script,
)
from ..types.shared import SharedKey, setting_key
from .context import script
from .daemon_settings import DAEMON_JSON, INSECURE, LIVE_RESTORE, NEUTRAL, Settings

GUARD = "docker_daemon"
_KEPT = "daemon.json"
_FILE_S = 30
_RELOAD_S = 60
_RESTART_S = 180
_AFTER_S = 30


@dataclass(frozen=True)
class Edit:
    """`sha256`: of the file as planned from, empty for none. `add`, `remove`: registries without TLS;
    `claims`: of those and of the file; `disclaim`: of the same, given up. `live`: containers outlive a
    restart. `running`: there is an engine to take notice. `tidy`: what goes with the last registry.
    """

    deployment: str
    sha256: str
    settings: Settings = field(default_factory=Settings)
    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    claims: dict[str, SharedKey] = field(default_factory=dict)
    disclaim: tuple[str, ...] = ()
    live: bool = False
    running: bool = True
    tidy: Literal["nothing", "list", "file"] = "nothing"

    @property
    def restart(self) -> bool:
        """Whether the engine has to be restarted."""
        return self.running and self.settings.restart

    @property
    def token(self) -> str:
        """Which edit this is."""
        return digest([self.sha256, self.settings.wanted, self.settings.release, self.add, self.remove])


def edit_operations(edit: Edit) -> tuple[Operation, ...]:
    """From claiming to giving up. An engine that does not run reads the file when it starts: no guard."""
    return tuple(_guarded(edit) if edit.running else _edits(edit, _later(edit)))


def edit_revert(edit: Edit, new_claims: tuple[str, ...]) -> tuple[Operation, ...]:
    """Back to the file as it was and to an engine that answers, without `new_claims`."""
    names = [setting_key(DAEMON_JSON, key) for key in edit.settings.claim]
    settings = tuple(key for key, name in zip(edit.settings.claim, names, strict=True) if name in new_claims)
    rest = tuple(name for name in new_claims if name not in names)
    operations: list[Operation] = [_restore(edit)] if edit.running else []
    if settings:
        operations.append(
            AssignJson(
                id="give settings up",
                deadline_s=_FILE_S,
                path=DAEMON_JSON,
                deployment=edit.deployment,
                release=settings,
            )
        )
    if rest:
        operations.append(_disclaim(edit, rest))
    if edit.running:
        operations.append(GuardCommit(id="guard off", deadline_s=_FILE_S, guard=GUARD, lenient=True))
    return tuple(operations)


def _guarded(edit: Edit) -> Iterator[Operation]:
    settings = edit.settings
    shielded = edit.restart and edit.live
    yield GuardArm(id="guard", deadline_s=_FILE_S, guard=GUARD, after_s=_AFTER_S, revert=_restore(edit))
    yield KeepJson(
        id="keep",
        deadline_s=_FILE_S,
        path=DAEMON_JSON,
        kept=_KEPT,
        token=edit.token,
        expected_sha256=edit.sha256,
        restarted={LIVE_RESTORE: True} if shielded else {},
        reloaded={key: NEUTRAL[key] for key in settings.set if key in NEUTRAL}
        | ({INSECURE: []} if edit.add else {}),
    )
    if shielded and LIVE_RESTORE in settings.set:
        yield _assign(edit, "shield", values={LIVE_RESTORE: True})
        yield _reload("reload shield")
    # While the engine restarts it must not have lost what lets containers outlive that.
    later = _later(edit)
    yield from _edits(edit, later)
    # The engine itself looks at the file, also in front of a restart, as no other check of it does.
    yield _reload("reload", present=edit.add, absent=edit.remove)
    if edit.restart:
        args = {"path": DAEMON_JSON}
        yield _script("restart-docker", args, id="restart", deadline_s=_RESTART_S)
    if later:
        yield _assign(edit, "take off the shield", release=later, meanwhile=True)
        yield _reload("reload without")
    yield GuardCommit(id="guard off", deadline_s=_FILE_S, guard=GUARD, fresh=True)
    # From here on the engine knows all; what is left are words that say nothing any more.
    if settings.release:
        yield _assign(edit, "give settings up", release=settings.release)
    yield from _tidied(edit)
    # What was kept stays for the revert of an apply that is taken up again; with us it goes.
    if edit.disclaim:
        yield script("forget-kept", {"kept": f"{KEPT}/{_KEPT}"}, id="forget", deadline_s=_FILE_S)


def _edits(edit: Edit, later: tuple[str, ...]) -> Iterator[Operation]:
    """What changes the file, apart from what has to wait."""
    settings = edit.settings
    if edit.claims:
        yield Claim(id="claim", deadline_s=_FILE_S, keys=edit.claims)
    if edit.add or edit.remove:
        yield MergeJson(
            id="merge",
            deadline_s=_FILE_S,
            path=DAEMON_JSON,
            kept=_KEPT if edit.running else "",
            key=INSECURE,
            add=edit.add,
            remove=edit.remove,
        )
    values = {key: settings.wanted[key] for key in settings.wanted if key in (*settings.set, *settings.claim)}
    release = tuple(key for key in settings.release if key not in later)
    if values or release:
        yield _assign(edit, "assign", values=values, release=release, meanwhile=edit.running)
    if not edit.running:
        yield from _tidied(edit)


def _tidied(edit: Edit) -> Iterator[Operation]:
    """In a step of its own: an engine that reloads takes no notice of a list that is not there."""
    if edit.tidy != "nothing":
        yield MergeJson(
            id="tidy",
            deadline_s=_FILE_S,
            path=DAEMON_JSON,
            kept=_KEPT if edit.running else "",
            key=INSECURE,
            tidy=edit.tidy,
        )
    if edit.disclaim:
        yield _disclaim(edit, edit.disclaim)


def _later(edit: Edit) -> tuple[str, ...]:
    """What is given up only after the restart."""
    shielded = edit.restart and edit.live
    return (LIVE_RESTORE,) if shielded and LIVE_RESTORE in edit.settings.release else ()


def _assign(
    edit: Edit,
    id: str,
    *,
    values: dict[str, Any] | None = None,
    release: tuple[str, ...] = (),
    meanwhile: bool = False,
) -> AssignJson:
    return AssignJson(
        id=id,
        deadline_s=_FILE_S,
        path=DAEMON_JSON,
        kept=_KEPT if edit.running else "",
        deployment=edit.deployment,
        values=values or {},
        release=release,
        neutral={key: NEUTRAL[key] for key in release if key in NEUTRAL},
        meanwhile=meanwhile and bool(release),
    )


def _reload(id: str, *, present: tuple[str, ...] = (), absent: tuple[str, ...] = ()) -> Script:
    args = {"present": " ".join(present), "absent": " ".join(absent)}
    return _script("reload-docker", args, id=id, deadline_s=_RELOAD_S)


def _restore(edit: Edit) -> Script:
    args = {"path": DAEMON_JSON, "kept": f"{KEPT}/{_KEPT}", "token": edit.token}
    return _script("restore-docker", args, id="restore", deadline_s=_RESTART_S)


def _script(name: str, args: dict[str, str], *, id: str, deadline_s: int) -> Script:
    return script(name, args, id=id, deadline_s=deadline_s, begins_with=("docker",))


def _disclaim(edit: Edit, keys: tuple[str, ...]) -> Disclaim:
    return Disclaim(id="give up", deadline_s=_FILE_S, deployment=edit.deployment, keys=keys)
