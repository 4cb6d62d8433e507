"""A container's spec in the engine's words, and whether the engine took it as said. Pure.

ContainerSpec in, the body of `POST /containers/create` out; later what inspect shows against that body.
"""

from __future__ import annotations

import ipaddress
from typing import Any, NamedTuple

from ..types.names import DEPLOYMENT_LABEL
from ..types.release import ContainerSpec

_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 (how the engine spells a missing host address; nothing binds here)


class Difference(NamedTuple):
    """A field the engine has otherwise than it was told."""

    field: str
    wanted: Any
    found: Any

    def __str__(self) -> str:
        return f"{self.field}: wanted {self.wanted!r}, the engine has {self.found!r}"


def create_body(spec: ContainerSpec, image: str, labels: dict[str, str]) -> dict[str, Any]:
    """What to send. `image`: the reference to create from, already on the engine."""
    body: dict[str, Any] = {
        "Image": image,
        "Cmd": list(spec.command),
        "Env": [f"{name}={value}" for name, value in sorted(spec.env.items())],
        "Labels": dict(labels),
        "ExposedPorts": {f"{port.container_port}/tcp": {} for port in spec.publish},
        "StopTimeout": spec.stop_timeout_s,
        "HostConfig": _host_config(spec, labels),
    }
    if spec.entrypoint:
        body["Entrypoint"] = list(spec.entrypoint)
    if spec.user:
        body["User"] = spec.user
    if spec.healthcheck == "none":
        body["Healthcheck"] = {"Test": ["NONE"]}
    if spec.networks:
        # One only: engines before API 1.44 refuse more; the others are connected afterwards.
        body["NetworkingConfig"] = {"EndpointsConfig": {spec.networks[0]: {}}}
    return body


def _host_config(spec: ContainerSpec, labels: dict[str, str]) -> dict[str, Any]:
    ports: dict[str, list[dict[str, str]]] = {}
    for publish in spec.publish:
        binding = {"HostIp": publish.address, "HostPort": str(publish.port)}
        ports.setdefault(f"{publish.container_port}/tcp", []).append(binding)
    config: dict[str, Any] = {
        "Memory": spec.memory,
        "MemorySwap": spec.memory,
        "CpusetCpus": spec.cpuset,
        "CpusetMems": spec.cpuset_mems,
        "PidsLimit": spec.pids,
        "CapDrop": list(spec.cap_drop),
        "CapAdd": list(spec.cap_add),
        "SecurityOpt": list(spec.security_opt),
        "ReadonlyRootfs": spec.read_only,
        "Tmpfs": dict(spec.tmpfs),
        "Mounts": _mounts(spec, labels),
        "LogConfig": {
            "Type": "json-file",
            "Config": {"max-size": spec.log_max_size, "max-file": str(spec.log_max_file)},
        },
        "Ulimits": [{"Name": n, "Soft": v, "Hard": v} for n, v in sorted(spec.ulimits.items())],
        "RestartPolicy": {"Name": "no"},
        "PortBindings": ports,
        "Init": spec.init,
    }
    if spec.shm is not None:
        config["ShmSize"] = spec.shm
    if spec.networks:
        config["NetworkMode"] = spec.networks[0]
    return config


def _mounts(spec: ContainerSpec, labels: dict[str, str]) -> list[dict[str, Any]]:
    """Mounts and not Binds: a missing source is an error, where Binds would make an empty folder."""
    mounts: list[dict[str, Any]] = []
    for mount in spec.mounts:
        kind = "bind" if "/" in mount.source else "volume"
        entry: dict[str, Any] = {
            "Type": kind,
            "Source": mount.source,
            "Target": mount.target,
            "ReadOnly": mount.read_only,
        }
        if kind == "volume" and DEPLOYMENT_LABEL in labels:
            entry["VolumeOptions"] = {"Labels": {DEPLOYMENT_LABEL: labels[DEPLOYMENT_LABEL]}}
        mounts.append(entry)
    for secret in spec.secrets:
        mounts.append({"Type": "bind", "Source": secret.path, "Target": secret.target, "ReadOnly": True})
    return mounts


def differences(body: dict[str, Any], inspected: dict[str, Any]) -> list[Difference]:
    """Where what inspect shows is not what `create_body` said. Fields the image adds to are subsets."""
    config, host = inspected["Config"], inspected["HostConfig"]
    found: list[Difference] = []
    for field in ("Image", "Cmd", "Entrypoint", "User", "StopTimeout"):
        if field in body and config.get(field) != body[field]:
            found.append(Difference(field, body[field], config.get(field)))
    missing_env = sorted(set(body["Env"]) - set(config.get("Env") or ()))
    # Names only: a value may be something its owner does not want on a screen.
    found += [Difference("Env", name.partition("=")[0], None) for name in missing_env]
    for name, value in body["Labels"].items():
        if (config.get("Labels") or {}).get(name) != value:
            found.append(Difference(f"Labels.{name}", value, (config.get("Labels") or {}).get(name)))
    if "Healthcheck" in body and (config.get("Healthcheck") or {}).get("Test") != ["NONE"]:
        found.append(Difference("Healthcheck", "NONE", config.get("Healthcheck")))
    for field, wanted in body["HostConfig"].items():
        left, right = _comparable(field, wanted), _comparable(field, host.get(field))
        if left != right and not _swap_not_counted(field, host):
            found.append(Difference(f"HostConfig.{field}", wanted, host.get(field)))
    return found


def published_elsewhere(inspected: dict[str, Any]) -> list[Difference]:
    """Ports that are open on another address than the container was created with. None open is none here."""
    asked = inspected["HostConfig"].get("PortBindings") or {}
    found: list[Difference] = []
    for port, bindings in (inspected["NetworkSettings"].get("Ports") or {}).items():
        wanted = {place for binding in asked.get(port) or () for place in _places(binding)}
        opened = {place for binding in bindings or () for place in _places(binding)}
        if not opened <= wanted:
            found.append(Difference(f"port {port}", sorted(wanted), sorted(opened)))
    return found


def _places(binding: dict[str, str]) -> set[str]:
    """`address:port` in one spelling, of each address that is meant."""
    address = binding.get("HostIp") or ""
    try:
        addresses: tuple[str, ...] = (str(ipaddress.ip_address(address)),)
    except ValueError:
        addresses = (address,) if address else _EVERYWHERE
    return {f"{each}:{binding['HostPort']}" for each in addresses}


def _swap_not_counted(field: str, host: dict[str, Any]) -> bool:
    """Kernels without swap accounting can't limit swap; the engine warns, and the warning is shown."""
    return field == "MemorySwap" and host.get("MemorySwap") in (-1, 0)


def _comparable(field: str, value: Any) -> Any:
    """Two spellings of one setting as one value."""
    if field in ("CapAdd", "CapDrop"):
        return {str(name).upper().removeprefix("CAP_") for name in value or ()}
    if field == "SecurityOpt":
        # The engine adds `label=…` of its own on SELinux hosts; `:` is the old spelling of `=`.
        options = {str(option).replace(":", "=", 1) for option in value or ()}
        return {option for option in options if not option.startswith("label=")}
    if field == "Mounts":
        return {(m["Type"], m["Source"], m["Target"], bool(m.get("ReadOnly"))) for m in value or ()}
    if field == "Ulimits":
        return {(limit["Name"], limit["Soft"], limit["Hard"]) for limit in value or ()}
    if field == "RestartPolicy":
        return (value or {}).get("Name") or "no"
    if field == "PortBindings":
        bindings = (value or {}).items()
        return {(port, b.get("HostIp") or _EVERYWHERE[0], b["HostPort"]) for port, bs in bindings for b in bs}
    if field in ("Tmpfs", "Init", "CpusetCpus", "CpusetMems"):
        return value or None
    return value
