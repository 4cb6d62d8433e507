"""What is: one document a host, from one script over one connection.

Built by `probe/`; read by sizing, plan and execute. What could not be read is `Unknown` with the
reason. Sizes are bytes. Paths into the JSON form of this document are what fingerprints speak of,
so keys are names an operator knows (container names, image references, file paths).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from .base import Count, CpuId, Port, Struct, Unknown
from .safety import Guard, Hold, InFlight, Lease
from .shared import HostRecord

Share = Annotated[float, msgspec.Meta(ge=0)]
"""CPUs' worth of time, or a part of something."""


class Os(Struct, frozen=True, kw_only=True):
    """From /etc/os-release and uname. `arch` is the engine's word: amd64, arm64, …"""

    id: str | Unknown
    version: str | Unknown
    codename: str
    name: str
    kernel: str | Unknown
    arch: str | Unknown
    page_size: Count | Unknown


class Core(Struct, frozen=True, kw_only=True):
    """One physical core and those of its logical CPUs that we may use.

    speed: how much one thread gets done here relative to other cores of the machine (the kernel's capacity,
    or maximum MHz), the same for all cores of a kind; 0 where all are alike or nothing tells. socket -1: not
    told. node -1: no NUMA node lists its CPUs.
    """

    cpus: tuple[CpuId, ...]
    socket: int
    node: int
    speed: Count = 0


class Cpu(Struct, frozen=True, kw_only=True):
    """Processors. `cores` holds only what is usable: on-line ∩ affinity ∩ cpuset of our cgroup.

    `usable` are their logical CPUs, known also where nothing tells which of them share a core.
    `quota` is the smallest CPU time limit along the cgroup path, in CPUs (0.5 is half a core),
    None without one. `throttled`: the share of its periods, since boot, in which that limit stopped
    somebody; None without a limit or where nothing counts. `online` counts the machine's on-line logical
    CPUs, usable or not, `sockets` its packages. `flags`: what all kinds of cores have.
    """

    model: str | Unknown
    flags: tuple[str, ...] | Unknown
    online: Count | Unknown
    sockets: Count | Unknown
    usable: tuple[CpuId, ...] | Unknown
    cores: tuple[Core, ...] | Unknown
    quota: Share | Unknown | None
    throttled: Share | None = None


class Node(Struct, frozen=True, kw_only=True):
    """A NUMA node: its memory in bytes without huge pages set aside (0: CPUs only), and its on-line CPUs
    (none: memory only)."""

    id: Count
    memory: Count
    cpus: tuple[CpuId, ...] = ()


class Memory(Struct, frozen=True, kw_only=True):
    """`total` is effective: the cgroup's limit, or what of the machine's memory programs can use (no huge
    pages set aside, no NUMA nodes without CPUs), whichever is smaller. `machine` is MemTotal."""

    total: Count | Unknown
    available: Count | Unknown
    machine: Count | Unknown
    limit: Count | Unknown | None
    swap: Count | Unknown
    nodes: tuple[Node, ...] | Unknown
    bandwidth: Count | None = None
    """Bytes a second that all usable cores read together; None: not measured."""
    huge_pages: Count = 0
    """Bytes set aside as huge pages."""


class Disk(Struct, frozen=True, kw_only=True, tag="disk", tag_field="kind"):
    """The file system that holds (or would hold) a folder."""

    mount: str
    total: Count
    free: Count


class File(Struct, frozen=True, kw_only=True, tag="file", tag_field="kind"):
    """A file asked for. `text` only where the question wanted its content (≤ 1 MiB)."""

    size: Count
    mode: str
    owner: str
    sha256: str | Unknown
    text: str | None = None


class Listening(Struct, frozen=True, kw_only=True):
    """A listening TCP socket of the host."""

    address: str
    port: Port


class Mark(Struct, frozen=True, kw_only=True):
    """Whose a container is: our labels. Identity only."""

    schema: int
    deployment: str
    model: str
    instance: int
    release: str


class Publish(Struct, frozen=True, kw_only=True):
    """A published port: host address and port → container port."""

    address: str
    port: Port
    container_port: Port


class Container(Struct, frozen=True, kw_only=True):
    """A container of the engine, ours (`mark`) or foreign. Never environment, never command.

    memory and quota 0: no limit. cpuset and cpuset_mems (its NUMA nodes) empty: none.
    """

    id: str
    mark: Mark | None
    image: str
    image_id: str
    status: str
    running: bool
    exit_code: int
    oom_killed: bool
    restarts: int
    restart_policy: str
    started_at: str
    cpuset: str
    cpuset_mems: str = ""
    quota: Share
    memory: Count
    memory_swap: int
    publish: tuple[Publish, ...]
    networks: dict[str, str]
    """Network name → the container's address there (empty while stopped)."""
    network_ids: dict[str, str] = {}
    """Network name → the network it was connected to: one that was removed since can't be started on."""
    mounts: tuple[str, ...] = ()
    """Folders and files of the host that it sees, wherever."""
    volumes: tuple[str, ...] = ()
    """Volumes of the engine that it mounts, those without a name of their own among them."""
    command: str = ""
    """sha256 of one of ours' arguments (`types.base.digest`), never the words; empty: none, or not ours."""
    throttled: Share | None = None
    """Share of CPU periods in which a quota of its own stopped it, since it started; None: no quota."""


class Network(Struct, frozen=True, kw_only=True):
    """A network of the engine. `deployment`: our label, or empty."""

    id: str
    driver: str
    internal: bool
    subnets: tuple[str, ...]
    deployment: str


class Volume(Struct, frozen=True, kw_only=True):
    """A volume of the engine. `deployment`: our label, or empty."""

    deployment: str


class Image(Struct, frozen=True, kw_only=True):
    """An image the engine holds. `id` is the engine's own; `references` its tags and `repository@digest`s."""

    id: str
    references: tuple[str, ...]
    size: Count
    platform: str


class DaemonFile(Struct, frozen=True, kw_only=True, tag="daemon", tag_field="kind"):
    """The engine's settings file. Never its text: the proxies in it may hold passwords.

    `insecure`: the registries it allows plain HTTP to. The engine may not have read it yet.
    """

    sha256: str
    insecure: tuple[str, ...]
    settings: dict[str, bool] = {}
    """Of settings that were asked about or that we claim, those that are there: is it the value asked about,
    or else the one we claim?"""


class Engine(Struct, frozen=True, kw_only=True):
    """The container engine as found.

    `state`: absent, stopped (installed, no process of it), running, foreign (podman's shim, snap:
    `detail` says which), or unknown (`detail` says why). `insecure`: registry (or CIDR) it may speak plain
    HTTP to → true.
    `daemon`: its settings file, None without one, unknown when it can't be understood.
    """

    state: Literal["absent", "stopped", "running", "foreign", "unknown"]
    detail: str = ""
    version: str = ""
    api_version: str = ""
    root: str = ""
    storage: str = ""
    cgroup: str = ""
    insecure: dict[str, bool] = {}
    live_restore: bool = False
    swarm: bool = False
    """Part of a swarm: containers can't outlive its restart then."""
    daemon: DaemonFile | Unknown | None = None


class Blob(Struct, frozen=True, kw_only=True):
    """A weights file held by content. `verified`: size, mtime and inode are as when it was hashed."""

    size: Count
    inode: int
    verified: bool


class Weights(Struct, frozen=True, kw_only=True):
    """The host's weights folder: blobs by sha256, trees by id (file → inode), partial downloads in bytes."""

    blobs: dict[str, Blob] = {}
    trees: dict[str, dict[str, int]] = {}
    partial: dict[str, int] = {}
    refs: dict[str, tuple[str, ...]] = {}
    """`<deployment>.<release>` → ids of the trees that release uses; `<deployment>.fetched`: that it got."""
    claims: dict[str, tuple[str, ...]] = {}
    """Deployment → sha256 of every file it fetched or is fetching."""


class Facts(Struct, frozen=True, kw_only=True):
    """Everything one host told in one go."""

    schema: Literal["cpudeploy.facts/1"] = "cpudeploy.facts/1"
    host: str
    os: Os
    cpu: Cpu
    memory: Memory
    root: Literal["root", "sudo", "sudo-password", "none", "unknown"]
    """How the probe had root; unknown where nobody tried."""
    clock: int
    """Seconds since the epoch, the host's own."""
    addresses: tuple[str, ...]
    routes: tuple[str, ...]
    """Networks (CIDR) the host has routes to, without the default route."""
    interfaces: dict[str, tuple[str, ...]] = {}
    """Interface → its addresses, as far as they can be told apart."""
    ports: tuple[Listening, ...] | Unknown
    selinux: str
    proxy: dict[str, str] = {}
    tools: dict[str, bool] = {}
    """Which of curl, python3, ip, systemctl, apt-get, dpkg … the host has."""
    engine: Engine
    containers: dict[str, Container] = {}
    networks: dict[str, Network] = {}
    volumes: dict[str, Volume] = {}
    images: dict[str, Image] = {}
    """By manifest digest (`sha256:…`), whichever repository it came from; under each where it has several."""
    weights: Weights = Weights()
    disks: dict[str, Disk | Unknown] = {}
    """By the folder asked about; where the engine runs also by its own root folder."""
    packages: dict[str, str | None] = {}
    """Asked package → candidate or installed version: `installed:X`, `candidate:X`, None: not known."""
    files: dict[str, File | Unknown | None] = {}
    releases: dict[str, dict[str, Any]] = {}
    """Deployment → release id → the release document (`types.release.Release` as data)."""
    held: dict[str, dict[str, Hold]] = {}
    """Deployment → container name → the hold on what was wanted there."""
    used_plans: dict[str, tuple[str, ...]] = {}
    """Deployment → ids of the saved plans that were finished here."""
    lease: Lease | None = None
    in_flight: InFlight | Unknown | None = None
    guards: dict[str, Guard] = {}
    """By their name, one a container or shared thing."""
    host_record: HostRecord | Unknown = HostRecord()
    """`host.json`: shared keys, who owns them, what was before."""
    notes: tuple[str, ...] = ()
    """Where sources contradicted each other, and which was believed."""
    probe_s: float = 0.0


class Question(Struct, frozen=True, kw_only=True):
    """Something a step needs to know of a host: kind, key, argument.

    file: key is a path, arg `text` when the content is wanted. package: key is a name.
    disk: key is a folder (the nearest existing parent is measured). setting: key is a setting of the engine,
    arg the value wanted, as `types.shared.setting_text` writes it.
    """

    kind: Literal["file", "package", "disk", "setting"]
    key: str
    arg: str = ""
