"""Proxy, networks, mirrors, registries and backends. In: their parts of a checked manifest. Out: types.

Reads CA files.
"""

from __future__ import annotations

import ipaddress
import re
import ssl
from pathlib import Path

from ..types.deployment import Backend, ImageMirror, Mirrors, Proxy, Registry
from .document import Node, read_text
from .images import reference_fault
from .problems import Problems, show
from .settings import Settings

_BEGIN = "-----BEGIN CERTIFICATE-----"
_END = "-----END CERTIFICATE-----"
_SPECIAL = tuple(map(ipaddress.IPv4Network, ("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3")))
"""This network, loopback, link-local, multicast and reserved: no host takes an address of them."""


def build_proxy(root: Node, problems: Problems) -> Proxy | None:
    """The proxy, the one for https being that for http unless it is told."""
    node = Settings(root).get("proxy")
    if node is None:
        return None
    proxy = Settings(node)
    if proxy.missing("http") and proxy.missing("https"):
        problems.add(node.place, "`proxy` has no address", 'give one, such as {http: "http://proxy:3128"}')
    http = proxy.text("http")
    return Proxy(http=http, https=proxy.text("https") or http, no_proxy=proxy.texts("no_proxy"))


def build_pool(root: Node, problems: Problems) -> str | None:
    """The network that container networks are cut from; its form is checked."""
    networks = Settings(root).inner("networks")
    pool = networks.text("pool")
    fault = None if pool is None else _pool_fault(pool)
    if fault is not None:
        problems.add(networks.place("pool"), f"the pool {show(pool)} is {fault[0]}", fault[1])
    return pool


def _pool_fault(pool: str) -> tuple[str, str] | None:
    try:
        network = ipaddress.IPv4Network(pool, strict=False)
    except ValueError:
        return "no network", "write one such as 10.213.0.0/16"
    if str(network) != pool:
        return "an address with a network's length", f"the network is {network}"
    if network.prefixlen > 25:
        return "too small for two networks of /26", "write a /25 or a larger one"
    if any(network.overlaps(each) for each in _SPECIAL):
        return "not for container networks", "write a private one such as 10.213.0.0/16"
    if network.is_global:
        return "of the internet, which the host could not reach any more", "write one such as 10.213.0.0/16"
    return None


def build_mirrors(root: Node, problems: Problems) -> Mirrors:
    """Image rules in order, and the addresses of Hubs and of the engine's packages."""
    mirrors = Settings(root).inner("mirrors")
    images = mirrors.get("images")
    rules = [
        _rule(Settings(node), problems) for node in (images.items or () if images else ()) if not node.broken
    ]
    return Mirrors(
        images=tuple(rules),
        huggingface=mirrors.text("huggingface"),
        modelscope=mirrors.text("modelscope"),
        docker_ce=mirrors.text("docker-ce"),
    )


def _rule(rule: Settings, problems: Problems) -> ImageMirror:
    match, places = rule.text("match") or "", rule.get("try")
    for place in (places.items or ()) if places is not None else ():
        if match and isinstance(place.value, str) and place.value.endswith("/") != match.endswith("/"):
            problems.add(
                place.place,
                f"{show(match)} and {show(place.value)} must both end in `/`, or neither",
                "a registry is replaced by a registry, a repository by a repository",
            )
    if match.endswith("/") and rule.get("digests") is not None:
        problems.add(
            rule.place("digests"), "digests are of one repository", "name the whole repository in `match`"
        )
    return ImageMirror(match=match, places=rule.texts("try"), digests=rule.text_map("digests"))


def build_registries(root: Node, base: Path, problems: Problems) -> tuple[Registry, ...]:
    """Logins and certificates, in the manifest's order."""
    return tuple(
        Registry(
            scope=scope,
            username=settings.text("username"),
            password=settings.secret("password"),
            ca=_certificates(settings, base, problems),
        )
        for scope, settings in _named(root, "registries")
    )


def _certificates(registry: Settings, base: Path, problems: Problems) -> str | None:
    name, path = registry.text("ca"), registry.path("ca", base, problems)
    if path is None:
        return None
    where = registry.place("ca")
    try:
        text = read_text(path)
    except OSError as error:
        reason = (error.strerror or "unknown error").lower()
        problems.add(
            where,
            f"the certificate file {show(name)} can't be read: {reason}",
            "paths are relative to this file",
        )
        return None
    except ValueError as error:
        problems.add(where, f"the certificate file {show(name)} {error}", "give a PEM file")
        return None
    if "PRIVATE KEY-----" in text:
        problems.add(where, f"{show(name)} holds a private key", "give a file with only the certificate")
    elif _BEGIN not in text:
        problems.add(where, f"{show(name)} holds no PEM certificate", f"it begins with {_BEGIN}")
    elif not _whole(text):
        problems.add(
            where,
            f"{show(name)} holds a certificate that is cut off or damaged",
            f"copy it again, whole, from {_BEGIN} to {_END}",
        )
    return text


def _whole(text: str) -> bool:
    """Every certificate begun in `text` can be read. What stands between them is anybody's notes."""
    blocks = re.findall(rf"{_BEGIN}[A-Za-z0-9+/=\s]*{_END}", text, re.ASCII)
    if len(blocks) != text.count(_BEGIN):
        return False
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata="\n".join(blocks))
    except ssl.SSLError:
        return False
    return True


def build_backends(root: Node, problems: Problems) -> dict[str, Backend]:
    """Backends whose playbook and image are there; the image's form is checked."""
    backends: dict[str, Backend] = {}
    for name, settings in _named(root, "backends"):
        playbook, image = settings.text("playbook"), settings.text("image")
        if image is not None:
            fault = reference_fault(image)
            if fault is not None:
                problems.add(settings.place("image"), f"image {show(image)}: {fault[0]}", fault[1])
        if playbook is None or image is None:
            continue
        params = settings.inner("params").node.entries or {}
        backends[name] = Backend(
            name=name,
            playbook=playbook,
            image=image,
            version=settings.text("version"),
            params={key: node.value for key, node in params.items() if node.value is not None},
        )
    return backends


def _named(root: Node, key: str) -> list[tuple[str, Settings]]:
    """The sound entries of a map of maps."""
    node = Settings(root).get(key)
    entries = node.entries if node is not None and node.entries is not None else {}
    return [(name, Settings(entry)) for name, entry in entries.items() if not entry.broken]
