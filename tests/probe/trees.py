"""Machines as folders: /proc and /sys of any topology, for the real script to look into."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from cpudeploy.probe import arguments, parse, script
from cpudeploy.transport.shell import assignments
from cpudeploy.types.facts import Facts, Question

V1 = ("cpu,cpuacct", "cpuset", "memory")


def ranges(cpus: Iterable[int]) -> str:
    return ",".join(str(cpu) for cpu in sorted(cpus))


class Tree:
    """A folder that becomes a machine piece by piece."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.write("proc/self/mountinfo", "")
        self.write("machine", "x86_64")
        self.write("etc/os-release", 'ID=debian\nVERSION_ID="12"\nPRETTY_NAME="Debian GNU/Linux 12"\n')

    def write(self, path: str, text: str) -> None:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text if text.endswith("\n") or not text else text + "\n")

    def cpus(
        self,
        cores: Iterable[tuple[tuple[int, ...], int, int]],
        *,
        online: Iterable[int] | None = None,
        affinity: Iterable[int] | None = None,
        flags: Mapping[int, str] | None = None,
        model: str = "Example CPU",
    ) -> None:
        """`cores`: (threads, socket, core id). What is off-line has no topology, as in a kernel."""
        listed = list(cores)
        every = {cpu for threads, _, _ in listed for cpu in threads}
        up = every if online is None else set(online)
        info = []
        for threads, socket, core in listed:
            for cpu in set(threads) & up:
                at = f"sys/devices/system/cpu/cpu{cpu}/topology"
                self.write(f"{at}/physical_package_id", str(socket))
                self.write(f"{at}/core_id", str(core))
                self.write(f"{at}/thread_siblings_list", ranges(set(threads) & up))
                said = (flags or {}).get(cpu, "fpu avx2")
                info.append(f"processor\t: {cpu}\nmodel name\t: {model}\nflags\t\t: {said}\n")
        for cpu in every - up:
            self.write(f"sys/devices/system/cpu/cpu{cpu}/online", "0")
        self.write("sys/devices/system/cpu/online", ranges(up))
        self.write("proc/cpuinfo", "\n".join(info))
        self.write("proc/self/status", f"Name:\tsh\nCpus_allowed_list:\t{ranges(affinity or up)}\n")

    def memory(self, total_kib: int, nodes: Iterable[tuple[int, int, Iterable[int]]] = ()) -> None:
        """`nodes`: (node, KiB, processors)."""
        self.write(
            "proc/meminfo",
            f"MemTotal: {total_kib} kB\nMemAvailable: {total_kib * 3 // 4} kB\nSwapTotal: 1024 kB\n",
        )
        for number, size, cpus in nodes:
            at = f"sys/devices/system/node/node{number}"
            self.write(f"{at}/meminfo", f"Node {number} MemTotal: {size} kB\nNode {number} MemFree: 1 kB\n")
            self.write(f"{at}/cpulist", ranges(cpus) + "\n")

    def cgroup(self, version: int, path: str, files: Mapping[str, str], *, mount_root: str = "/") -> None:
        """Our group's path, and files as `group path/file` → text, below the mount."""
        if version == 2:
            self.write("proc/self/cgroup", f"0::{path}\n")
            self.write(
                "proc/self/mountinfo", f"30 20 0:26 {mount_root} /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
            )
            places = {"": "sys/fs/cgroup"}
        else:
            self.write(
                "proc/self/cgroup",
                "".join(f"{number}:{name}:{path}\n" for number, name in enumerate(V1, 1)) + "0::/\n",
            )
            self.write(
                "proc/self/mountinfo",
                "".join(
                    f"{30 + number} 20 0:26 {mount_root} /sys/fs/cgroup/{name} rw - cgroup cgroup rw,{name}\n"
                    for number, name in enumerate(V1)
                ),
            )
            places = {"cpu.": "sys/fs/cgroup/cpu,cpuacct", "cpuset.": "sys/fs/cgroup/cpuset"}
            places["memory."] = "sys/fs/cgroup/memory"
        for name, text in files.items():
            file = name.rsplit("/", 1)[-1]
            place = next(place for prefix, place in places.items() if file.startswith(prefix))
            self.write(f"{place}/{name}", text)

    def document(self, questions: Iterable[Question] = (), shell: str = "sh") -> bytes:
        """What the real script says of it."""
        args = arguments(questions, weights_dir="/var/lib/cpudeploy/weights")
        text = assignments({**args, "sysroot": str(self.folder)}) + script()
        done = subprocess.run(
            [*shell.split(), "-c", 'eval "$(cat)"'],
            input=text.encode(),
            capture_output=True,
            env={**os.environ, "LC_ALL": "C"},
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        assert done.stderr == b""
        return done.stdout

    def facts(self, questions: Iterable[Question] = (), shell: str = "sh") -> Facts:
        return parse(self.document(questions, shell), "h1")
