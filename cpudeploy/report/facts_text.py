"""What a host is, for people and as data. Facts in, text or JSON data out; what is unknown is told with why.

The data form leaves out the salted marks of secrets that releases carry.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from ..types.base import Unknown, to_data
from ..types.facts import Container, Cpu, Facts, Memory, Weights
from ..types.words import count
from .numbers import data_size, duration, memory_size, rate
from .text import Cell, Ink, flow

_TELLING_FLAGS = {
    "avx": "AVX",
    "avx2": "AVX2",
    "avx512f": "AVX-512F",
    "avx512_vnni": "AVX-512 VNNI",
    "avx512_bf16": "AVX-512 BF16",
    "amx_tile": "AMX",
    "asimd": "NEON",
    "asimddp": "dot product",
    "sve": "SVE",
    "i8mm": "I8MM",
    "bf16": "BF16",
}
_COLUMN = 10
_SELDOM = 0.01
"""A quota used up in fewer periods than that slows nobody down."""


def facts_data(facts: Facts) -> dict[str, Any]:
    """The facts as JSON data, without `secret_marks` wherever releases have them."""
    data: dict[str, Any] = to_data(facts)
    return data | {"releases": _without_marks(data["releases"])}


def all_facts_data(
    facts: Mapping[str, Facts], unreachable: Mapping[str, str], unknown: Mapping[str, str]
) -> dict[str, dict[str, Any]]:
    """Every host's facts as JSON data; a host without has `unreachable` or `unknown` with why instead."""
    return {
        **{name: facts_data(each) for name, each in facts.items()},
        **{name: {"host": name, "unreachable": why} for name, why in unreachable.items()},
        **{name: {"host": name, "unknown": why} for name, why in unknown.items()},
    }


def render_facts(facts: Facts, *, colour: bool, width: int, verbose: bool = False) -> str:
    """One host; `verbose` adds all CPU flags, images, networks, our volumes, ports, packages. No line end."""
    ink = Ink(colour)
    os = facts.os
    lines = flow(
        ink, [Cell(facts.host, "bold"), Cell("   ")], f"facts in {duration(facts.probe_s)}", width=width
    )
    rows: list[tuple[str, str]] = [
        ("os", f"{os.name} · {_told(os.arch)} · kernel {_told(os.kernel)}"),
        ("cpu", f"{_told(facts.cpu.model)} · {_flags(facts.cpu, verbose)}"),
        ("cores", _cores(facts.cpu)),
        ("memory", _memory(facts.memory)),
        *_disks(facts),
        ("engine", _engine(facts)),
        ("root", facts.root if facts.root != "none" else "none: neither root nor sudo"),
        *[(f"{kind} proxy", value) for kind, value in facts.proxy.items()],
        *[("container", _container(name, c)) for name, c in facts.containers.items()],
        ("weights", _weights(facts.weights)),
        *[("release", _release(name, ids)) for name, ids in facts.releases.items()],
        *[("note", note) for note in facts.notes],
    ]
    if verbose:
        rows += _more(facts)
    for field, text in rows:
        lines += flow(ink, [Cell("  "), Cell(field, "cyan", _COLUMN), Cell("  ")], text, width=width)
    return "\n".join(lines)


def _told(value: object) -> str:
    return f"unknown ({value.unknown})" if isinstance(value, Unknown) else str(value)


def _flags(cpu: Cpu, verbose: bool) -> str:
    if isinstance(cpu.flags, Unknown):
        return f"flags {_told(cpu.flags)}"
    if verbose:
        return " ".join(cpu.flags)
    return (
        " ".join(name for flag, name in _TELLING_FLAGS.items() if flag in cpu.flags) or "no vector extensions"
    )


def _cores(cpu: Cpu) -> str:
    """How many cores count, and what takes the others away."""
    parts = [_counted(cpu)]
    cores = () if isinstance(cpu.cores, Unknown) else cpu.cores
    nodes = len({core.node for core in cores if core.node >= 0})
    if not isinstance(cpu.sockets, Unknown) and cpu.sockets > 1:
        parts.append(count(cpu.sockets, "socket"))
    if nodes > 1:
        parts.append(count(nodes, "NUMA node"))
    usable = 0 if isinstance(cpu.usable, Unknown) else len(cpu.usable)
    if isinstance(cpu.online, Unknown):
        parts.append(f"threads of the machine {_told(cpu.online)}")
    elif usable and usable < cpu.online:
        parts.append(f"{usable} of the machine's {cpu.online} threads may be used (affinity or cpuset)")
    if isinstance(cpu.quota, Unknown):
        parts.append(f"quota {_told(cpu.quota)}")
    elif cpu.quota is not None:
        parts.append(f"a quota allows {cpu.quota:g} CPUs' worth of time{_throttled(cpu.throttled)}")
    return " · ".join(parts)


def _counted(cpu: Cpu) -> str:
    if isinstance(cpu.usable, Unknown):
        return _told(cpu.usable)
    if isinstance(cpu.cores, Unknown):
        return f"{count(len(cpu.usable), 'CPU')} · cores {_told(cpu.cores)}"
    told = f"{count(len(cpu.cores), 'core')}, {count(len(cpu.usable), 'thread')}"
    speeds = Counter(core.speed for core in cpu.cores)
    if len(speeds) > 1:
        fastest = max(speeds)
        kinds = [f"{speeds[speed]} at {speed * 100 // fastest} %" for speed in sorted(speeds, reverse=True)]
        told += f" ({', '.join(kinds).replace(' at 100 %', ' fast')})"
    return told


def _throttled(share: float | None) -> str:
    """The part of its periods a quota cut short, where it is worth a word."""
    return f" (used up in {share:.0%} of its periods)" if share is not None and share >= _SELDOM else ""


def _memory(memory: Memory) -> str:
    parts = [f"{_bytes(memory.available)} free of {_bytes(memory.total)}"]
    if isinstance(memory.limit, Unknown):
        parts.append(f"limit {_told(memory.limit)}")
    elif memory.limit is not None:
        parts.append(f"a control group allows {memory_size(memory.limit)} of {_bytes(memory.machine)}")
    if memory.bandwidth is not None:
        parts.append(f"reads {rate(memory.bandwidth)}")
    parts.append("no swap" if memory.swap == 0 else f"swap {_bytes(memory.swap)}")
    if isinstance(memory.nodes, Unknown):
        parts.append(f"NUMA {_told(memory.nodes)}")
    elif len(memory.nodes) > 1:
        each = ", ".join(f"{node.id}: {memory_size(node.memory)}" for node in memory.nodes)
        parts.append(f"NUMA nodes {each}")
    return " · ".join(parts)


def _bytes(size: int | Unknown) -> str:
    return _told(size) if isinstance(size, Unknown) else memory_size(size)


def _disks(facts: Facts) -> list[tuple[str, str]]:
    return [
        ("disk", f"{folder}  " + _told(disk))
        if isinstance(disk, Unknown)
        else ("disk", f"{folder}  {data_size(disk.free)} free of {data_size(disk.total)} on {disk.mount}")
        for folder, disk in facts.disks.items()
    ]


def _engine(facts: Facts) -> str:
    engine = facts.engine
    if engine.state != "running":
        detail = f": {engine.detail}" if engine.detail else ""
        words = {"absent": "none", "stopped": "installed, does not answer", "foreign": "not Docker"}
        return words.get(engine.state, engine.state) + detail
    parts = [f"Docker {engine.version}", f"API {engine.api_version}", engine.root]
    if engine.live_restore:
        parts.append("live-restore")
    if engine.insecure:
        parts.append(f"without TLS: {', '.join(engine.insecure)}")
    return " · ".join(part for part in parts if part)


def _container(name: str, container: Container) -> str:
    mark = container.mark
    parts = [name, f"of {mark.deployment}, release {mark.release}" if mark else "foreign", container.status]
    parts += [f"{p.address}:{p.port}" for p in container.publish]
    parts.append(f"memory {memory_size(container.memory)}" if container.memory else "no memory limit")
    if container.cpuset:
        parts.append(f"cpus {container.cpuset}")
    if container.quota:
        parts.append(f"quota {container.quota:g}{_throttled(container.throttled)}")
    if container.restarts:
        parts.append(count(container.restarts, "restart"))
    return " · ".join(parts)


def _weights(weights: Weights) -> str:
    if not weights.blobs and not weights.partial:
        return "none"
    parts = [f"{count(len(weights.blobs), 'file')}, {data_size(sum(b.size for b in weights.blobs.values()))}"]
    changed = sum(not blob.verified for blob in weights.blobs.values())
    if changed:
        parts.append(f"{changed} touched since hashed")
    if weights.partial:
        size = data_size(sum(weights.partial.values()))
        parts.append(f"{count(len(weights.partial), 'download')} begun, {size} so far")
    return " · ".join(parts)


def _release(deployment: str, ids: object) -> str:
    return f"{deployment}  {', '.join(ids)}" if isinstance(ids, dict) else f"{deployment}  {_told(ids)}"


def _more(facts: Facts) -> list[tuple[str, str]]:
    """What only `-v` is worth."""
    ports = facts.ports
    listening = (
        _told(ports) if isinstance(ports, Unknown) else ", ".join(f"{p.address}:{p.port}" for p in ports)
    )
    rows = [
        ("addresses", ", ".join(facts.addresses)),
        *[("interface", f"{name}  {', '.join(each)}") for name, each in facts.interfaces.items()],
        ("routes", ", ".join(facts.routes)),
        ("listening", listening),
        ("selinux", facts.selinux or "none"),
        ("tools", ", ".join(name for name, there in facts.tools.items() if there)),
    ]
    rows += [("image", f"{name}  {data_size(image.size)}") for name, image in facts.images.items()]
    rows += [("network", f"{name}  {', '.join(n.subnets)}") for name, n in facts.networks.items()]
    rows += [
        ("volume", f"{name}  of {each.deployment}") for name, each in facts.volumes.items() if each.deployment
    ]
    rows += [("package", f"{name}  {state or 'not known'}") for name, state in facts.packages.items()]
    return [(field, text) for field, text in rows if text]


def _without_marks(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _without_marks(value) for key, value in data.items() if key != "secret_marks"}
    if isinstance(data, list):
        return [_without_marks(value) for value in data]
    return data
