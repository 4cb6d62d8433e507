"""What a plan leaves out, as it is told to people: a long reason once a model, not anew for every host."""

from __future__ import annotations

from ..types.plan import Plan

_SHORT = 60
"""Characters that are read as quickly as a word on where they stand."""


def left_out(plan: Plan) -> dict[str, dict[str, str]]:
    """Host → model → why, of every host. Where an earlier host has told the same of the model, that host is
    named instead."""
    first: dict[tuple[str, str], str] = {}
    return {
        name: {
            model: _shown(why, name, first.setdefault((model, why), name))
            for model, why in host.left_out.items()
        }
        for name, host in plan.hosts.items()
    }


def _shown(why: str, host: str, told_of: str) -> str:
    if told_of == host or len(why) <= _SHORT:
        return why
    kind = why.partition(": ")[0]
    return f"{kind}: as on {told_of}"
