"""What is wanted against what runs: one pure comparison, field by field, in the manifest's words.

`differences` explains; `same` decides. Wishes that did not change the outcome, the gate's wording and
where a secret's value comes from are not differences: none of them is worth a restart.
"""

from __future__ import annotations

from typing import Any

from ..types.base import to_data
from ..types.facts import Container
from ..types.plan import FieldDiff
from ..types.release import ContainerSpec, Instance
from .context import GIB, MIB

_MEANING = (
    ("context", "context"),
    ("parallel", "parallel"),
    ("threads", "threads"),
    ("threads_batch", "prompt threads"),
    ("served_name", "served_name"),
    ("tree", "weights"),
    ("backend", "backend"),
    ("engine_version", "engine version"),
)
_CONTAINER = ("image", "cpuset", "memory", "publish")
_NOT_COMPARED = frozenset({"secrets"})


def differences(running: Instance | None, wanted: Instance, secret_changed: bool) -> tuple[FieldDiff, ...]:
    """Every field that differs; those of the container that only follow carry the prefix `container.`."""
    if running is None:
        return ()
    found: list[FieldDiff] = []
    for field, label in _MEANING:
        before, after = getattr(running, field), getattr(wanted, field)
        if before != after:
            found.append(FieldDiff(field=label, before=str(before), after=str(after)))
    old, new = to_data(running.container), to_data(wanted.container)
    for field in (*_CONTAINER, *(key for key in new if key not in _CONTAINER)):
        if field not in _NOT_COMPARED and old.get(field) != new[field]:
            label = field if field in _CONTAINER else f"container.{field}"
            found.append(
                FieldDiff(field=label, before=_text(field, old.get(field)), after=_text(field, new[field]))
            )
    if _secret_paths(running.container) != _secret_paths(wanted.container):
        found.append(_presence(running.container, wanted.container))
    elif secret_changed:
        found.append(FieldDiff(field="api_key", before="[secret]", after="[another secret]"))
    return tuple(found)


def drift(container: Container, spec: ContainerSpec) -> tuple[FieldDiff, ...]:
    """What somebody changed by hand on the running container, against the spec it was created from."""
    # A kernel without swap accounting has no swap limit to compare: the engine says -1 or 0.
    swap = container.memory_swap if container.memory_swap > 0 else spec.memory
    pairs = (
        ("memory", container.memory, spec.memory),
        ("memory with swap", swap, spec.memory),
        ("cpuset", container.cpuset, spec.cpuset),
        ("networks", sorted(container.networks), sorted(spec.networks)),
    )
    found = {
        field: FieldDiff(
            field=field, before=_text(field, is_now), after=_text(field, was_made), why="changed by hand"
        )
        for field, is_now, was_made in pairs
        if is_now != was_made
    }
    return tuple(found.values())


def _secret_paths(spec: ContainerSpec) -> tuple[tuple[str, str], ...]:
    return tuple((secret.path, secret.target) for secret in spec.secrets)


def _presence(old: ContainerSpec, new: ContainerSpec) -> FieldDiff:
    return FieldDiff(
        field="api_key",
        before="[secret]" if old.secrets else None,
        after="[secret]" if new.secrets else None,
    )


def _text(field: str, value: Any) -> str | None:
    if value is None:
        return None
    if field.startswith("memory"):
        return f"{value / GIB:.1f} GiB" if value >= GIB else f"{value // MIB} MiB"
    if field == "publish":
        return ", ".join(f"{port['address']}:{port['port']}" for port in value)
    if isinstance(value, list | tuple):
        return " ".join(str(part) for part in value)
    return str(value)
