"""Scripts run by a real sh on this machine, the way a connection runs them on a host."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Ran:
    rc: int
    stderr: str


@dataclass
class LocalShell:
    """`shell`: the argv that reads a script as its last argument. `env`: nothing else is inherited."""

    shell: tuple[str, ...] = ("sh", "-c")
    env: dict[str, str] = field(default_factory=lambda: {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})
    scripts: list[str] = field(default_factory=list)

    def start(self, script: str, args: Mapping[str, str]) -> subprocess.Popen[bytes]:
        text = "".join(f"{name}={shlex.quote(value)}\n" for name, value in args.items()) + script
        self.scripts.append(text)
        pipe = subprocess.PIPE
        return subprocess.Popen([*self.shell, text], stdin=pipe, stdout=pipe, stderr=pipe, env=self.env)

    def run(
        self,
        script: str,
        *,
        args: Mapping[str, str],
        deadline_s: float,
        stdin: bytes,
        on_line: Callable[[str], None],
    ) -> Ran:
        process = self.start(script, args)
        assert process.stdin and process.stdout and process.stderr
        with process:
            process.stdin.write(stdin)
            process.stdin.close()
            for line in process.stdout:
                on_line(line.decode().rstrip("\n"))
            stderr = process.stderr.read().decode()
        return Ran(process.returncode, stderr)
