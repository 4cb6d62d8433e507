"""What failed its gate before is not tried again while it is the same: what served before goes on. Pure.

In: a host's facts with its holds, and what is wanted there. Out: the models that are held, and what stands
in their place. A hold is heeded only where it is known what goes on instead: something proven, or nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..steps.context import HostContext
from ..steps.found import find
from ..types.facts import Facts
from ..types.plan import Change
from ..types.release import Instance, identity
from ..types.safety import Hold
from ..types.words import seconds_since

_UNITS = ((86400, "d"), (3600, "h"), (60, "min"))


@dataclass(frozen=True)
class Held:
    """`models`: model → why, for people. `instead`: container name → the recorded instance that goes on.
    `lacking`: models that are to come and of which nothing serves."""

    models: dict[str, str] = field(default_factory=dict)
    instead: dict[str, Instance] = field(default_factory=dict)
    lacking: list[str] = field(default_factory=list)

    def waiting(self, last: Sequence[Change]) -> dict[str, str]:
        """Model → why its removal waits, of the `last` ones: what is lacking may be to take its place."""
        why = f"it is not wanted any more and stays until {', '.join(self.lacking)} serves"
        return {change.subject: why for change in last}


def held_back(context: HostContext, wanted: Mapping[str, Instance]) -> Held:
    """Which of `wanted` (by container name) are held on this host."""
    holds = context.facts.held.get(context.deployment.name, {})
    held = Held()
    for name, instance in wanted.items():
        hold = holds.get(name)
        if hold is None or hold.wanted != identity(instance) or _another_secret(context, instance):
            continue
        stands = find(context, name).settled
        if stands.current is not None and not stands.proven:
            continue
        held.models[instance.model] = _why(hold, context.facts)
        if stands.recorded is not None:
            held.instead[name] = stands.recorded
        elif stands.current is None:
            held.lacking.append(instance.model)
    return held


def _another_secret(context: HostContext, instance: Instance) -> bool:
    key = f"{context.host.name}/{context.deployment.name}/{instance.model}/{instance.instance}/api_key"
    return context.resolved.held_secrets.get(key) == "changed"


def _why(hold: Hold, facts: Facts) -> str:
    parts = [f"it failed its gate {ago(hold.at, facts.clock)}in release {hold.release}: {hold.what}"]
    parts += [part for part in (hold.cause, hold.do) if part]
    return "; ".join([*parts, "do: change it, or try it again with --retry"])


def ago(at: str, now: int) -> str:
    """`2 h ago ` of a time in RFC 3339 (UTC), by the same clock as `now`; empty for what is no time."""
    seconds = seconds_since(at, now)
    if seconds is None:
        return ""
    size, unit = next(((size, unit) for size, unit in _UNITS if seconds >= size), (1, "s"))
    return f"{seconds // size} {unit} ago "
