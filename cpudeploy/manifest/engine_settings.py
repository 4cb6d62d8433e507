"""Settings of the engine onto hosts. In: hosts, placements, playbooks. Out: hosts that know them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from ..types.deployment import Backend, Host, Placement
from ..types.playbook import Playbook
from ..types.shared import setting_text
from .problems import Problems, show


def with_engine_settings(
    hosts: Mapping[str, Host],
    placements: Iterable[Placement],
    backends: Mapping[str, Backend],
    playbooks: Mapping[str, Playbook],
    places: Mapping[str, str],
    problems: Problems,
) -> dict[str, Host]:
    """Each host with what its own playbooks, and those that its models' engines require, say of daemon.json.

    Adds a problem where two of them want different values. `places`: where each host was written.
    """
    names = {host.name: list(host.playbooks) for host in hosts.values()}
    for placement in placements:
        backend = backends.get(placement.backend)
        playbook = playbooks.get(backend.playbook) if backend is not None else None
        if playbook is not None and placement.host in names:
            names[placement.host] += playbook.requires
    found = {}
    for host in hosts.values():
        wanted: dict[str, Any] = {}
        said: dict[str, str] = {}
        for name in dict.fromkeys(names[host.name]):
            for key, value in _settings(playbooks.get(name)).items():
                if key in wanted and setting_text(wanted[key]) != setting_text(value):
                    problems.add(
                        places.get(host.name, ""),
                        f"playbooks {show(said[key])} and {show(name)} want different values of the "
                        f"engine's {show(key)} on host {show(host.name)}",
                        "name one of them, or make them agree",
                    )
                wanted[key] = value
                said[key] = name
        found[host.name] = msgspec.structs.replace(host, engine_settings=wanted)
    return found


def _settings(playbook: Playbook | None) -> dict[str, Any]:
    steps = playbook.steps if playbook is not None else ()
    return {
        key: value
        for step in steps
        for key, value in step.get("docker_daemon", {}).get("settings", {}).items()
    }
