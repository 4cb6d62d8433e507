"""What comes from package registries, through the machine's own clients and settings.

In: names and versions. Out: installed Debian packages, files from PyPI, and the Debian mirror that this
machine's apt uses. No registry's address is written here: apt's and pip's configuration have them.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.lab import cache
from tests.lab.shell import LabError, run, step

# command that must exist -> Debian package that brings it
COMMANDS = {
    "dockerd": "docker.io",
    "docker": "docker-cli",
    "debootstrap": "debootstrap",
    "docker-registry": "docker-registry",
    "htpasswd": "apache2-utils",
    "iptables": "iptables",
    "ip": "iproute2",
    "openssl": "openssl",
    "ssh-keygen": "openssh-client",
    "curl": "curl",
    "cmake": "cmake",
    "ninja": "ninja-build",
    "g++": "g++",
    "zstd": "zstd",
}


def install_missing() -> None:
    """Install the Debian packages whose commands are missing here."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    missing = [package for command, package in COMMANDS.items() if not shutil.which(command, path=path)]
    if not missing:
        return
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with cache.lock("apt"), step(f"install {' '.join(missing)}"):
        if any(not _has_candidate(package) for package in missing if package != "docker-cli"):
            run(["apt-get", "update"], env=env)
        # the engine's client is a package of its own since Debian 13, and part of docker.io before
        wanted = [package for package in missing if package != "docker-cli" or _has_candidate(package)]
        run(["apt-get", "install", "-y", "--no-install-recommends", *wanted], env=env)


def _has_candidate(package: str) -> bool:
    policy = run(["apt-cache", "policy", package], check=False).stdout
    return "Candidate:" in policy and "Candidate: (none)" not in policy


@dataclass(frozen=True)
class Mirror:
    """Where this machine gets Debian from."""

    archive: str
    security: str | None

    def sources_list(self, suite: str) -> str:
        """A sources.list of the given suite from the same place."""
        lines = [f"deb {self.archive} {suite} main", f"deb {self.archive} {suite}-updates main"]
        if self.security:
            lines.append(f"deb {self.security} {suite}-security main")
        return "\n".join(lines) + "\n"


def debian_mirror(etc_apt: Path = Path("/etc/apt")) -> Mirror:
    """Read the Debian mirror from apt's sources, in either of the two formats."""
    entries = [entry for file in _source_files(etc_apt) for entry in _parse(file)]
    security = next((uri for uri, suite in entries if suite.endswith("-security")), None)
    for uri, suite in entries:
        if f"{suite}-updates" in {other for _, other in entries} or re.search(r"/debian/?$", uri):
            return Mirror(uri.rstrip("/"), security and security.rstrip("/"))
    raise LabError(f"no Debian mirror found in {etc_apt}/sources.list and sources.list.d")


def _source_files(etc_apt: Path) -> list[Path]:
    folder = etc_apt / "sources.list.d"
    return [file for file in (etc_apt / "sources.list", *sorted(folder.glob("*"))) if file.is_file()]


def _parse(file: Path) -> list[tuple[str, str]]:
    """(URI, suite) pairs of a one-line (.list) or a deb822 (.sources) file."""
    lines = [line for line in file.read_text().splitlines() if not line.lstrip().startswith("#")]
    if file.suffix == ".list":
        found = [re.match(r"deb\s+(?:\[[^]]*\]\s+)?(\S+)\s+(\S+)", line.strip()) for line in lines]
        return [(match[1], match[2]) for match in found if match]
    if file.suffix != ".sources":
        return []
    entries = []
    for stanza in re.split(r"\n\s*\n", "\n".join(lines)):
        fields = dict(re.findall(r"^(\w[\w-]*):[ \t]*(.*(?:\n[ \t]+.*)*)", stanza, re.MULTILINE))
        if fields.get("Enabled", "yes").strip() != "no" and "deb" in fields.get("Types", "").split():
            uris, suites = fields.get("URIs", "").split(), fields.get("Suites", "").split()
            entries += [(uri, suite) for uri in uris for suite in suites]
    return entries


def unpacked(package: str) -> Path:
    """The files of a Debian package, cached; nothing is installed, and nothing of it is started."""

    def make(path: Path) -> None:
        with tempfile.TemporaryDirectory() as folder:
            if not _has_candidate(package):
                run(["apt-get", "update"])
            run(["apt-get", "download", package], cwd=Path(folder))
            (archive,) = Path(folder).glob("*.deb")
            run(["dpkg-deb", "-x", archive, path])

    with cache.lock("apt"):
        return cache.artifact(f"deb-{package}", cache.key_of(Path("/etc/debian_version").read_text()), make)


def wheel(name: str, version: str) -> Path:
    """A wheel from PyPI, cached."""

    def make(path: Path) -> None:
        _pip_download(path, name, version, ["--only-binary", ":all:"], {})

    folder = cache.artifact(f"wheel-{name}", cache.key_of(version), make)
    return next(folder.iterdir())


def download(folder: Path, python: str, *requirements: str) -> None:
    """Wheels of these requirements and of all that they need, for a Python such as 3.11, into a new folder."""
    command = [_python_with_pip(), "-m", "pip", "download", "--quiet", "--only-binary", ":all:"]
    run([*command, "--python-version", python, "--dest", folder, *requirements], timeout=1800)


def sdist(name: str, version: str) -> Path:
    """A source archive from PyPI, cached; none of its code is run.

    pip asks a source archive's build backend for metadata even when it only downloads, and some backends
    build everything to answer. A stand-in for setuptools answers instead.
    """

    def make(path: Path) -> None:
        with tempfile.TemporaryDirectory() as folder:
            backend = Path(folder) / "setuptools" / "build_meta.py"
            backend.parent.mkdir()
            (backend.parent / "__init__.py").touch()
            info = f"{name.replace('-', '_')}-{version}.dist-info"
            metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
            backend.write_text(STAND_IN.format(info=info, metadata=metadata))
            arguments = ["--no-binary", ":all:", "--no-build-isolation"]
            _pip_download(path, name, version, arguments, {"PYTHONPATH": folder})

    folder = cache.artifact(f"sdist-{name}", cache.key_of(version), make)
    return next(folder.iterdir())


STAND_IN = """\
from pathlib import Path

def get_requires_for_build_wheel(config_settings=None):
    return []

def prepare_metadata_for_build_wheel(directory, config_settings=None):
    Path(directory, {info!r}).mkdir()
    Path(directory, {info!r}, "METADATA").write_text({metadata!r})
    return {info!r}
"""


def _pip_download(folder: Path, name: str, version: str, arguments: list[str], env: dict[str, str]) -> None:
    """pip download into a new folder."""
    command = [_python_with_pip(), "-m", "pip", "download", "--quiet", "--no-deps", *arguments]
    run([*command, "--dest", folder, f"{name}=={version}"], env={**os.environ, **env})


def _python_with_pip() -> str:
    """This Python, or the one its virtual environment was made from: some environments lack pip."""
    for python in (sys.executable, f"{sys.base_prefix}/bin/python3", "/usr/bin/python3"):
        if run([python, "-m", "pip", "--version"], check=False).returncode == 0:
            return python
    raise LabError("no Python with pip found")
