"""Secrets that a command prints: run when a host needs them, once, and never to check or to plan without hosts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import yaml

from tests.transport.conftest import Sshd, User

from .test_commands import cpudeploy


def write(folder: Path, password: object, **host: object) -> None:
    manifest = {
        "version": 1,
        "name": "rag",
        "hosts": {"h1": {"address": "127.0.0.1", **host, "sudo": {"password": password}}},
        "backends": {"llama": {"playbook": "llama-cpp", "image": "registry.invalid/llama:server-b9000"}},
        "models": {},
    }
    (folder / "inventory.yaml").write_text(yaml.safe_dump(manifest))


def test_sudos_password_may_come_from_a_command(tmp_path: Path, sshd: Sshd, make_user: Callable[..., User]):
    user = make_user(sudo="{user} ALL=(ALL) ALL", password="it's $HOME")
    program = tmp_path / "tell password"
    program.write_text('#!/bin/sh\necho run >>runs\n[ "$1" = "a b" ] && cat password\n')
    program.chmod(0o755)
    (tmp_path / "password").write_text("it's $HOME\n")
    ssh = {"port": sshd.port, "user": user.name, "config": str(sshd.config())}
    for command in ([str(program), "a b"], f"'{program}' 'a b'"):
        (tmp_path / "runs").unlink(missing_ok=True)
        write(tmp_path, {"from_command": command}, ssh=ssh)
        done = cpudeploy("facts", "--format", "json", cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert '"root": "sudo-password"' in done.stdout
        assert (tmp_path / "runs").read_text() == "run\n"


def test_what_touches_no_host_runs_no_command(tmp_path: Path):
    write(tmp_path, {"from_command": "touch ran"})
    (tmp_path / "facts").mkdir()
    assert cpudeploy("validate", cwd=tmp_path).returncode == 0
    assert "h1" in cpudeploy("plan", "--facts", "facts", cwd=tmp_path).stdout
    assert not (tmp_path / "ran").exists()
