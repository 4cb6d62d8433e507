"""Operating system and architecture, from records. Pure."""

from __future__ import annotations

import shlex

from ..types.base import Unknown
from ..types.facts import Os
from .cpulist import whole
from .lscpu import parse_lscpu
from .records import Records

_ARCHES = {
    "x86_64": "amd64",
    "aarch64": "arm64",
    "aarch64_be": "arm64_be",
    "armv6l": "arm",
    "armv7l": "arm",
    "armv8l": "arm",
    "i386": "386",
    "i586": "386",
    "i686": "386",
    "loongarch64": "loong64",
}
"""The kernel's word → the engine's; ppc64le, s390x, riscv64 are the same in both."""
_NARROW = {"amd64": "386", "arm64": "arm"}
"""What programs of 32 bits on such a kernel are."""


def read_os(records: Records, notes: list[str]) -> Os:
    """Appends to `notes` where kernel and programs are of different width."""
    release: dict[str, str] = {}
    for line in records.lines("os-release"):
        key, equals, value = line.partition("=")
        if equals:
            try:
                release[key.strip()] = " ".join(shlex.split(value))
            except ValueError:
                release[key.strip()] = value.strip()
    kernel = records.text("uname").partition(" ")[2]
    page = whole(records.text("page-size").strip())
    missing = records.why("os-release", "no /etc/os-release")
    return Os(
        id=release.get("ID") or missing,
        version=release.get("VERSION_ID") or missing,
        codename=release.get("VERSION_CODENAME", ""),
        name=release.get("PRETTY_NAME") or release.get("NAME", ""),
        kernel=kernel or records.why("uname", "uname gave nothing"),
        arch=_arch(records, notes),
        page_size=page or records.why("page-size", "getconf gave nothing"),
    )


def _arch(records: Records, notes: list[str]) -> str | Unknown:
    machine = records.text("machine").strip() or parse_lscpu(records.text("lscpu")).arch
    arch = _ARCHES.get(machine, machine)
    if arch in _NARROW and records.text("long-bit").strip() == "32":
        notes.append(f"the kernel is {arch}, the programs are of 32 bits: {_NARROW[arch]} is believed")
        return _NARROW[arch]
    return arch or records.why("machine", "uname gave nothing")
