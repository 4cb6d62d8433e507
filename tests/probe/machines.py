"""Machines as their owners published them: a text that lscpu printed, and the right reading of it.

The form: `# source:` first, `# section: NAME` before each part but the first, `# expected: field=value, …`
last. From one text come two hosts: one that has nothing but lscpu, and one whose /proc and /sys are built
as the text says.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from cpudeploy.probe.cpuinfo import read_processors
from cpudeploy.probe.cpulist import cpu_list
from cpudeploy.probe.lscpu import Kind, Lscpu, parse_lscpu

from .trees import Tree

_FIELDS = (
    "arch|sockets|cores|threads_per_core|logical|numa_nodes|avx2|avx512f|amx|bf16|mem|fast_cores|quota|notes"
)
_ARCHES = "x86_64|aarch64|loongarch64|ppc64le|ppc64|riscv64|s390x"
_UNITS = {"kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30, "tb": 1 << 40}


@dataclass(frozen=True)
class Machine:
    """One file. `sections` by name, the first one's is empty."""

    name: str
    sections: dict[str, str]
    expected: dict[str, str]

    @property
    def text(self) -> str:
        return self.sections[""]

    @property
    def lscpu(self) -> Lscpu:
        return parse_lscpu(self.text + self.section("lscpu -"))

    @property
    def is_cpuinfo(self) -> bool:
        """Is the text one of /proc/cpuinfo instead?"""
        return re.match(r"processor\s*:", self.text) is not None

    @property
    def arch(self) -> str:
        """The kernel's word, as expected or as the hint in brackets says; empty without either."""
        found = re.search(_ARCHES, self.expected.get("arch", ""))
        return found[0] if found else ""

    def section(self, beginning: str) -> str:
        return "\n".join(text for name, text in self.sections.items() if name.startswith(beginning) and name)

    def value(self, field: str) -> int | None:
        """The number expected; in brackets where the text itself does not tell it."""
        text = self.expected.get(field, "")
        if "hardware" in text and field != "sockets":
            text = text.partition("hardware")[2]
        found = re.match(r"(?:unknown|missing)\D*(\d+)|\D{0,3}(\d+)", text)
        return int(found[1] or found[2]) if found else None

    @property
    def fast_cores(self) -> int | None:
        """P or big cores of a hybrid machine."""
        if "fast_cores" in self.expected:
            return int(self.expected["fast_cores"])
        found = re.search(r"\((\d+) (?:P|big)\b", self.expected.get("cores", ""))
        return int(found[1]) if found else None

    @property
    def memory(self) -> tuple[int, float] | None:
        """Bytes that /proc/meminfo tells, and how far off they may be for having been rounded."""
        found = re.search(r"([\d.]+) ?([kMGT])i?B", self.expected.get("mem", ""))
        if found is None or self.expected["mem"].startswith("not shown"):
            return None
        size = float(found[1]) * _UNITS[f"{found[2].lower()}b"]
        return int(size), 1 if found[2] == "k" else size * 0.05

    @property
    def meminfo(self) -> dict[str, int]:
        """KiB by key of /proc/meminfo, from whichever section tells."""
        found = {
            key: int(value)
            for key, value in re.findall(r"^(\w+): +(\d+) kB", self.section("/proc/meminfo"), re.MULTILINE)
        }
        if not found:
            row = re.search(r"^(?:Mem|内存|Speicher)[:：].*", self.section("free"), re.MULTILINE)
            sizes = re.findall(r"([\d.,]+)([KMGT])i", row[0]) if row else []
            if sizes:
                kib = [int(float(n.replace(",", ".")) * _UNITS[f"{u.lower()}b"] / 1024) for n, u in sizes]
                found = {"MemTotal": kib[0], "MemAvailable": kib[-1]}
        if not found:
            sizes = re.findall(r"node \d+ size: (\d+) MB", self.section("numactl"))
            if sizes:
                found = {"MemTotal": sum(map(int, sizes)) * 1024}
        if not found:
            told = re.search(r'"mem_total_kb": "?(\d+)', self.text)
            found = {"MemTotal": int(told[1])} if told else {}
        return found

    @property
    def node_kib(self) -> dict[int, int]:
        """Node → KiB."""
        kib = re.findall(r"^node(\d+) MemTotal: (\d+) kB", self.section("/sys"), re.MULTILINE)
        mib = re.findall(r"^node (\d+) size: (\d+) MB", self.section("numactl"), re.MULTILINE)
        return {int(n): int(size) for n, size in kib} | {int(n): int(size) * 1024 for n, size in mib}


def read_machine(file: Path) -> Machine:
    sections = {"": ""}
    name = ""
    expected = ""
    for line in file.read_text(encoding="utf-8").splitlines(keepends=True):
        if line.startswith("# section:"):
            name = line.removeprefix("# section:").strip()
            sections[name] = ""
        elif line.startswith("# expected:"):
            expected = line.removeprefix("# expected:")
        elif not line.startswith("# source:"):
            sections[name] += line
    fields = re.split(rf"(?:^|, )\s*({_FIELDS})=", expected.strip())
    return Machine(file.stem, sections, dict(zip(fields[1::2], fields[2::2], strict=True)))


# ---- A host that has nothing but lscpu ------------------------------------------------------------------


def lscpu_document(machine: Machine) -> bytes:
    """What our script would send where /sys and /proc/cpuinfo tell nothing, or /proc/cpuinfo alone does."""
    records = {"uname": "Linux 6.1.0", "limits": ""}
    if machine.is_cpuinfo:
        records["cpuinfo"] = records["cpuinfo-all"] = machine.text
        records["machine"] = machine.arch
    else:
        records["lscpu"] = machine.text
        records["lscpu-rows"] = machine.section("lscpu -")
    affinity = re.search(r'"affinity_cpus": (\d+)', machine.text)
    if affinity:
        records["affinity"] = f"0-{int(affinity[1]) - 1}"
    for name, file in (("cgroup_cpu_max", "cpu.max"), ("cgroup_memory_max", "memory.max")):
        told = re.search(rf'"{name}": "([^"]+)"', machine.text)
        if told:
            records["limits"] += f"{file} /sys/fs/cgroup {told[1]}\n"
    records["meminfo"] = "".join(f"{key}: {size} kB\n" for key, size in machine.meminfo.items())
    records["end"] = ""
    return b"".join(
        b"%s 0 %d\n%s\n" % (key.encode(), len(text.encode()), text.encode()) for key, text in records.items()
    )


# ---- A host whose /proc and /sys are as the text says ---------------------------------------------------


def build_tree(machine: Machine, folder: Path) -> Tree | None:
    """None where the text does not determine what the kernel would show."""
    if machine.text.startswith('"'):
        return _container_tree(machine, folder)
    cores = _cores(machine)
    lscpu = machine.lscpu
    if not cores or (lscpu.rows and any(kind.sockets for kind in lscpu.kinds) and lscpu.sockets is None):
        return None
    online = sorted(cpu for threads, _ in cores for cpu in threads)
    tree = Tree(folder)
    tree.write("machine", machine.arch)
    nodes = _node_lists(machine, online)
    kinds = _kinds(lscpu, cores)
    sockets = _sockets(machine, [threads for threads, _ in cores])
    if len(kinds) != len(cores):
        return None
    for index, (threads, core) in enumerate(cores):
        for cpu in threads:
            at = f"sys/devices/system/cpu/cpu{cpu}"
            tree.write(f"{at}/topology/physical_package_id", str(sockets[index]))
            tree.write(f"{at}/topology/core_id", str(core))
            tree.write(f"{at}/topology/thread_siblings_list", ",".join(map(str, threads)))
            if kinds[index].mhz:
                tree.write(f"{at}/cpufreq/cpuinfo_max_freq", str(1000 * (kinds[index].mhz or 0)))
    for cpu in lscpu.offline:
        tree.write(f"sys/devices/system/cpu/cpu{cpu}/online", "0")
    tree.write("sys/devices/system/cpu/online", ",".join(map(str, online)))
    tree.write("proc/self/status", f"Cpus_allowed_list:\t{','.join(map(str, online))}\n")
    tree.write("proc/self/cgroup", "0::/\n")
    tree.write("proc/self/mountinfo", "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
    if _intel_hybrid(machine, cores):
        fast = [cpu for threads, _ in cores if len(threads) > 1 for cpu in threads]
        tree.write("sys/devices/cpu_core/cpus", ",".join(map(str, fast)))
        tree.write("sys/devices/cpu_atom/cpus", ",".join(str(cpu) for cpu in online if cpu not in fast))
    _write_cpuinfo(machine, tree, [(threads, kinds[index]) for index, (threads, _) in enumerate(cores)])
    if machine.meminfo:
        tree.write("proc/meminfo", "".join(f"{k}: {v} kB\n" for k, v in machine.meminfo.items()))
    for number, cpus in nodes.items():
        at = f"sys/devices/system/node/node{number}"
        size = machine.node_kib.get(
            number, (machine.meminfo or {"MemTotal": 1 << 24})["MemTotal"] // len(nodes)
        )
        tree.write(f"{at}/meminfo", f"Node {number} MemTotal: {size} kB\n")
        tree.write(f"{at}/cpulist", ",".join(map(str, sorted(cpus))) + "\n")
    return tree


def _container_tree(machine: Machine, folder: Path) -> Tree:
    """A container that tells its CPUs and limits, in its own namespace, and no topology."""
    told = dict(re.findall(r'"(\w+)": "?([^"\n]+)"?', machine.text))
    tree = Tree(folder)
    tree.write("machine", machine.arch)
    tree.write("proc/cpuinfo", f"model name\t: {told['cpu']}\n")
    tree.write("proc/meminfo", f"MemTotal: {told['mem_total_kb']} kB\n")
    tree.write("proc/self/status", f"Cpus_allowed_list:\t0-{int(told['affinity_cpus']) - 1}\n")
    limits = {"cpu.max": told["cgroup_cpu_max"], "memory.max": told["cgroup_memory_max"]}
    tree.cgroup(2, "/", limits)
    return tree


def _cores(machine: Machine) -> list[tuple[tuple[int, ...], int]]:
    """(threads, core id) of every core, by table, by count, or by how kernels number siblings."""
    lscpu = machine.lscpu
    if lscpu.rows:
        found: dict[int, list[int]] = {}
        for row in lscpu.rows:
            found.setdefault(row.core, []).append(row.cpu)
        return [(tuple(cpus), core) for core, cpus in found.items()]
    if machine.is_cpuinfo:
        listed = read_processors(machine.text.splitlines())
        if len(listed) > 1 and all(each.core is not None for each in listed):
            shared: dict[tuple[int | None, int | None], list[int]] = {}
            for each in listed:
                shared.setdefault((each.socket, each.core), []).append(each.cpu)
            return [(tuple(cpus), number) for number, cpus in enumerate(shared.values())]
        siblings = re.search(r"siblings\s*: (\d+)", machine.text)
        cores = re.search(r"cpu cores\s*: (\d+)", machine.text)
        if siblings and cores and siblings[1] == cores[1]:
            return [((cpu,), cpu) for cpu in range(int(cores[1]))]
    online = sorted(lscpu.on)
    threads = next((kind.threads for kind in lscpu.kinds if kind.threads), None)
    if not online or threads is None:
        return []
    kind = lscpu.kinds[0]
    whole = (kind.cores or 0) * (lscpu.sockets or 1)
    if threads == 2 and kind.cores and whole < len(online) < whole * 2:
        fast = len(online) - whole  # Intel numbers its P cores first, siblings side by side
        pairs = [tuple(online[2 * i : 2 * i + 2]) for i in range(fast)]
        return [(pair, i) for i, pair in enumerate([*pairs, *((cpu,) for cpu in online[2 * fast :])])]
    groups = [sorted(cpus) for cpus in lscpu.nodes.values() if cpus] or [online]
    if frozenset().union(*groups) != frozenset(online):
        groups = [online]
    beside = machine.arch.startswith("ppc")
    found_cores = []
    for group in groups:
        step = len(group) // threads
        if beside:
            found_cores += [tuple(group[i : i + threads]) for i in range(0, len(group), threads)]
        else:
            found_cores += [tuple(group[i::step]) for i in range(step)]
    return [(cpus, number) for number, cpus in enumerate(sorted(found_cores))]


def _sockets(machine: Machine, cores: list[tuple[int, ...]]) -> list[int]:
    """The socket of each core: by table, else equal parts in order of the nodes."""
    lscpu = machine.lscpu
    told = {row.cpu: row.socket for row in lscpu.rows}
    if machine.is_cpuinfo:
        told = {each.cpu: each.socket or 0 for each in read_processors(machine.text.splitlines())}
        return [told.get(cpus[0], 0) for cpus in cores]
    count = lscpu.sockets or 1
    if told and min(told.values()) >= 0:
        return [told[cpus[0]] for cpus in cores]
    nodes = [cpus for _, cpus in sorted(lscpu.nodes.items()) if cpus]
    if len(nodes) >= count and len(nodes) % count == 0:
        of = {cpu: i * count // len(nodes) for i, cpus in enumerate(nodes) for cpu in cpus}
        return [of[cpus[0]] for cpus in cores]
    return [index * count // len(cores) for index in range(len(cores))]


def _node_lists(machine: Machine, online: list[int]) -> dict[int, frozenset[int]]:
    lscpu = machine.lscpu
    nodes = dict(lscpu.nodes)
    for number, cpus in re.findall(r"^node (\d+) cpus:([\d ]*)$", machine.section("numactl"), re.MULTILINE):
        nodes.setdefault(int(number), cpu_list(",".join(cpus.split())))
    return nodes


def _kinds(lscpu: Lscpu, cores: list[tuple[tuple[int, ...], int]]) -> list[Kind]:
    """The kind of each core: by the table's clocks, else in the order they are printed in."""
    mhz = {row.cpu: row.mhz for row in lscpu.rows if row.mhz}
    if mhz:
        only = lscpu.kinds[0]
        return [Kind(model=only.model, mhz=mhz[threads[0]], flags=only.flags) for threads, _ in cores]
    if len(lscpu.kinds) < 2 or lscpu.kinds[0].cores is None:
        only = lscpu.kinds[0] if lscpu.kinds else Kind()
        return [Kind(model=only.model, flags=only.flags)] * len(cores)
    return [kind for kind in lscpu.kinds for _ in range(kind.cores or 0)]


def _intel_hybrid(machine: Machine, cores: list[tuple[tuple[int, ...], int]]) -> bool:
    sizes = {len(threads) for threads, _ in cores}
    return machine.arch == "x86_64" and len(sizes) > 1 and not machine.lscpu.rows


def _write_cpuinfo(machine: Machine, tree: Tree, cores: list[tuple[tuple[int, ...], Kind]]) -> None:
    if machine.is_cpuinfo:
        head = machine.text.partition("\n")[2]
        repeated = "\n".join(f"processor : {cpus[0]}\n{head}" for cpus, _ in cores)
        tree.write("proc/cpuinfo", machine.text if "\nprocessor" in machine.text else repeated)
        return
    words = {"x86_64": "flags", "riscv64": "isa", "s390x": "features"}
    entries = []
    for cpus, kind in cores:
        for cpu in cpus:
            entry = f"processor\t: {cpu}\n"
            if machine.arch == "x86_64" and kind.model:
                entry += f"model name\t: {kind.model}\n"
            if kind.flags:
                entry += f"{words.get(machine.arch, 'Features')}\t: {' '.join(kind.flags)}\n"
            entries.append(entry)
    tree.write("proc/cpuinfo", "\n".join(entries))
