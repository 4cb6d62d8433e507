"""The container engine and what it holds, from the JSON its client printed. Pure."""

from __future__ import annotations

import ipaddress
import json
import re
from contextlib import suppress
from typing import Any

from ..errors import HostError
from ..types.base import Unknown, digest
from ..types.facts import Container, DaemonFile, Engine, Image, Mark, Network, Publish, Volume
from ..types.shared import HostRecord, setting_text
from .held import read_host_record
from .records import Records

_TIMED_OUT = 124
"""What `timeout` ends with."""
_SETTING = "/etc/docker/daemon.json#/"
_USERINFO = re.compile(r"//[^/@]*@")


def read_engine(records: Records) -> Engine:
    """State and settings. A foreign engine is named, its objects are not read.

    Raises HostError for an engine that runs but does not answer: what it holds is unknown, not nothing.
    """
    daemon = _daemon_file(records)
    client = records.text("engine-client")
    if not client:
        return Engine(state="absent", daemon=daemon)
    path, _, shim = client.partition("\n")
    info = _object(records, "engine-info")
    version = _object(records, "engine-version")
    root = str(info.get("DockerRootDir") or "")
    if (
        "podman" in path
        or "podman" in shim.lower()
        or "podman" in json.dumps(version.get("Client") or {}).lower()
    ):
        return Engine(state="foreign", detail="`docker` is podman", daemon=daemon)
    if path.startswith("/snap/") or path.endswith("/snap") or root.startswith("/var/snap/"):
        return Engine(state="foreign", detail="docker is a snap", daemon=daemon)
    if not info.get("ServerVersion"):
        complaint = _complaint(records, info)
        if _timed_out(records) or records.get("engine-process") is not None:
            raise HostError(
                f"the container engine runs but does not answer, so what it holds is unknown: {complaint}",
                where=records.host,
                do="try again when the host is less busy; else see `journalctl -u docker`",
            )
        if "dockerd=1" not in records.text("tools").split():
            return Engine(state="absent", detail="a docker client without an engine", daemon=daemon)
        return Engine(state="stopped", detail=complaint, daemon=daemon)
    server = version.get("Server") or {}
    return Engine(
        state="running",
        version=str(info["ServerVersion"]),
        api_version=str(server.get("ApiVersion") or ""),
        root=root,
        storage=str(info.get("Driver") or ""),
        cgroup=str(info.get("CgroupVersion") or ""),
        insecure=_insecure(info.get("RegistryConfig") or {}),
        live_restore=bool(info.get("LiveRestoreEnabled")),
        swarm=(info.get("Swarm") or {}).get("LocalNodeState", "inactive") not in ("", "inactive"),
        daemon=daemon,
    )


def _daemon_file(records: Records) -> DaemonFile | Unknown | None:
    """What we need of daemon.json; its text ends here."""
    record = records.get("daemon-json")
    if record is None:
        return None
    if record.code != 0:
        return Unknown(unknown=record.text.strip() or "can't be read")
    try:
        settings = json.loads(record.text) if record.text.strip() else {}
    except ValueError as error:
        return Unknown(unknown=f"not valid JSON: {error}")
    insecure = settings.get("insecure-registries", []) if isinstance(settings, dict) else None
    if not isinstance(insecure, list) or not all(isinstance(name, str) for name in insecure):
        return Unknown(unknown="not of the shape the engine expects")
    digest = records.text("daemon-json-sha256").partition(" ")[0]
    return DaemonFile(sha256=digest, insecure=tuple(insecure), settings=_settings(records, settings))


def _settings(records: Records, found: dict[str, Any]) -> dict[str, bool]:
    """Which of the settings we know of have the value we know: the others' values stay untold."""
    record = read_host_record(records)
    claims = record.keys if isinstance(record, HostRecord) else {}
    known = {key.removeprefix(_SETTING): claim.ours for key, claim in claims.items() if _SETTING in key}
    known |= {key: asked.text for key, asked in records.below("setting:").items()}
    return {key: setting_text(found[key]) == value for key, value in known.items() if key in found}


def read_proxy(records: Records) -> dict[str, str]:
    """The engine's proxies, without a password they may hold."""
    info = _object(records, "engine-info")
    named = {"http": "HttpProxy", "https": "HttpsProxy", "no_proxy": "NoProxy"}
    return {key: _USERINFO.sub("//", str(info[field])) for key, field in named.items() if info.get(field)}


def read_containers(records: Records) -> dict[str, Container]:
    found = {}
    for row in _rows(records, "engine-containers", 28):
        (
            identity, name, image, image_id, status, running, exit_code, oom, restarts, policy, started,
            cpuset, mems, nano, quota, period, memory, swap, bindings, ports, networks, mounts, command,
            *labels,
        ) = row  # fmt: skip
        found[str(name).removeprefix("/")] = Container(
            id=identity,
            mark=_mark(*labels),
            image=image or "",
            image_id=image_id or "",
            status=status or "",
            running=bool(running),
            exit_code=exit_code or 0,
            oom_killed=bool(oom),
            restarts=restarts or 0,
            restart_policy=policy or "",
            started_at=started or "",
            cpuset=cpuset or "",
            cpuset_mems=mems or "",
            quota=_quota(nano or 0, quota or 0, period or 0),
            memory=max(memory or 0, 0),
            memory_swap=swap or 0,
            publish=_publish(bindings or {}, ports or {}),
            networks={network: (at or {}).get("IPAddress") or "" for network, at in (networks or {}).items()},
            network_ids={
                network: (at or {}).get("NetworkID") or "" for network, at in (networks or {}).items()
            },
            mounts=tuple(sorted(mount["Source"] for mount in mounts or () if mount.get("Source"))),
            volumes=tuple(sorted(mount["Name"] for mount in mounts or () if mount.get("Type") == "volume")),
            command=digest(command) if command else "",
        )
    return found


def read_networks(records: Records) -> dict[str, Network]:
    return {
        name: Network(
            id=identity,
            driver=driver or "",
            internal=bool(internal),
            subnets=tuple(part["Subnet"] for part in pools or () if _is_network(part.get("Subnet"))),
            deployment=deployment or "",
        )
        for identity, name, driver, internal, pools, deployment in _rows(records, "engine-networks", 6)
    }


def read_volumes(records: Records) -> dict[str, Volume]:
    """None where they could not be listed: a driver that hangs keeps only volumes from being removed."""
    listed = records.get("engine-volumes")
    if listed is None or listed.code != 0:
        return {}
    return {
        name: Volume(deployment=deployment or "") for name, deployment in _rows(records, "engine-volumes", 2)
    }


def read_images(records: Records) -> dict[str, Image]:
    found = {}
    for identity, tags, digests, size, system, arch, variant in _rows(records, "engine-images", 7):
        image = Image(
            id=identity,
            references=(*(tags or ()), *(digests or ())),
            size=max(size or 0, 0),
            platform="/".join(part for part in (system, arch, variant) if part),
        )
        for reference in digests or ():
            found[reference.rpartition("@")[2]] = image
    return found


def _is_network(text: Any) -> bool:
    with suppress(ValueError):
        return bool(ipaddress.ip_network(text, strict=False))
    return False


def _object(records: Records, key: str) -> dict[str, Any]:
    """JSON the client printed, also where it ended with an error: it tells its half then."""
    record = records.get(key)
    if record is None:
        return {}
    try:
        value = json.loads(record.text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _rows(records: Records, key: str, width: int) -> list[list[Any]]:
    """One JSON list a line. A listing that failed is an error: an empty one would mean nothing is there."""
    record = records.get(key)
    said = records.text(f"{key}-stderr").strip()
    if record is None or record.code != 0:
        what = f"listing {key.removeprefix('engine-')} failed: {said or 'no answer'}"
        raise HostError(what, where=records.host)
    try:
        rows = [json.loads(line) for line in record.text.splitlines()]
    except ValueError:
        raise HostError(f"{key} holds a line that is not JSON", where=records.host) from None
    if any(not isinstance(row, list) or len(row) != width for row in rows):
        raise HostError(f"{key} has rows of another shape than {width} fields", where=records.host)
    return rows


def _complaint(records: Records, info: dict[str, Any]) -> str:
    errors = info.get("ServerErrors") or []
    if errors:
        return str(errors[0])
    if _timed_out(records):
        return "no answer in time"
    return records.text("engine-info-stderr").strip() or "the engine does not answer"


def _timed_out(records: Records) -> bool:
    record = records.get("engine-info")
    return record is not None and record.code == _TIMED_OUT


def _insecure(registries: dict[str, Any]) -> dict[str, bool]:
    networks = registries.get("InsecureRegistryCIDRs") or []
    names = [
        name for name, entry in (registries.get("IndexConfigs") or {}).items() if not entry.get("Secure")
    ]
    return dict.fromkeys(sorted({*networks, *names}), True)


def _mark(
    schema: str | None, deployment: str | None, model: str | None, instance: str | None, release: str | None
) -> Mark | None:
    """Ours only if every label is there and makes sense: a half-marked container is not to be touched."""
    if not (schema and deployment and model and instance and release):
        return None
    if not (schema.isdigit() and instance.isdigit()):
        return None
    return Mark(
        schema=int(schema), deployment=deployment, model=model, instance=int(instance), release=release
    )


def _quota(nano: int, quota: int, period: int) -> float:
    if nano:
        return nano / 1e9
    return quota / (period or 100_000) if quota > 0 else 0.0


def _publish(bindings: dict[str, Any], ports: dict[str, Any]) -> tuple[Publish, ...]:
    """As asked for; where the engine was to choose a port, the one it chose."""
    found = set()
    for name, asked in bindings.items():
        container_port = int(name.partition("/")[0])
        for binding in asked or ():
            given = [binding] if binding.get("HostPort") not in (None, "", "0") else ports.get(name) or ()
            for place in given:
                if place.get("HostPort"):
                    found.add((place.get("HostIp") or "0.0.0.0", int(place["HostPort"]), container_port))  # noqa: S104
    return tuple(
        Publish(address=address, port=port, container_port=inner) for address, port, inner in sorted(found)
    )
