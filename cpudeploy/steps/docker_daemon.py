"""Engine settings: what playbooks say, registries without TLS, and registries' own certificates.

What can be said of a container goes on the container. The owner's settings in daemon.json are kept, and what
is in it never gets into a plan; each setting and each registry is claimed in `host.json`, so that the last
deployment to need it puts back what was there before. An engine with `use: existing` is never touched.
"""

from __future__ import annotations

from typing import Any

from ..errors import HostError
from ..types.base import Unknown
from ..types.deployment import Deployment, Host
from ..types.facts import DaemonFile, Question
from ..types.operation import AssignJson, Claim, Operation
from ..types.plan import Change, FieldDiff, Fingerprint
from ..types.shared import HostRecord, SharedKey, setting_key, setting_text
from .certificates import certificate_changes, certificate_questions, certificate_removal_changes
from .context import HostContext, pointer
from .daemon_edit import Edit, edit_operations, edit_revert
from .daemon_settings import (
    DAEMON_JSON,
    INSECURE,
    LIVE_RESTORE,
    Settings,
    keeps_running,
    setting_diffs,
    settings_to_apply,
    settings_to_remove,
)
from .found import is_ours
from .shared import claim, claimed, host_record, owners, unclaimed

_PREFIX = setting_key(DAEMON_JSON, f"{INSECURE}/")
_FILE_S = 30
_GAP_S = 2
"""Ports of the loopback are the engine's own programs, which end with it and come back with it."""


def daemon_questions(deployment: Deployment, host: Host) -> tuple[Question, ...]:
    """What must be asked of a host beside the usual facts."""
    wanted = {LIVE_RESTORE: True, **host.engine_settings} if host.engine_settings else {}
    settings = (
        Question(kind="setting", key=key, arg=setting_text(value)) for key, value in sorted(wanted.items())
    )
    return (*certificate_questions(deployment), *settings)


def daemon_changes(context: HostContext, insecure: tuple[str, ...]) -> tuple[Change, ...]:
    """Certificates, settings, and permission for `insecure` registries, where the host lacks them.

    Raises HostError where that is forbidden, or a file involved can't be understood.
    """
    return (*certificate_changes(context), *_changes(context, insecure))


def daemon_removal_changes(context: HostContext, why: str) -> tuple[Change, ...]:
    """What undoes this deployment's share of the engine's settings: all that nobody else needs and that
    was not there before. Raises HostError where a file involved can't be understood."""
    return (*_removal(context, why), *certificate_removal_changes(context, why))


def _changes(context: HostContext, wanted: tuple[str, ...]) -> tuple[Change, ...]:
    engine = context.facts.engine
    missing = tuple(registry for registry in wanted if not engine.insecure.get(registry, False))
    if context.host.engine == "existing":
        _refuse_existing(context, missing)
        return ()
    settings = settings_to_apply(context)
    if not wanted and not settings.wanted and not settings.release:
        return ()
    # What the owner allowed is not ours to claim; what another deployment added is.
    known = host_record(context).keys
    shared = tuple(name for name in wanted if name not in missing and _key(name) in known)
    registries = (*missing, *shared)
    claims = _claims(context, registries, with_file=bool(registries or settings.set or settings.claim))
    if missing or settings.set or settings.undo:
        return (_edit(context, missing, settings, claims),)
    if settings.claim or settings.release or unclaimed(context, map(_key, shared)):
        return (_join(context, settings, claims),)
    return ()


def _claims(context: HostContext, registries: tuple[str, ...], *, with_file: bool) -> dict[str, SharedKey]:
    """This deployment's claims on registries and on the file they stand in, with what is there now."""
    file = context.facts.engine.daemon
    listed = file.insecure if isinstance(file, DaemonFile) else ()
    present = {DAEMON_JSON: claim(context, before=None if file is None else "present", ours="present")}
    return {
        **(present if with_file else {}),
        **{_key(name): claim(context, before=name in listed, ours=True) for name in registries},
    }


def _edit(
    context: HostContext, missing: tuple[str, ...], settings: Settings, claims: dict[str, SharedKey]
) -> Change:
    file = _daemon_file(context)
    listed = file.insecure if file is not None else ()
    engine = context.facts.engine
    edit = Edit(
        deployment=context.deployment.name,
        sha256="" if file is None else file.sha256,
        settings=settings,
        add=missing,
        claims=claims,
        live=keeps_running(context, settings),
        # One that is not there yet is, and runs, when it comes to this.
        running=True,
    )
    record = host_record(context)
    at = {pointer("engine", "insecure", name): None for name in missing}
    equals = {**at, **_file_is(file), **_claimed(record, settings, claims)}
    diff = setting_diffs(context, settings)
    if missing:
        added = tuple(name for name in missing if name not in listed)
        after = ", ".join((*listed, *added))
        diff = (*diff, FieldDiff(field=INSECURE, before=", ".join(listed) or None, after=after))
    what = [f"allow plain HTTP to {', '.join(missing)}"] if missing else []
    what += [key for key in (*settings.set, *settings.undo) if key != LIVE_RESTORE or not settings.restart]
    return Change(
        id="docker_daemon",
        phase="provision",
        step="docker_daemon",
        subject="daemon.json",
        action="create" if file is None else "update",
        why=_why(context, missing),
        summary=f"{', '.join(what)} · {_effect(edit)}",
        diff=diff,
        before=Fingerprint(equals=equals),
        after=Fingerprint(
            equals={
                **dict.fromkeys(at, True),
                **{pointer("engine", "daemon", "settings", key): True for key in settings.wanted},
                **_claimed(_after(context, settings, claims), settings, claims),
            }
        ),
        operations=edit_operations(edit),
        revert=edit_revert(edit, unclaimed(context, _names(settings, claims))),
        **_restarts(context, edit, engine_runs=engine.state == "running"),
    )


def _join(context: HostContext, settings: Settings, claims: dict[str, SharedKey]) -> Change:
    """The engine has it all already: only to be known as one who needs it, or needs it no more."""
    operations: list[Operation] = []
    if claims:
        operations.append(Claim(id="claim", deadline_s=_FILE_S, keys=claims))
    if settings.claim or settings.release:
        operations.append(
            AssignJson(
                id="assign",
                deadline_s=_FILE_S,
                path=DAEMON_JSON,
                deployment=context.deployment.name,
                values={key: settings.wanted[key] for key in settings.claim},
                release=settings.release,
            )
        )
    registries = [name.removeprefix(_PREFIX) for name in claims if name.startswith(_PREFIX)]
    parts = [f"share plain HTTP to {', '.join(registries)} with other deployments"] if registries else []
    parts += [f"share {', '.join(settings.claim)}, already so"] if settings.claim else []
    parts += [f"give up {', '.join(settings.release)}; it stays"] if settings.release else []
    edit = Edit(deployment=context.deployment.name, sha256="", settings=settings, running=False)
    record = host_record(context)
    return Change(
        id="docker_daemon",
        phase="provision",
        step="docker_daemon",
        subject="daemon.json",
        action="update",
        why=_why(context, tuple(registries)),
        summary=" · ".join(parts),
        before=Fingerprint(equals=_claimed(record, settings, claims)),
        after=Fingerprint(equals=_claimed(_after(context, settings, claims), settings, claims)),
        operations=tuple(operations),
        revert=edit_revert(edit, unclaimed(context, _names(settings, claims))),
    )


def _removal(context: HostContext, why: str) -> tuple[Change, ...]:
    record = host_record(context)
    mine = claimed(context, DAEMON_JSON)
    if not mine:
        return ()
    touched = context.host.engine != "existing"
    settings = settings_to_remove(context)
    gone = _no_longer_needed(mine) if touched else ()
    if not touched:
        settings = Settings(release=settings.release)
    left = record.released(context.deployment.name, mine)
    made = mine.get(DAEMON_JSON)
    made_only_for_us = made is not None and made.before is None and DAEMON_JSON not in left.keys
    names = {setting_key(DAEMON_JSON, key) for key in settings.release}
    edits = bool(gone or settings.undo)
    # Where nothing is edited it may be anything, also what nobody understands.
    file = _daemon_file(context) if edits else None
    edit = Edit(
        deployment=context.deployment.name,
        sha256="" if file is None else file.sha256,
        settings=settings,
        remove=gone,
        disclaim=tuple(name for name in mine if name not in names),
        live=keeps_running(context, settings),
        running=context.facts.engine.state == "running" and edits,
        tidy="file" if made_only_for_us else "list" if gone else "nothing",
    )
    parts = [f"no plain HTTP to {', '.join(gone)} any more"] if gone else []
    parts += [f"{', '.join(settings.undo)} as before"] if settings.undo else []
    running = context.facts.engine.state == "running"
    return (
        Change(
            id="docker_daemon",
            phase="replace",
            step="docker_daemon",
            subject="daemon.json",
            action="remove",
            why=why,
            summary=" · ".join((*parts, _effect(edit))) if parts else "gives up its share; the settings stay",
            diff=setting_diffs(context, settings),
            before=Fingerprint(equals={**(_file_is(file) if edits else {}), **owners(record, mine)}),
            after=Fingerprint(
                equals={
                    **{pointer("engine", "insecure", name): None for name in gone if running},
                    **owners(left, mine),
                }
            ),
            operations=edit_operations(edit) if touched else _only_given_up(edit),
            revert=edit_revert(edit, ()) if edit.running else None,
            **_restarts(context, edit, engine_runs=running, ours_gone=True),
        ),
    )


def _only_given_up(edit: Edit) -> tuple[Operation, ...]:
    """An engine that is not ours to edit any more: the claims go, the file stays as it is."""
    names = (*edit.disclaim, *(setting_key(DAEMON_JSON, key) for key in edit.settings.release))
    return edit_operations(Edit(deployment=edit.deployment, sha256="", disclaim=names, running=False))


def _no_longer_needed(mine: dict[str, SharedKey]) -> tuple[str, ...]:
    """Registries that we allowed and that nobody else claims."""
    return tuple(
        key.removeprefix(_PREFIX)
        for key, entry in mine.items()
        if key.startswith(_PREFIX) and entry.before is not True and len(entry.owners) == 1
    )


def _names(settings: Settings, claims: dict[str, SharedKey]) -> tuple[str, ...]:
    """Shared keys that this change is about."""
    keys = (*settings.wanted, *settings.release)
    return (*claims, *(setting_key(DAEMON_JSON, key) for key in keys))


def _after(context: HostContext, settings: Settings, claims: dict[str, SharedKey]) -> HostRecord:
    """The record afterwards, as far as fingerprints speak of it: what was before only the host knows."""
    values = {
        setting_key(DAEMON_JSON, key): claim(context, before=None, ours=setting_text(settings.wanted[key]))
        for key in settings.wanted
    }
    released = [setting_key(DAEMON_JSON, key) for key in settings.release]
    record = host_record(context).claimed({**claims, **values})
    return record.released(context.deployment.name, released)


def _claimed(record: HostRecord, settings: Settings, claims: dict[str, SharedKey]) -> dict[str, Any]:
    """Who owns what, and our value of each setting."""
    names = [setting_key(DAEMON_JSON, key) for key in settings.wanted]
    values = {
        pointer("host_record", "keys", name, "ours"): record.keys[name].ours if name in record.keys else None
        for name in names
    }
    return {**owners(record, _names(settings, claims)), **values}


def _effect(edit: Edit) -> str:
    if not edit.restart:
        return "reload, nothing restarts" if edit.running else "no reload"
    return "the engine restarts, containers keep running" if edit.live else "the engine restarts"


def _restarts(
    context: HostContext, edit: Edit, *, engine_runs: bool, ours_gone: bool = False
) -> dict[str, Any]:
    """How many containers restart with the engine, and for how long published ports may not answer."""
    if not (edit.restart and engine_runs):
        return {}
    running = [container for container in context.facts.containers.values() if container.running]
    foreign = [container for container in running if not is_ours(context, container)]
    touched = foreign if ours_gone else running
    published = [each.address for container in touched for each in container.publish]
    gap = _GAP_S if any(address.startswith("127.") for address in published) else None
    if edit.live:
        return {"gap_s": gap}
    return {"restarts": len(touched), "restarts_foreign": len(foreign), "gap_s": gap}


def _why(context: HostContext, registries: tuple[str, ...]) -> str:
    wanted = bool(context.host.engine_settings)
    parts = (["a mirror without TLS"] if registries else []) + (["a playbook's settings"] if wanted else [])
    return ", ".join(parts) or "no playbook wants it any more"


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
    daemon = context.facts.engine.daemon
    found = daemon.settings if isinstance(daemon, DaemonFile) else {}
    other = {key: value for key, value in context.host.engine_settings.items() if not found.get(key)}
    if other:
        told = ", ".join(f'"{key}": {setting_text(value)}' for key, value in other.items())
        raise HostError(
            f"playbooks want {told} of the engine and engine: {{use: existing}} forbids to edit its settings",
            where=context.facts.host,
            do=f"set it in {DAEMON_JSON} yourself, or take it out of this host's playbooks",
        )
    if missing:
        raise HostError(
            f"the engine does not allow plain HTTP to {', '.join(missing)} and engine: {{use: existing}} "
            "forbids to edit its settings",
            where=context.facts.host,
            do=f'add it to "{INSECURE}" in {DAEMON_JSON} and reload the engine',
        )
