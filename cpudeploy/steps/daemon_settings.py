"""Which settings of the engine differ from what playbooks want, and what each needs to take effect. Pure.

A reload is enough for few of them. Everything else is read when the engine starts; before such a restart the
engine is told to leave containers running (`live-restore`), a setting that is ours to keep and to put back
like any other. It stays on: the engine's next package upgrade restarts it as well.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..errors import HostError
from ..types.base import Unknown
from ..types.facts import DaemonFile
from ..types.plan import FieldDiff
from ..types.shared import SharedKey, setting_key, setting_text
from .context import HostContext
from .shared import claimed, host_record

DAEMON_JSON = "/etc/docker/daemon.json"
INSECURE = "insecure-registries"
LIVE_RESTORE = "live-restore"

NEUTRAL: dict[str, Any] = {
    "debug": False,
    "labels": [],
    LIVE_RESTORE: False,
    "registry-mirrors": [],
    "shutdown-timeout": 15,
}
"""Settings that a reload changes and does not forget when they are no longer there, with their defaults."""

RELOADED = frozenset(
    {*NEUTRAL, "max-concurrent-downloads", "max-concurrent-uploads", "max-download-attempts"}
)
"""What a reload is enough for, from engine 20.10 to 29 (moby's `daemon/reload.go`). It also takes `features`,
runtimes and plugins, but of the first the part that matters is read at the start only."""


@dataclass(frozen=True)
class Settings:
    """`wanted`: all of them. `set`: those to set in the file; `claim`: those to claim, with or without that.
    `release`: ours until now; `undo`: those of them whose value is still ours and nobody else's."""

    wanted: dict[str, Any] = field(default_factory=dict)
    set: tuple[str, ...] = ()
    claim: tuple[str, ...] = ()
    release: tuple[str, ...] = ()
    undo: tuple[str, ...] = ()

    @property
    def restart(self) -> bool:
        """Whether a reload is not enough for something that changes in the file."""
        return any(key not in RELOADED for key in (*self.set, *self.undo))


def wanted_settings(context: HostContext) -> dict[str, Any]:
    """What the host's playbooks want. Raises HostError where the engine could not start with it."""
    engine = context.facts.engine
    wanted = dict(context.host.engine_settings)
    if engine.swarm:
        if wanted.get(LIVE_RESTORE):
            raise HostError(
                f"an engine that is part of a swarm does not start with {LIVE_RESTORE}",
                where=context.facts.host,
                do=f"take {LIVE_RESTORE} out of this host's playbooks, or leave the swarm",
            )
    elif any(key not in RELOADED for key in wanted):
        wanted.setdefault(LIVE_RESTORE, True)
    return wanted


def settings_to_apply(context: HostContext) -> Settings:
    """What has to change. Raises HostError where another deployment wants another value."""
    wanted = wanted_settings(context)
    if not wanted and isinstance(context.facts.host_record, Unknown):
        return Settings()  # nothing is wanted of it, and what of it was ours can't be told
    ours = our_settings(context)
    record, found = host_record(context), _found(context)
    name = context.deployment.name
    claim = []
    for key, value in wanted.items():
        entry = record.keys.get(setting_key(DAEMON_JSON, key))
        text = setting_text(value)
        if entry is not None and entry.ours != text:
            _refuse_conflict(context, key, text, entry)
        if entry is None or entry.ours != text or name not in entry.owners:
            claim.append(key)
    return Settings(
        wanted=wanted,
        set=tuple(key for key in wanted if not found.get(key)),
        claim=tuple(claim),
        **_given_up(ours, found, tuple(key for key in ours if key not in wanted)),
    )


def settings_to_remove(context: HostContext) -> Settings:
    """All that is ours, given up."""
    ours = our_settings(context)
    return Settings(**_given_up(ours, _found(context), tuple(ours)))


def our_settings(context: HostContext) -> dict[str, SharedKey]:
    """Setting → claim of this deployment."""
    prefix = setting_key(DAEMON_JSON, "")
    return {
        key.removeprefix(prefix): entry
        for key, entry in claimed(context, prefix).items()
        if not key.startswith(setting_key(DAEMON_JSON, f"{INSECURE}/"))
    }


def setting_diffs(context: HostContext, settings: Settings) -> tuple[FieldDiff, ...]:
    """Ours are shown; what the owner has there is not ours to show."""
    record, found = host_record(context), _found(context)
    diffs = []
    for key in settings.set:
        entry = record.keys.get(setting_key(DAEMON_JSON, key))
        before = None if key not in found else "another value"
        why = "" if key in context.host.engine_settings else "so that containers outlive the engine's restart"
        if entry is not None and entry.ours == setting_text(settings.wanted[key]):
            why = "it was set before, and changed by somebody else since"
        diffs.append(FieldDiff(field=key, before=before, after=setting_text(settings.wanted[key]), why=why))
    for key in settings.undo:
        entry = record.keys[setting_key(DAEMON_JSON, key)]
        after = None if entry.before is None else "as it was before"
        diffs.append(
            FieldDiff(field=key, before=str(entry.ours), after=after, why="nobody wants it any more")
        )
    return tuple(diffs)


def keeps_running(context: HostContext, settings: Settings) -> bool:
    """Whether containers outlive a restart of the engine for these settings."""
    engine = context.facts.engine
    if engine.swarm:
        return False
    return bool(settings.wanted.get(LIVE_RESTORE, engine.live_restore))


def _given_up(ours: dict[str, SharedKey], found: dict[str, bool], keys: tuple[str, ...]) -> dict[str, Any]:
    undo = tuple(
        key
        for key in keys
        if len(ours[key].owners) == 1 and found.get(key) and ours[key].before != ours[key].ours
    )
    return {"release": keys, "undo": undo}


def _found(context: HostContext) -> dict[str, bool]:
    daemon = context.facts.engine.daemon
    return daemon.settings if isinstance(daemon, DaemonFile) else {}


def _refuse_conflict(context: HostContext, key: str, text: str, entry: SharedKey) -> None:
    others = [owner for owner in entry.owners if owner != context.deployment.name]
    if others:
        raise HostError(
            f"the engine's {key} is {entry.ours} for deployment {', '.join(others)}, "
            f"and {text} is wanted here",
            where=context.facts.host,
            do="agree on one value: the engine is shared by all deployments of the host",
        )
