"""What is wanted against what runs: one pure comparison, field by field, in the manifest's words.

Only what the container would become decides: a backend's new name, a wish that changes no number, the
gate's wording, or where a secret's value comes from is not worth a restart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ..types.base import digest, to_data
from ..types.facts import Container, Network
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
_CONTAINER = ("image", "cpuset", "cpuset_mems", "memory", "publish")


def differences(running: Instance | None, wanted: Instance, secret_changed: bool) -> tuple[FieldDiff, ...]:
    """Every field that differs; those of the container that only follow carry the prefix `container.`."""
    if running is None:
        return ()
    derived = _container_differences(running.container, wanted.container, secret_changed)
    if not derived:
        return ()
    meaning = [
        FieldDiff(field=label, before=str(before), after=str(after))
        for field, label in _MEANING
        if (before := getattr(running, field)) != (after := getattr(wanted, field))
    ]
    return (*meaning, *derived)


def _container_differences(
    running: ContainerSpec, wanted: ContainerSpec, secret_changed: bool
) -> list[FieldDiff]:
    old, new = to_data(running), to_data(wanted)
    found = [
        FieldDiff(
            field=field if field in _CONTAINER else f"container.{field}",
            before=_text(field, old.get(field)),
            after=_text(field, new[field]),
        )
        for field in (*_CONTAINER, *(key for key in new if key not in _CONTAINER))
        if field != "secrets" and old.get(field) != new[field]
    ]
    if _secret_paths(running) != _secret_paths(wanted):
        found.append(_presence(running, wanted))
    elif secret_changed:
        found.append(FieldDiff(field="api_key", before="[secret]", after="[another secret]"))
    return found


def drift(container: Container, spec: ContainerSpec) -> tuple[FieldDiff, ...]:
    """What somebody changed by hand on the running container, against the spec it was created from."""
    # A kernel without swap accounting has no swap limit to compare: the engine says -1 or 0.
    swap = container.memory_swap if container.memory_swap > 0 else spec.memory
    pairs = (
        ("memory", container.memory, spec.memory),
        ("memory with swap", swap, spec.memory),
        ("cpuset", container.cpuset, spec.cpuset),
        ("cpuset_mems", container.cpuset_mems, spec.cpuset_mems),
        ("CPU quota", container.quota, 0.0),
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


def lost_networks(container: Container, networks: Mapping[str, Network]) -> tuple[FieldDiff, ...]:
    """Networks the container was connected to that are not there any more, or are others of that name."""
    lost = [
        name
        for name, identity in container.network_ids.items()
        if identity and (name not in networks or networks[name].id != identity)
    ]
    if not lost:
        return ()
    return (FieldDiff(field="networks", before=None, after=" ".join(lost), why="removed by hand"),)


def cut_off(container: Container, spec: ContainerSpec, networks: Mapping[str, Network]) -> tuple[str, ...]:
    """Networks that are there and that the container was made for, where all it lacks is some of these."""
    missing = tuple(name for name in spec.networks if name not in container.networks)
    only = set(container.networks) <= set(spec.networks) and all(name in networks for name in missing)
    return missing if only else ()


def unlike(container: Container, wanted: ContainerSpec) -> tuple[FieldDiff, ...]:
    """What of `wanted` the container is not, by all that inspect tells: for when its record is lost."""
    image = FieldDiff(field="image", before=container.image, after=wanted.image)
    published = FieldDiff(
        field="publish",
        before=_text("publish", to_data(container.publish)),
        after=_text("publish", to_data(wanted.publish)),
    )
    found = drift(container, wanted)
    if container.image.rpartition("@")[2] != wanted.image.rpartition("@")[2]:
        found = (*found, image)
    if set(container.publish) != set(wanted.publish):
        found = (*found, published)
    if container.command and wanted.command and container.command != digest(wanted.command):
        command = FieldDiff(field="container.command", before="another", after=_text("", wanted.command))
        found = (*found, command)
    return tuple(msgspec.structs.replace(field, why="its release record is lost") for field in found)


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
