"""Target hosts: containers with systemd as PID 1 and sshd, as a CPU server looks from outside.

In: a HostSpec and where the host belongs. Out: a Host with an address, reachable by key as `ops` and `root`,
and the faults that tests inject. Host keys are made per lab, so a lab's known_hosts can be strict.
"""

from __future__ import annotations

import io
import socket
import subprocess
import tarfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from tests.lab import engine, images
from tests.lab.shell import LabError, run, wait_until

OPS_ID = 1000  # uid and gid of the user `ops` in the host images

SYSTEMD = [
    # all but SYS_RESOURCE, which the machine may lack, and SYS_TIME: hosts share the machine's clock
    *("--cap-add", "ALL", "--cap-drop", "SYS_RESOURCE", "--cap-drop", "SYS_TIME"),
    *("--security-opt", "seccomp=unconfined"),
    *("--security-opt", "apparmor=unconfined"),
    *("--security-opt", "systempaths=unconfined"),
    *("--tmpfs", "/run", "--tmpfs", "/run/lock", "--tmpfs", "/tmp"),
    *("--stop-signal", "SIGRTMIN+3", "--cgroupns", "private", "--env", "container=docker"),
    # overlay2 does not work on overlay2: a nested engine needs real file systems
    *("--volume", "/var/lib/docker", "--volume", "/var/lib/containerd"),
]

STRIP = """
dpkg --purge --force-depends iproute2 >/dev/null
rm -f /usr/bin/flock
for tool in curl python3 ip flock; do ! command -v $tool || exit 1; done
"""


@dataclass(frozen=True)
class HostSpec:
    """One host as a test wants it."""

    name: str
    suite: str = "bookworm"
    sudo: Literal["nopasswd", "password"] = "nopasswd"
    cpus: str | None = None  # cpuset, such as "0" or "0-1"
    quota: float | None = None  # CPUs' worth of time, such as 0.5
    memory: str | None = None  # such as "2g"; without swap beyond it
    engine: bool = False  # the distribution's Docker is there already, as on a host somebody else has set up
    light: bool = False  # sshd alone instead of systemd: for many hosts at once
    bare: bool = False  # no iproute2 and no flock either: sh, coreutils, apt (no host has curl or python3)
    docker_args: tuple[str, ...] = field(default=())

    def limits(self) -> list[str]:
        """The engine's arguments for the host's limits."""
        words = []
        if self.cpus is not None:
            words += ["--cpuset-cpus", self.cpus]
        if self.quota is not None:
            words += ["--cpus", str(self.quota)]
        if self.memory is not None:
            words += ["--memory", self.memory, "--memory-swap", self.memory]
        return words


@dataclass(frozen=True)
class Host:
    """A host of a running lab."""

    spec: HostSpec
    address: str
    container: str
    network: str

    @property
    def name(self) -> str:
        """The host's name in its lab, and its hostname."""
        return self.spec.name

    def exec(self, argv: Sequence[str], *, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command as root inside, without SSH; whatever its exit code."""
        return engine.exec_in(self.container, argv, stdin=stdin)

    def disconnect(self) -> None:
        """Pull the network cable."""
        engine.docker("network", "disconnect", "--force", self.network, self.container)

    def reconnect(self) -> None:
        """Put the network cable back, at the same address; the interface may get another name."""
        engine.docker("network", "connect", "--ip", self.address, self.network, self.container)

    def pause(self) -> None:
        """Freeze the host: connections open, and nothing answers. A busy one can't always be frozen at once."""

        def frozen() -> bool:
            engine.docker("pause", self.container, check=False)
            return (
                engine.docker("inspect", "--format", "{{.State.Status}}", self.container).strip() == "paused"
            )

        wait_until(f"{self.name} to freeze", frozen, 20)

    def unpause(self) -> None:
        """Let a frozen host go on."""
        engine.docker("unpause", self.container)

    def restart(self) -> None:
        """Reboot, and wait for sshd. Boot id and uptime do not change; PID 1's start time does."""
        engine.docker("restart", self.container)
        self.wait_for_ssh()

    def stop(self) -> None:
        """Power off; `start` brings it back with its disk as it was."""
        engine.docker("stop", self.container)

    def start(self) -> None:
        """Power on, and wait for sshd."""
        engine.docker("start", self.container)
        self.wait_for_ssh()

    def wait_for_ssh(self, deadline_s: float = 60) -> None:
        """Wait until sshd greets."""
        wait_until(f"sshd of {self.name}", self._greets, deadline_s)

    def _greets(self) -> bool:
        try:
            with socket.create_connection((self.address, 22), timeout=1) as connection:
                return connection.recv(4) == b"SSH-"
        except OSError:
            return False

    def as_json(self) -> dict[str, object]:
        """For the lab's state file."""
        return asdict(self)


def host_from_json(data: dict[str, object]) -> Host:
    """The reverse of `as_json`."""
    spec = dict(data.pop("spec"))  # type: ignore[call-overload]
    spec["docker_args"] = tuple(spec["docker_args"])
    return Host(spec=HostSpec(**spec), **data)  # type: ignore[arg-type]


def create(host: Host, labels: Sequence[str], state: Path) -> None:
    """Create and start the host's container; an existing one of this name is replaced.

    `state` holds the client key, and gets the host's keys.
    """
    spec = host.spec
    engine.docker("rm", "--force", "--volumes", host.container, check=False)
    shape = ["--init"] if spec.light else SYSTEMD
    command = ["/usr/sbin/sshd", "-D"] if spec.light else []
    place = ["--name", host.container, "--hostname", host.name]
    place += ["--network", host.network, "--ip", host.address]
    marks = [word for label in labels for word in ("--label", label)]
    image = images.host_image(spec.suite, engine=spec.engine)
    engine.docker("create", *place, *marks, *shape, *spec.limits(), *spec.docker_args, image, *command)
    engine.docker("cp", "-", f"{host.container}:/", stdin=_personal_files(host, state))
    engine.docker("start", host.container)


def finish(host: Host, sudo_password: str) -> None:
    """Wait until the host can be logged in to, and set the password where sudo asks for one."""
    host.wait_for_ssh()
    if host.spec.sudo == "password":
        done = host.exec(["chpasswd"], stdin=f"ops:{sudo_password}\n")
        if done.returncode != 0:
            raise LabError(f"chpasswd on {host.name}: {done.stderr.strip()}")
    if host.spec.bare:
        done = host.exec(["sh", "-ec", STRIP])
        if done.returncode != 0:
            raise LabError(f"stripping {host.name}: {done.stderr.strip()}")


def known_hosts(hosts: Sequence[Host], state: Path) -> str:
    """The lines of a known_hosts file for these hosts."""
    return "".join(f"{host.address} {_public(host_key(host, state))}\n" for host in hosts)


def host_key(host: Host, state: Path) -> Path:
    """The host's private key, made on first use."""
    return make_key(state / "host-keys" / host.name)


def make_key(path: Path) -> Path:
    """An ed25519 key pair, made if it is not there."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "lab", "-f", path])
    return path


def _public(private: Path) -> str:
    return " ".join(private.with_name(private.name + ".pub").read_text().split()[:2])


def _personal_files(host: Host, state: Path) -> bytes:
    """A tar stream of what makes one host different from another of its image."""
    client = _public(state / "id_ed25519") + "\n"
    key = host_key(host, state)
    rule = "ALL=(ALL:ALL)" + (" NOPASSWD:" if host.spec.sudo == "nopasswd" else "") + " ALL"
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:

        def add(name: str, text: str | None, mode: int, owner: int = 0) -> None:
            entry = tarfile.TarInfo(name)
            entry.mode, entry.uid, entry.gid = mode, owner, owner
            entry.type = tarfile.DIRTYPE if text is None else tarfile.REGTYPE
            data = (text or "").encode()
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))

        for home, owner in (("root", 0), ("home/ops", OPS_ID)):
            add(f"{home}/.ssh", None, 0o700, owner)
            add(f"{home}/.ssh/authorized_keys", client, 0o600, owner)
        add("etc/ssh/ssh_host_ed25519_key", key.read_text(), 0o600)
        add("etc/ssh/ssh_host_ed25519_key.pub", _public(key) + "\n", 0o644)
        add("etc/sudoers.d/ops", f"ops {rule}\n", 0o440)
        if host.spec.light:
            add("run/sshd", None, 0o755)
    return buffer.getvalue()
