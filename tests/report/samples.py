"""Plans, facts and outcomes as real hosts give them, for the tests of rendering."""

from __future__ import annotations

from typing import Any

from cpudeploy.types import facts as f
from cpudeploy.types.allocation import Allocation, MemoryNeed
from cpudeploy.types.base import Unknown
from cpudeploy.types.deployment import Host, Ssh
from cpudeploy.types.operation import Engine, Fetch, Operation, PullImage, Put, Record, StartContainer, Wait
from cpudeploy.types.outcome import ChangeOutcome, Failure, HostOutcome, Outcome
from cpudeploy.types.plan import Change, FieldDiff, Fingerprint, HostPlan, Plan
from cpudeploy.types.release import Check, ContainerSpec, Gate, Instance
from cpudeploy.types.resolved import Place, WeightFile

GIB = 1 << 30
MIB = 1 << 20
IMAGE = "ghcr.io/ggml-org/llama.cpp:server-b9000"
HOSTILE = "\x1b[2J\x1b]0;owned\x07 [bold red]x[/] \x9b31m \u202egnp.exe a\rb"
"""What a hostile container may log: clears the screen, sets the title, rich markup, C1, bidi, overwrite."""


def allocation(**kw: Any) -> Allocation:
    need = MemoryNeed(
        weights=2 * GIB, repack=0, kv=768 * MIB, state=0, compute=300 * MIB, engine=400 * MIB, cache=0
    )
    base: dict[str, Any] = {
        "model": "minicpm5-1b",
        "host": "small-1",
        "instance": 0,
        "cpuset": "0-3",
        "threads": 2,
        "threads_batch": 4,
        "context": 8192,
        "parallel": 4,
        "context_total": 32768,
        "memory": int(3.5 * GIB),
        "need": need,
        "reasons": {"cpus": "both cores", "memory": "13.4 free"},
    }
    return Allocation(**(base | kw))


def change(**kw: Any) -> Change:
    base: dict[str, Any] = {
        "id": "small-1/1",
        "phase": "provision",
        "step": "docker_engine",
        "subject": "docker",
        "action": "create",
        "why": "not there",
        "summary": "docker.io 20.10 from the distribution",
        "before": Fingerprint(),
        "after": Fingerprint(),
        "operations": (),
        "revert": (),
    }
    return Change(**(base | kw))


def host_plan(name: str, *changes: Change, **kw: Any) -> HostPlan:
    base: dict[str, Any] = {
        "host": Host(name=name, ssh=Ssh(address="10.20.2.11")),
        "headline": "Debian 12 · 2 cores, 4 threads · 13.4 of 15.6 GiB free · AVX2",
        "changes": changes,
    }
    return HostPlan(**(base | kw))


def plan_of(*hosts: HostPlan, **kw: Any) -> Plan:
    base: dict[str, Any] = {
        "deployment": "rag",
        "base": "/srv/rag",
        "origin": "ops@desk:/srv/rag",
        "hosts": {host.host.name: host for host in hosts},
    }
    return Plan(**(base | kw))


def instance(model: str, *, port: int, address: str = "127.0.0.1", number: int = 0) -> Instance:
    spec = ContainerSpec(
        image=IMAGE,
        command=("--ctx-size", "32768"),
        cpuset="0-3",
        memory=int(3.5 * GIB),
        publish=(f.Publish(address=address, port=port, container_port=8080),),
    )
    return Instance(
        model=model,
        instance=number,
        backend="llama",
        playbook="llama-cpp",
        engine_version="b9000",
        source="huggingface openbmb/MiniCPM5-1B-GGUF@a1b2c3d",
        tree="t1",
        context=8192,
        parallel=4,
        threads=2,
        threads_batch=4,
        served_name=model,
        task="chat",
        container=spec,
        gate=gate(),
    )


def gate() -> Gate:
    return Gate(port=8080, stable_s=2, deadline_s=60, checks=(Check(name="ready", path="/health"),))


def wait(container: str, port: int, address: str = "127.0.0.1") -> Wait:
    return Wait(id="wait", deadline_s=90, container=container, address=address, port=port, gate=gate())


def record(host: str, instances: dict[str, Instance]) -> Record:
    return Record(
        id="record",
        deadline_s=10,
        deployment="rag",
        release="0007-1a2b3c4d",
        host=host,
        origin="ops@desk:/srv/rag",
        weights_dir="/var/lib/cpudeploy/weights",
        instances=instances,
    )


def pull() -> Operation:
    digest = "sha256:" + "ab" * 32
    place = Place(reference=f"m.daocloud.io/{IMAGE}@{digest}", digest=digest, registry="m.daocloud.io")
    request = PullImage(places=(place,), platform="linux/amd64", size=86_000_000)
    return Engine(id="pull", deadline_s=900, request=request)


def fetch() -> Operation:
    file = WeightFile(name="MiniCPM5-1B-F16.gguf", size=2_200_000_000, sha256="9f0c" * 16, urls=())
    return Fetch(id="fetch", deadline_s=3600, weights_dir="/var/lib/cpudeploy/weights", file=file)


COMMAND = "--ctx-size 32768 --parallel 4 --threads 2 --threads-batch 4 --cache-ram 0 --port 8080"


def sample_plan() -> Plan:
    """A bare small host that gets a model, and a big one whose model grows its context."""
    small = (
        change(),
        change(
            id="small-1/2",
            phase="fetch",
            step="image",
            subject="image",
            summary=f"{IMAGE}   from m.daocloud.io · 86 MB to pull · sha256:ab12cd…",
            operations=(pull(),),
            revert=None,
        ),
        change(
            id="small-1/3",
            phase="fetch",
            step="weights",
            subject="weights",
            summary="MiniCPM5-1B-F16.gguf   2.2 GB · sha256:9f0c…",
            operations=(fetch(),),
        ),
        change(
            id="small-1/4",
            phase="replace",
            step="container",
            subject="minicpm5-1b",
            summary="llama on 127.0.0.1:8080",
            operations=(
                record("small-1", {"rag_minicpm5-1b_0": instance("minicpm5-1b", port=8080)}),
                Put(id="put", deadline_s=10, path="/etc/x", mode="0600", content="text"),
                Engine(id="start", deadline_s=30, request=StartContainer(container="rag_minicpm5-1b_0")),
                wait("rag_minicpm5-1b_0", 8080),
            ),
        ),
    )
    grown = change(
        id="genoa-1/1",
        phase="replace",
        step="container",
        subject="qwen3",
        action="update",
        why="the manifest asks for it",
        summary="stop first (both need 41 of 36 GiB free)",
        diff=(
            FieldDiff(field="context", before="8192", after="16384", why="inventory.yaml:12"),
            FieldDiff(field="command", before=COMMAND, after=COMMAND.replace("32768", "65536")),
        ),
        operations=(wait("rag_qwen3_0", 8100),),
        gap_s=20,
    )
    return plan_of(
        host_plan("small-1", *small, allocations=(allocation(),)),
        host_plan(
            "genoa-1",
            grown,
            headline="Ubuntu 24.04 · 16 cores, 32 threads · AVX-512",
            allocations=(allocation(model="qwen3", host="genoa-1", context=16384),),
            retained=("docker", "image", "weights"),
            warnings=("clock is 90 s behind",),
        ),
    )


def sample_facts(**kw: Any) -> f.Facts:
    cores = (f.Core(cpus=(0, 2), socket=0, node=0), f.Core(cpus=(1, 3), socket=0, node=0))
    mark = f.Mark(schema=1, deployment="rag", model="minicpm5-1b", instance=0, release="0007-1a2b3c4d")
    base: dict[str, Any] = {
        "host": "small-1",
        "os": f.Os(
            id="debian",
            version="12",
            codename="bookworm",
            name="Debian GNU/Linux 12 (bookworm)",
            kernel="6.1.0-28-amd64",
            arch="amd64",
            page_size=4096,
        ),
        "cpu": f.Cpu(
            model="AMD EPYC 9354",
            flags=("fpu", "sse4_2", "avx", "avx2"),
            online=8,
            sockets=1,
            usable=tuple(cpu for core in cores for cpu in core.cpus),
            cores=cores,
            quota=1.5,
        ),
        "memory": f.Memory(
            total=8 * GIB,
            available=6 * GIB,
            machine=16 * GIB,
            limit=8 * GIB,
            swap=0,
            nodes=(f.Node(id=0, memory=16 * GIB),),
        ),
        "root": "sudo",
        "clock": 1_760_000_000,
        "addresses": ("10.20.2.11",),
        "routes": ("10.20.2.0/24",),
        "ports": (f.Listening(address="0.0.0.0", port=22),),
        "selinux": "",
        "engine": f.Engine(state="running", version="20.10.24", api_version="1.41", root="/var/lib/docker"),
        "containers": {
            "rag_minicpm5-1b_0": container(mark=mark),
            "postgres": container(image="postgres:16", memory=0, cpuset=""),
        },
        "weights": f.Weights(
            blobs={"9f0c" * 16: f.Blob(size=2_200_000_000, inode=7, verified=True)},
            partial={"ab12" * 16: 500_000_000},
            trees={"t1": {"MiniCPM5-1B-F16.gguf": 7}},
        ),
        "disks": {
            "/var/lib/docker": f.Disk(mount="/", total=100 * GIB, free=42 * GIB),
            "/data": Unknown(unknown="df: permission denied"),
        },
        "releases": {"rag": {"0007": {"id": "0007", "secret_marks": {"/s/key": "scrypt-of-the-key"}}}},
        "probe_s": 0.4,
    }
    return f.Facts(**(base | kw))


def container(**kw: Any) -> f.Container:
    base: dict[str, Any] = {
        "id": "c1",
        "mark": None,
        "image": IMAGE,
        "image_id": "sha256:" + "cd" * 32,
        "status": "running",
        "running": True,
        "exit_code": 0,
        "oom_killed": False,
        "restarts": 0,
        "restart_policy": "unless-stopped",
        "started_at": "2026-01-05T10:00:00Z",
        "cpuset": "0-3",
        "quota": 0.0,
        "memory": int(3.5 * GIB),
        "memory_swap": int(3.5 * GIB),
        "publish": (f.Publish(address="127.0.0.1", port=8080, container_port=8080),),
        "networks": {},
    }
    return f.Container(**(base | kw))


def failure(**kw: Any) -> Failure:
    base: dict[str, Any] = {
        "what": "stopped with SIGILL 3 s after start",
        "cause": "this image needs AVX-512; the CPU has AVX2 only",
        "do": "use vllm/vllm-openai-cpu:v0.17.0 or newer, or backend llama",
        "log": ("INFO loading", "Illegal instruction (core dumped)"),
        "exit_code": 132,
        "restarts": 2,
        "serving": "the old version serves again",
    }
    return Failure(**(base | kw))


def sample_outcome(hosts: dict[str, HostOutcome] | None = None) -> Outcome:
    """small-1 came up; genoa-1 went back to its old version."""
    small = tuple(
        ChangeOutcome(change=c.id, subject=c.subject, status="done", seconds=12.0)
        for c in sample_plan().hosts["small-1"].changes
    )
    failed = ChangeOutcome(
        change="genoa-1/1", subject="qwen3", status="reverted", seconds=40.0, failure=failure()
    )
    told = hosts or {
        "small-1": HostOutcome(host="small-1", status="done", changes=small, seconds=48.0),
        "genoa-1": HostOutcome(host="genoa-1", status="reverted", changes=(failed,), seconds=40.0),
    }
    return Outcome(deployment="rag", plan=sample_plan().id, hosts=told, seconds=51.0)
