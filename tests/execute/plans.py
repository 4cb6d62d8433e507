"""Plans for the tests: small, and of the shapes the product makes."""

from __future__ import annotations

from typing import Any

from cpudeploy.types import operation as op
from cpudeploy.types.base import SecretRef
from cpudeploy.types.deployment import Host, Ssh
from cpudeploy.types.plan import Change, Fingerprint, HostPlan, Plan
from cpudeploy.types.release import Check, ContainerSpec, Gate
from cpudeploy.types.resolved import WeightFile

OLD, NEW = "0001-old", "0002-new"
NAME, KEPT = "rag_qwen_0", "rag_qwen_0_old"
GATE = Gate(port=8080, stable_s=0, deadline_s=10, checks=(Check(name="ready", path="/health"),))


def engine(id: str, request: op.EngineRequest) -> op.Engine:
    return op.Engine(id=id, deadline_s=60, request=request)


def plan_of(**changes: list[Change]) -> Plan:
    """Host name → its changes."""
    hosts = {
        name: HostPlan(host=Host(name=name, ssh=Ssh(address=name)), headline="", changes=tuple(listed))
        for name, listed in changes.items()
    }
    return Plan(deployment="rag", base="/", origin="ops@desk:/rag", hosts=hosts)


def change(id: str, phase: Any, operations: list[op.Operation], **fields: Any) -> Change:
    defaults: dict[str, Any] = {
        "step": "container",
        "subject": id,
        "action": "create",
        "why": "",
        "summary": "",
        "before": Fingerprint(),
        "after": Fingerprint(),
    }
    return Change(id=id, phase=phase, operations=tuple(operations), **{**defaults, **fields})


def fetch_file(sha: str) -> Change:
    """A weights file that is not there yet."""
    file = WeightFile(name="m.gguf", size=10, sha256=sha, urls=("http://hub/m.gguf",))
    pointer = f"/weights/blobs/{sha}/verified"
    return change(
        f"fetch-{sha}",
        "fetch",
        [op.Fetch(id=f"fetch-{sha}.1", deadline_s=60, weights_dir="/w", file=file)],
        before=Fingerprint(equals={pointer: None}),
        after=Fingerprint(equals={pointer: True}),
    )


def write_file(path: str, phase: str = "provision") -> Change:
    """A file that is not there yet."""
    pointer = f"/files/{path.replace('/', '~1')}/size"
    return change(
        path,
        phase,
        [op.Put(id=f"{path}.1", deadline_s=10, path=path, mode="0644", content="12345")],
        before=Fingerprint(equals={pointer: None}),
        after=Fingerprint(equals={pointer: 5}),
    )


def labels(release: str) -> dict[str, str]:
    return {"io.cpudeploy.deployment": "rag", "io.cpudeploy.release": release}


def replace(*, revert: bool = True) -> Change:
    """A running container of OLD replaced by one of NEW, stop first."""
    spec = ContainerSpec(image="img@sha256:1", command=(), cpuset="0", memory=2**30)
    running, mark = f"/containers/{NAME}/running", f"/containers/{NAME}/mark/release"
    policy = f"/containers/{NAME}/restart_policy"
    key = SecretRef(kind="from_env", name="KEY")
    operations: list[op.Operation] = [
        op.Record(
            id="record",
            deadline_s=10,
            deployment="rag",
            release=NEW,
            host="h1",
            origin="",
            weights_dir="/w",
            instances={},
        ),
        op.Put(id="put", deadline_s=10, path="/key", mode="0600", content=key),
        engine("stop", op.StopContainer(container=NAME, grace_s=10)),
        engine("keep", op.RenameContainer(container=NAME, to=KEPT)),
        engine("create", op.CreateContainer(container=NAME, references=(), spec=spec, labels=labels(NEW))),
        engine("start", op.StartContainer(container=NAME)),
        op.Wait(id="wait", deadline_s=20, container=NAME, address="127.0.0.1", port=8080, gate=GATE),
        engine("policy", op.RestartPolicy(container=NAME, policy="unless-stopped")),
        engine("remove", op.RemoveContainer(container=KEPT)),
    ]
    back: tuple[op.Operation, ...] = (
        engine("undo.remove", op.RemoveContainer(container=NAME, release=NEW)),
        engine("undo.rename", op.RenameContainer(container=KEPT, to=NAME)),
        engine("undo.start", op.StartContainer(container=NAME)),
    )
    return change(
        "qwen",
        "replace",
        operations,
        action="update",
        subject="qwen",
        before=Fingerprint(equals={running: True, mark: OLD}),
        after=Fingerprint(
            equals={running: True, mark: NEW, policy: "unless-stopped", f"/containers/{KEPT}": None}
        ),
        revert=back if revert else None,
    )
