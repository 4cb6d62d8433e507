"""The gate a model must pass: rendered from the playbook, carried by the plan as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ..errors import NotYet
from ..manifest.templates import render
from ..types.deployment import Placement
from ..types.playbook import Playbook
from ..types.release import Check, Gate

_READ_BYTES_PER_S = 200_000_000
"""How fast a model is read, for the estimate of a gap in service."""

_UNKNOWN_START_S = 3
"""Of an engine whose playbook is gone."""


def wanted_gate(
    playbook: Playbook, placement: Placement, load_bytes: int, context: Mapping[str, Any]
) -> Gate:
    """Ready, listed, one real request of the task, and closed to those without the key where there is one.
    The deadline grows with the bytes to load."""
    task = placement.task
    health = playbook.health
    if health is None:
        raise NotYet(f"playbook {playbook.name} has no health gate", do="add a health section to it")
    if task not in health.tasks:
        raise NotYet(
            f"playbook {playbook.name} can't prove the task {task}",
            do=f"choose one of {', '.join(sorted(health.tasks))}",
        )
    checks = (*health.ready, *health.tasks[task])
    if placement.api_key is not None and health.closed is not None:
        checks = (*checks, health.closed)
    port = playbook.container.port if playbook.container else 0
    return Gate(
        port=port,
        stable_s=health.stable_s,
        deadline_s=health.start_s + load_bytes // health.load_bytes_per_s,
        checks=tuple(_rendered(check, context) for check in checks),
        busy=None if health.busy is None else _rendered(health.busy, context),
    )


def usual_start_s(playbook: Playbook | None, load_bytes: int) -> int:
    """Seconds until an engine usually serves a model of `load_bytes`, which it reads at once."""
    health = playbook.health if playbook is not None else None
    start_s = health.usual_start_s if health is not None else _UNKNOWN_START_S
    return start_s + load_bytes // _READ_BYTES_PER_S


def _rendered(check: Check, context: Mapping[str, Any]) -> Check:
    return msgspec.structs.replace(
        check,
        path=render(check.path, context),
        body=None if check.body is None else render(check.body, context),
        equals=None if check.equals is None else render(check.equals, context),
        instead=None if check.instead is None else _rendered(check.instead, context),
    )
