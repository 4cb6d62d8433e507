"""A real sshd on loopback and real users of this machine, made for the tests and removed after them.

Needs root. Debian's openssh-server, sudo and some shells are installed when they are missing.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from cpudeploy.secrets import Secrets
from cpudeploy.transport import Connection, connect
from cpudeploy.types.base import SecretRef
from cpudeploy.types.deployment import Host, Ssh, Sudo

PROGRAMS = {
    "/usr/sbin/sshd": "openssh-server",
    "/usr/bin/sudo": "sudo",
    "/usr/bin/busybox": "busybox",
    "/bin/tcsh": "tcsh",
    "/usr/bin/fish": "fish",
}


def sh(*command: str | Path, stdin: str = "") -> str:
    done = subprocess.run(
        [str(word) for word in command], input=stdin, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def new_key(path: Path, kind: str = "ed25519", passphrase: str = "") -> Path:
    sh("ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", path.name, "-f", path)
    return path


def public(key: Path) -> str:
    return key.with_name(key.name + ".pub").read_text()


@dataclass
class User:
    """A user of this machine; `password` is set where sudo asks for one."""

    name: str
    home: Path
    password: str = ""

    def write(self, name: str, text: str) -> None:
        file = self.home / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        sh("chown", "-R", f"{self.name}:", self.home)


@dataclass
class Sshd:
    """A running server and a client's folder that knows it."""

    folder: Path
    port: int
    key: Path
    options: list[str] = field(default_factory=list)

    def config(self, name: str = "config", *, key: Path | None = None, extra: str = "") -> Path:
        """An ssh configuration that knows the server and uses only the right key."""
        file = self.folder / name
        file.write_text(
            f"{extra}\nHost *\n  UserKnownHostsFile {self.folder / 'known_hosts'}\n"
            f"  GlobalKnownHostsFile none\n  IdentityFile {key or self.key}\n  IdentitiesOnly yes\n"
        )
        return file

    def host(self, user: str, *, config: Path | None = None, **ssh: object) -> Host:
        return Host(
            name="h1",
            ssh=Ssh(
                address=str(ssh.pop("address", "127.0.0.1")),
                port=int(str(ssh.pop("port", self.port))),
                user=user,
                config=str(config or self.config()),
                **ssh,  # type: ignore[arg-type]
            ),
        )


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def until(holds: Callable[[], bool]) -> bool:
    """Whether something comes to hold, given ten seconds."""
    for _ in range(200):
        if holds():
            return True
        time.sleep(0.05)
    return False


def listens(port: int, address: str = "127.0.0.1") -> bool:
    try:
        socket.create_connection((address, port), timeout=5).close()
    except OSError:
        return False
    return True


def start_sshd(
    folder: Path, *, host_key: Path, extra: str = "", address: str = "127.0.0.1", keys_file: str = ""
) -> tuple[subprocess.Popen[bytes], int]:
    port = free_port()
    config = folder / f"sshd_config.{port}"
    config.write_text(
        f"ListenAddress {address}\nPort {port}\nHostKey {host_key}\nPidFile none\nUsePAM no\n"
        f"AuthorizedKeysFile {keys_file or folder / 'authorized_keys'}\nStrictModes no\nPasswordAuthentication no\n"
        f"PermitRootLogin yes\nMaxStartups 100\n{extra}\n"
    )
    Path("/run/sshd").mkdir(exist_ok=True)
    with (folder / f"sshd.{port}.log").open("wb") as log:
        process = subprocess.Popen(["/usr/sbin/sshd", "-D", "-e", "-f", str(config)], stderr=log)
    assert until(lambda: listens(port, address)), f"no sshd on {port}"
    return process, port


@pytest.fixture(scope="session")
def programs() -> None:
    if os.geteuid() != 0:
        pytest.skip("makes users and starts sshd: needs root")
    # One of the test workers installs, the others wait for it.
    with (Path(tempfile.gettempdir()) / "cpudeploy-tests.apt").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        missing = [package for path, package in PROGRAMS.items() if not Path(path).exists()]
        if missing:
            sh("apt-get", "update", "-q")
            sh("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-yq", *missing)


@pytest.fixture(scope="session")
def sshd(programs: None) -> Iterator[Sshd]:
    # Not below pytest's folder, which is closed to others: sshd reads keys as the user who logs in.
    folder = Path(tempfile.mkdtemp(prefix="cpudeploy-sshd."))
    folder.chmod(0o755)
    host_key = new_key(folder / "host_key")
    key = new_key(folder / "id_test")
    (folder / "authorized_keys").write_text(public(key))
    (folder / "authorized_keys").chmod(0o644)
    process, port = start_sshd(folder, host_key=host_key)
    kind, blob = public(host_key).split()[:2]
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {kind} {blob}\n")
    yield Sshd(folder=folder, port=port, key=key)
    process.terminate()
    process.wait()
    shutil.rmtree(folder)


@pytest.fixture
def make_user(programs: None) -> Iterator[Callable[..., User]]:
    """make_user(shell=…, sudo=…, password=…): a new user; `sudo` is the line for sudoers."""
    made: list[str] = []

    def make(shell: str = "/bin/bash", sudo: str = "", password: str = "") -> User:
        name = f"cpd{os.getpid()}x{len(made)}"
        made.append(name)
        sh("useradd", "-m", "-s", shell, "-p", "*", name)
        if password:
            sh("chpasswd", stdin=f"{name}:{password}\n")
        if sudo:
            file = Path("/etc/sudoers.d") / name
            file.write_text("".join(f"{line.format(user=name)}\n" for line in sudo.splitlines()))
            file.chmod(0o440)
        return User(name, Path("/home") / name, password)

    yield make
    for name in made:
        subprocess.run(["userdel", "-r", "-f", name], check=False, capture_output=True)
        (Path("/etc/sudoers.d") / name).unlink(missing_ok=True)
        shutil.rmtree(Path("/home") / name, ignore_errors=True)


@pytest.fixture
def open_connection(sshd: Sshd, tmp_path: Path) -> Iterator[Callable[..., Connection]]:
    """open_connection(host, sudo_password=…): connected, closed after the test."""
    opened: list[Connection] = []

    def open_(host: Host, sudo_password: str = "") -> Connection:
        if sudo_password:
            (tmp_path / "sudo").write_text(sudo_password)
            sudo = Sudo(password=SecretRef(kind="from_file", name="sudo"))
            host = Host(name=host.name, ssh=host.ssh, sudo=sudo)
        connection = connect(host, Secrets(tmp_path))
        opened.append(connection)
        return connection

    yield open_
    for connection in opened:
        connection.close()


@pytest.fixture
def as_root(sshd: Sshd, open_connection: Callable[..., Connection]) -> Connection:
    return open_connection(sshd.host("root"))
