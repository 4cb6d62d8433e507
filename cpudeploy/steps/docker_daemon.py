"""Engine settings that have no other place: registries without TLS, and their own certificates.

Everything else goes on containers. The owner's settings in daemon.json are kept, and what is in it
never gets into a plan; each registry is claimed in `host.json`, so that the last deployment to need it
takes it out again. An engine with `use: existing` is never touched.
"""

from __future__ import annotations

from typing import Any

from ..errors import HostError
from ..types.base import Unknown
from ..types.deployment import Deployment
from ..types.facts import DaemonFile, Question
from ..types.operation import Claim, Disclaim, MergeJson, Operation, Script
from ..types.plan import Change, FieldDiff, Fingerprint
from ..types.shared import SharedKey
from .certificates import certificate_changes, certificate_questions, certificate_removal_changes
from .context import HostContext, pointer, script
from .shared import claim, claimed, host_record, owners, unclaimed

DAEMON_JSON = "/etc/docker/daemon.json"
_LIST = "insecure-registries"
_PREFIX = f"{DAEMON_JSON}#/{_LIST}/"
_FILE_S = 30
_RELOAD_S = 60


def daemon_questions(deployment: Deployment) -> tuple[Question, ...]:
    """What must be asked of a host beside the usual facts."""
    return certificate_questions(deployment)


def daemon_changes(context: HostContext, insecure: tuple[str, ...]) -> tuple[Change, ...]:
    """Certificates, and permission for `insecure` registries, where the host lacks them.

    Raises HostError where that is forbidden, or a file involved can't be understood.
    """
    return (*certificate_changes(context), *_insecure_changes(context, insecure))


def daemon_removal_changes(context: HostContext, why: str) -> tuple[Change, ...]:
    """What undoes this deployment's share of the engine's settings: all that nobody else needs and that
    was not there before. Raises HostError where a file involved can't be understood."""
    return (*_insecure_removal(context, why), *certificate_removal_changes(context, why))


def _insecure_changes(context: HostContext, wanted: tuple[str, ...]) -> tuple[Change, ...]:
    engine = context.facts.engine
    missing = tuple(registry for registry in wanted if not engine.insecure.get(registry, False))
    if context.host.engine == "existing":
        _refuse_existing(context, missing)
        return ()
    if not wanted:
        return ()
    # What the owner allowed is not ours to claim; what another deployment added is.
    known = host_record(context).keys
    shared = tuple(name for name in wanted if name not in missing and _key(name) in known)
    if missing:
        return (_allow(context, missing, _claims(context, (*missing, *shared))),)
    if unclaimed(context, map(_key, shared)):
        return (_join(context, shared, _claims(context, shared)),)
    return ()


def _claims(context: HostContext, registries: tuple[str, ...]) -> dict[str, SharedKey]:
    """This deployment's claims on registries and on the file they stand in, with what is there now."""
    file = context.facts.engine.daemon
    listed = file.insecure if isinstance(file, DaemonFile) else ()
    return {
        DAEMON_JSON: claim(context, before=None if file is None else "present", ours="present"),
        **{_key(name): claim(context, before=name in listed, ours=True) for name in registries},
    }


def _allow(context: HostContext, missing: tuple[str, ...], claims: dict[str, SharedKey]) -> Change:
    record = host_record(context)
    file = _daemon_file(context)
    before = file.insecure if file is not None else ()
    added = tuple(name for name in missing if name not in before)
    merge = MergeJson(
        id="merge",
        deadline_s=_FILE_S,
        path=DAEMON_JSON,
        key=_LIST,
        add=missing,
        expected_sha256="" if file is None else file.sha256,
    )
    at = {pointer("engine", "insecure", name): None for name in missing}
    return Change(
        id="docker_daemon",
        phase="provision",
        step="docker_daemon",
        subject="daemon.json",
        action="create" if file is None else "update",
        why="a mirror without TLS",
        summary=f"allow plain HTTP to {', '.join(missing)} · reload, nothing restarts",
        diff=(FieldDiff(field=_LIST, before=", ".join(before) or None, after=", ".join((*before, *added))),),
        before=Fingerprint(equals={**at, **_file_is(file), **owners(record, claims)}),
        after=Fingerprint(equals={**dict.fromkeys(at, True), **owners(record.claimed(claims), claims)}),
        operations=(
            Claim(id="claim", deadline_s=_FILE_S, keys=claims),
            merge,
            _reload("reload", present=missing),
        ),
        revert=(
            *_take_out(added, tidy_file=file is None, running=True),
            _disclaim(context, unclaimed(context, claims)),
        ),
    )


def _join(context: HostContext, shared: tuple[str, ...], claims: dict[str, SharedKey]) -> Change:
    """Another deployment already had the engine allow it: only to be known as one who needs it, too."""
    record = host_record(context)
    return Change(
        id="docker_daemon",
        phase="provision",
        step="docker_daemon",
        subject="daemon.json",
        action="update",
        why="a mirror without TLS",
        summary=f"share plain HTTP to {', '.join(shared)} with other deployments",
        before=Fingerprint(equals=owners(record, claims)),
        after=Fingerprint(equals=owners(record.claimed(claims), claims)),
        operations=(Claim(id="claim", deadline_s=_FILE_S, keys=claims),),
        revert=(_disclaim(context, unclaimed(context, claims)),),
    )


def _insecure_removal(context: HostContext, why: str) -> tuple[Change, ...]:
    record = host_record(context)
    mine = claimed(context, DAEMON_JSON)
    if not mine:
        return ()
    left = record.released(context.deployment.name, mine)
    gone = _no_longer_needed(context, mine)
    file = _daemon_file(context) if gone else None
    running = context.facts.engine.state == "running"
    made = mine.get(DAEMON_JSON)
    made_only_for_us = made is not None and made.before is None and DAEMON_JSON not in left.keys
    return (
        Change(
            id="docker_daemon",
            phase="replace",
            step="docker_daemon",
            subject="daemon.json",
            action="remove",
            why=why,
            summary=f"no plain HTTP to {', '.join(gone)} any more · reload, nothing restarts"
            if gone
            else "gives up its share; the settings stay",
            before=Fingerprint(equals={**(_file_is(file) if gone else {}), **owners(record, mine)}),
            after=Fingerprint(
                equals={
                    **{pointer("engine", "insecure", name): None for name in gone if running},
                    **owners(left, mine),
                }
            ),
            operations=(
                *(_take_out(gone, tidy_file=made_only_for_us, running=running) if gone else ()),
                _disclaim(context, tuple(mine)),
            ),
            revert=None,
        ),
    )


def _no_longer_needed(context: HostContext, mine: dict[str, SharedKey]) -> tuple[str, ...]:
    """Registries that we allowed and that nobody else claims."""
    if context.host.engine == "existing":
        return ()
    return tuple(
        key.removeprefix(_PREFIX)
        for key, entry in mine.items()
        if key.startswith(_PREFIX) and entry.before is not True and len(entry.owners) == 1
    )


def _take_out(names: tuple[str, ...], *, tidy_file: bool, running: bool) -> tuple[Operation, ...]:
    """Registries out of daemon.json, and what was made only for them.

    In two steps: an engine that reloads takes no notice of a list that is not there.
    """
    take = MergeJson(id="take out", deadline_s=_FILE_S, path=DAEMON_JSON, key=_LIST, remove=names)
    tidy = MergeJson(
        id="tidy", deadline_s=_FILE_S, path=DAEMON_JSON, key=_LIST, tidy="file" if tidy_file else "list"
    )
    return (take, _reload("reload without", absent=names), tidy) if running else (take, tidy)


def _reload(id: str, *, present: tuple[str, ...] = (), absent: tuple[str, ...] = ()) -> Script:
    args = {"present": " ".join(present), "absent": " ".join(absent)}
    return script("reload-docker", args, id=id, deadline_s=_RELOAD_S)


def _disclaim(context: HostContext, keys: tuple[str, ...]) -> Disclaim:
    return Disclaim(id="give up", deadline_s=_FILE_S, deployment=context.deployment.name, keys=keys)


def _key(registry: str) -> str:
    return _PREFIX + registry


def _file_is(file: DaemonFile | None) -> dict[str, Any]:
    if file is None:
        return {pointer("engine", "daemon"): None}
    return {pointer("engine", "daemon", "sha256"): file.sha256}


def _daemon_file(context: HostContext) -> DaemonFile | None:
    file = context.facts.engine.daemon
    if isinstance(file, Unknown):
        raise HostError(
            f"{DAEMON_JSON} can't be edited: {file.unknown}", where=context.facts.host, do="repair the file"
        )
    return file


def _refuse_existing(context: HostContext, missing: tuple[str, ...]) -> None:
    if missing:
        raise HostError(
            f"the engine does not allow plain HTTP to {', '.join(missing)} and engine: {{use: existing}} "
            "forbids to edit its settings",
            where=context.facts.host,
            do=f'add it to "{_LIST}" in {DAEMON_JSON} and reload the engine',
        )
