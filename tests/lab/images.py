"""Container images of the lab, made without pulling any.

Host images come from debootstrap with the machine's own Debian mirror: systemd as PID 1, sshd, sudo, and no
container engine. Service images hold one of the machine's binaries and the libraries it loads.
Root file systems are cached as tar files and imported into the lab's engine.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from tests.lab import cache, engine, llama, packages
from tests.lab.shell import LabError, run, step

SUITES = ("bookworm", "trixie")
HOST_PACKAGES = (
    *("systemd", "systemd-sysv", "dbus", "openssh-server", "sudo"),
    *("iproute2", "ca-certificates", "procps", "iptables"),
)
LLAMA_TOOLS = (
    *("bash", "cat", "curl", "env", "grep", "head", "id", "kill", "ls", "mkdir"),
    *("nproc", "ps", "rm", "sh", "sleep", "tail", "uname", "wc"),
)
REGISTRY_IMAGE = "cpudeploy-lab/registry:latest"

# PID 1 of a host. The cgroup mounts are read-only in an unprivileged container, which systemd and a nested
# engine can't use; "bind" makes the flag the mount's own.
LAB_INIT = r"""#!/bin/sh
mount -o remount,bind,rw /sys/fs/cgroup
awk '$2 ~ "^/sys/fs/cgroup/" {print $2}' /proc/mounts | while read -r m; do
    mount -o remount,bind,rw "$m"
done 2>/dev/null
mount -o remount,bind,rw /sys 2>/dev/null
mount --make-rshared /
exec /sbin/init
"""

# what makes no sense in a container, or wakes up a machine that runs many of them
MASKED = (
    *("systemd-udevd.service", "systemd-udevd-control.socket", "systemd-udevd-kernel.socket"),
    *("systemd-udev-trigger.service", "getty.target", "console-getty.service", "getty-static.service"),
    *("systemd-logind.service", "systemd-modules-load.service", "systemd-timesyncd.service"),
    *("systemd-networkd.service", "systemd-resolved.service", "apt-daily.timer"),
    *("apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer", "fstrim.timer"),
    *("systemd-tmpfiles-clean.timer", "sys-kernel-debug.mount", "sys-kernel-tracing.mount"),
    *("dev-hugepages.mount"),
)

ETC = {
    "passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n",
    "group": "root:x:0:\nnogroup:x:65534:\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}

INSTALL_ENGINE = """
printf '#!/bin/sh\\nexit 101\\n' >/usr/sbin/policy-rc.d
chmod +x /usr/sbin/policy-rc.d
apt-get update -q
# the client is a package of its own since Debian 13
apt-cache show docker-cli >/dev/null 2>&1 && client=docker-cli
DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends docker.io $client
rm -rf /usr/sbin/policy-rc.d /var/lib/apt/lists/* /var/cache/apt/archives/*.deb
"""

SSHD = "PasswordAuthentication no\nPermitRootLogin prohibit-password\nUseDNS no\n"


def host_image(suite: str, *, engine: bool = False) -> str:
    """The name of a host image, or of the one that has a Docker engine."""
    return f"cpudeploy-lab/host:{suite}{'-engine' if engine else ''}"


def host_rootfs(suite: str) -> Path:
    """The root file system of a host, as a tar file."""
    key = cache.key_of(suite, HOST_PACKAGES, LAB_INIT, MASKED, SSHD, _apt_settings())

    def make(path: Path) -> None:
        with cache.scratch(f"host-{suite}") as folder:
            rootfs = folder / "root"
            debootstrap(suite, rootfs, HOST_PACKAGES)
            _configure_host(suite, rootfs)
            _tar(rootfs, path)

    return cache.artifact(f"host-{suite}.tar", key, make)


def debootstrap(suite: str, rootfs: Path, include: Sequence[str]) -> None:
    """A minimal Debian with more packages, in a new folder."""
    debs = cache.root() / "debs" / suite
    debs.mkdir(parents=True, exist_ok=True)
    mirror = packages.debian_mirror().archive
    path = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
    options = ["--variant=minbase", f"--cache-dir={debs}", f"--include={','.join(include)}"]
    run(["debootstrap", *options, suite, rootfs, mirror], env={**os.environ, "PATH": path}, timeout=1200)


def _configure_host(suite: str, rootfs: Path) -> None:
    def write(name: str, text: str, mode: int = 0o644) -> None:
        file = rootfs / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)

    write("sbin/lab-init", LAB_INIT, 0o755)
    write("etc/apt/sources.list", packages.debian_mirror().sources_list(suite))
    write("etc/ssh/sshd_config.d/lab.conf", SSHD)
    write("etc/systemd/journald.conf.d/lab.conf", "[Journal]\nStorage=volatile\nRuntimeMaxUse=16M\n")
    if proxy := _apt_settings():
        write("etc/apt/apt.conf.d/90lab-proxy", proxy)
    chroot = ["chroot", str(rootfs)]
    run([*chroot, "useradd", "--create-home", "--shell", "/bin/bash", "ops"])
    for authority in Path("/usr/local/share/ca-certificates").glob("*.crt"):
        write(f"usr/local/share/ca-certificates/{authority.name}", authority.read_text())
    run([*chroot, "update-ca-certificates"])
    run([*chroot, "systemctl", "mask", *MASKED])
    run([*chroot, "systemctl", "set-default", "multi-user.target"])
    run([*chroot, "apt-get", "clean"])
    for name in ("var/lib/apt/lists", "usr/share/doc", "usr/share/man", "usr/share/locale", "dev"):
        empty(rootfs / name)
    for file in rootfs.glob("etc/ssh/ssh_host_*"):
        file.unlink()
    for name in ("etc/machine-id", "etc/hostname", "etc/resolv.conf", "usr/sbin/policy-rc.d"):
        (rootfs / name).unlink(missing_ok=True)
    write("etc/machine-id", "")


def _apt_settings() -> str:
    """The machine's proxy for apt, as apt configuration; empty where there is none."""
    lines = run(["apt-config", "dump", "Acquire::http::Proxy", "Acquire::https::Proxy"]).stdout.splitlines()
    return "".join(f"{line}\n" for line in lines if "::Proxy" in line and '""' not in line)


def import_host(suite: str) -> None:
    """Have the host image in the engine."""
    rootfs = host_rootfs(suite)
    engine.import_image(rootfs, host_image(suite), rootfs.name, ['CMD ["/sbin/lab-init"]'])


def make_engine_host(suite: str, network: str) -> None:
    """Have the host image with the distribution's Docker, as its own package manager installs it, from a
    `network` of a lab."""
    image, key = host_image(suite, engine=True), f"{host_rootfs(suite).name} {INSTALL_ENGINE}"
    key = cache.key_of(key)
    with cache.lock(f"engine-host-{suite}"):
        if engine.image_key(image) == key:
            return
        name = f"cpudeploy-lab-engine-host-{suite}"
        with step(f"make {image}"):
            engine.docker("rm", "--force", name, check=False)
            try:
                place = ["--name", name, "--network", network]
                engine.docker("run", *place, host_image(suite), "sh", "-ec", INSTALL_ENGINE)
                changes = ['CMD ["/sbin/lab-init"]', f"LABEL cpudeploy.lab.key={key}"]
                engine.docker(
                    "commit", *(word for each in changes for word in ("--change", each)), name, image
                )
            finally:
                engine.docker("rm", "--force", name, check=False)


def import_registry() -> None:
    """Have the registry image in the engine."""
    rootfs = _binaries_rootfs("registry", {"docker-registry": "/usr/bin/docker-registry"}, ["sh"])
    changes = ['ENTRYPOINT ["/usr/bin/docker-registry", "serve"]']
    engine.import_image(rootfs, REGISTRY_IMAGE, rootfs.name, changes)


def import_llama() -> None:
    """Have the llama-server image in the engine, under the official name and made like the official one."""
    rootfs = _binaries_rootfs("llama-server", {str(llama.server()): "/app/llama-server"}, LLAMA_TOOLS)
    changes = [
        'ENTRYPOINT ["/app/llama-server"]',
        "ENV LLAMA_ARG_HOST=0.0.0.0",
        "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "WORKDIR /app",
        'HEALTHCHECK CMD ["curl", "-f", "http://localhost:8080/health"]',
        f"LABEL org.opencontainers.image.version=b{llama.BUILD}",
    ]
    engine.import_image(rootfs, llama.IMAGE, rootfs.name, changes)


def _binaries_rootfs(name: str, binaries: dict[str, str], tools: Sequence[str]) -> Path:
    """A root file system of binaries (here → there), the machine's `tools`, and the libraries they load."""
    files = {Path(there): _which(here) for here, there in binaries.items()}
    files |= {Path("/usr/bin") / tool: _which(tool) for tool in tools}
    for file in list(files.values()):
        files |= {library: library for library in _libraries(file)}
    files[Path("/etc/ssl/certs/ca-certificates.crt")] = Path("/etc/ssl/certs/ca-certificates.crt")
    key = cache.key_of(*sorted(f"{there} {cache.sha256_of(here)}" for there, here in files.items()))

    def make(path: Path) -> None:
        with cache.scratch(f"rootfs-{name}") as rootfs:
            for folder in ("app", "dev", "etc", "proc", "root", "sys", "tmp"):
                (rootfs / folder).mkdir(parents=True)
            for folder in ("bin", "lib", "lib64"):
                (rootfs / "usr" / folder).mkdir(parents=True)
                (rootfs / folder).symlink_to(f"usr/{folder}")
            (rootfs / "tmp").chmod(0o1777)
            for file, text in ETC.items():
                (rootfs / "etc" / file).write_text(text)
            for there, here in files.items():
                target = rootfs / str(there).lstrip("/")
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(here, target)
                target.chmod(0o755)
            _tar(rootfs, path)

    return cache.artifact(f"rootfs-{name}.tar", key, make)


def _which(command: str) -> Path:
    found = shutil.which(command, path="/usr/bin:/bin:/usr/sbin:/sbin")
    if found is None:
        raise LabError(f"{command}: not on this machine")
    return Path(found).resolve()


def _libraries(binary: Path) -> list[Path]:
    """The shared libraries a binary loads, its loader among them, by the names it asks for."""
    listed = run(["ldd", binary], check=False).stdout.split()
    return [Path(word) for word in listed if word.startswith("/") and not word.endswith(":")]


def empty(folder: Path) -> None:
    """Remove everything in a folder."""
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def _tar(rootfs: Path, path: Path) -> None:
    run(["tar", "--sort=name", "--numeric-owner", "--mtime=@0", "-C", rootfs, "-cf", path, "."])
