"""A world with busybox as its only program, and scripts run in it as on a host."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from cpudeploy.secrets import Secrets
from cpudeploy.transport.local import LocalConnection, ProcessWire
from cpudeploy.transport.shell import quote
from cpudeploy.transport.wire import Deadline, Wire
from cpudeploy.types.deployment import Host, Ssh

from .conftest import sh

HERE = Host(name="here", connection="local", ssh=Ssh(address="here"))


class Busybox(LocalConnection):
    """Processes of this machine that see nothing but `folder`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(HERE, Secrets(folder))
        self.folder = folder

    def _start(self, command: str, deadline: Deadline) -> Wire:
        return ProcessWire(f"exec chroot {quote(str(self.folder))} /bin/sh -c {quote(command)}")


def busybox_world(folder: Path, *, without: tuple[str, ...] = ()) -> Busybox:
    """Every applet but those of `without`. Without /proc, unless somebody mounts one there."""
    for name in ("bin", "dev", "proc", "tmp"):
        (folder / name).mkdir()
    (folder / "dev" / "null").touch()
    shutil.copy("/usr/bin/busybox", folder / "bin" / "busybox")
    linked = subprocess.run(["ldd", "/usr/bin/busybox"], capture_output=True, text=True, check=False)
    for word in linked.stdout.split():
        if word.startswith("/"):
            place = folder / word.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(word, place)
    for applet in sh("/usr/bin/busybox", "--list").split():
        if applet not in ("busybox", *without):
            (folder / "bin" / applet).symlink_to("busybox")
    return Busybox(folder)
