"""The hosts of a manifest. In: each host's layers of settings. Out: Host by name. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ..types.base import from_data
from ..types.deployment import Host, Reserve, Ssh, Sudo
from .groups import DeclaredHost
from .merge import HOST_KEYS, merge, only
from .places import weights_fault
from .problems import Problems, show
from .settings import Settings, given


def build_hosts(declared: Mapping[str, DeclaredHost], base: Path, problems: Problems) -> dict[str, Host]:
    """The sound ones among the declared hosts, in the manifest's order."""
    hosts = {
        name: _build_host(host, base, problems) for name, host in declared.items() if not host.node.broken
    }
    _check_twins(hosts, declared, problems)
    return hosts


def _build_host(host: DeclaredHost, base: Path, problems: Problems) -> Host:
    own = Settings(host.node)
    settings = Settings(merge(only(layer, HOST_KEYS) for layer in host.layers))
    ssh, sudo, reserve = settings.inner("ssh"), settings.get("sudo"), settings.inner("reserve")
    connection = own.text("connection") or "ssh"
    for key in ("port", "user"):
        if own.get(key) is not None and own.inner("ssh").get(key) is not None:
            problems.add(
                own.place(key), f"host {show(host.name)} has `{key}` twice, here and under ssh", "keep one"
            )
    if connection == "local":
        for key in ("address", "port", "user", "ssh"):
            if own.get(key) is not None:
                problems.add(
                    own.place(key), f"`{key}` means nothing with `connection: local`", "remove one of them"
                )
    config = ssh.path("config", base, problems)
    password = settings.inner("sudo").secret("password")
    data = given(
        name=host.name,
        connection=connection,
        ssh=Ssh(
            address=own.text("address") or host.name,
            port=own.number("port") or ssh.number("port"),
            user=own.text("user") or ssh.text("user"),
            config=None if config is None else str(config),
            host_keys="accept-new" if ssh.text("host_keys") == "accept-new" else "strict",
        ),
        sudo=Sudo(use="none" if sudo is not None and sudo.value == "none" else "auto", password=password),
        engine=settings.inner("engine").text("use"),
        weights_dir=_weights_dir(settings.inner("dirs"), problems),
        reserve=Reserve(cpus=reserve.number("cpus"), memory=reserve.size("memory", problems)),
        labels=settings.text_map("labels"),
        playbooks=settings.texts("playbooks"),
        retired=own.flag("retired"),
    )
    return from_data(data, Host)


def _weights_dir(dirs: Settings, problems: Problems) -> str | None:
    path = dirs.text("weights")
    fault = None if path is None else weights_fault(path)
    if fault is not None:
        problems.add(dirs.place("weights"), *fault)
    return path


def _check_twins(hosts: dict[str, Host], declared: Mapping[str, DeclaredHost], problems: Problems) -> None:
    """Two names for one machine would plan it twice, each without knowing of the other."""
    seen: dict[tuple[object, ...], str] = {}
    for name, host in hosts.items():
        ssh = host.ssh
        machine = ("local",) if host.connection == "local" else (ssh.address, ssh.port or 22, ssh.config)
        first = seen.setdefault(machine, name)
        if first != name:
            there = declared[first].node.at
            problems.add(
                declared[name].node.at,
                f"hosts {show(first)} and {show(name)} are the same machine",
                f"keep one; the other is at {there}",
            )
