"""What can be done to a host, as data. `steps/` writes operations, only `execute/` interprets them.

Tagged JSON: `{"op": …, "id": …, "deadline_s": …}`; engine requests are tagged again by `call`.
Objects are named by name, never by an earlier result, so that a plan can be read back and resumed.
Every operation is safe to repeat: done already is done. Secrets appear as references only.
"""

from __future__ import annotations

from typing import Any, Literal

from .base import SecretRef, Struct
from .release import Check, ContainerSpec, Diagnosis, Gate, Instance, SecretFile
from .resolved import Place, WeightFile
from .shared import SharedKey


class PullImage(Struct, frozen=True, kw_only=True, tag="pull", tag_field="call"):
    """Pull from the first place that has it; `size` (bytes) is for progress. The digest is in each place."""

    places: tuple[Place, ...]
    platform: str
    size: int


class CreateContainer(Struct, frozen=True, kw_only=True, tag="create", tag_field="call"):
    """Create (not start) on the first of the spec's networks, then connect the others; inspect must agree.

    The restart policy is `no` until the gate has passed. `references` are the names the image may have
    been pulled under; the first that the engine holds is used.
    """

    container: str
    references: tuple[str, ...]
    spec: ContainerSpec
    labels: dict[str, str]


class StartContainer(Struct, frozen=True, kw_only=True, tag="start", tag_field="call"):
    container: str


class StopContainer(Struct, frozen=True, kw_only=True, tag="stop", tag_field="call"):
    """Stop with a grace time, then kill. Absent or stopped is done."""

    container: str
    grace_s: int


class RenameContainer(Struct, frozen=True, kw_only=True, tag="rename", tag_field="call"):
    """Done when `container` is absent and `to` is there."""

    container: str
    to: str


class RemoveContainer(Struct, frozen=True, kw_only=True, tag="remove", tag_field="call"):
    """Stop and remove; absent is done. With `release`, only a container of that release: another one
    of the name is left alone and that is done too, so a revert can't remove what it should bring back.
    """

    container: str
    release: str = ""


class RestartPolicy(Struct, frozen=True, kw_only=True, tag="restart_policy", tag_field="call"):
    container: str
    policy: str


class CreateNetwork(Struct, frozen=True, kw_only=True, tag="network_create", tag_field="call"):
    network: str
    subnet: str
    internal: bool
    labels: dict[str, str]


class ConnectNetwork(Struct, frozen=True, kw_only=True, tag="network_connect", tag_field="call"):
    network: str
    container: str


class DisconnectNetwork(Struct, frozen=True, kw_only=True, tag="network_disconnect", tag_field="call"):
    network: str
    container: str


class RemoveNetwork(Struct, frozen=True, kw_only=True, tag="network_remove", tag_field="call"):
    network: str


class RemoveVolume(Struct, frozen=True, kw_only=True, tag="volume_remove", tag_field="call"):
    """Remove a volume with our label; absent is done. `unmarked`: one without any deployment's label goes,
    too, as a container of ours was seen to mount it."""

    volume: str
    unmarked: bool = False


class RemoveImage(Struct, frozen=True, kw_only=True, tag="image_remove", tag_field="call"):
    reference: str


EngineRequest = (
    PullImage
    | CreateContainer
    | StartContainer
    | StopContainer
    | RenameContainer
    | RemoveContainer
    | RestartPolicy
    | CreateNetwork
    | ConnectNetwork
    | DisconnectNetwork
    | RemoveNetwork
    | RemoveVolume
    | RemoveImage
)


class Engine(Struct, frozen=True, kw_only=True, tag="engine", tag_field="op"):
    """One request to the container engine's API."""

    id: str
    deadline_s: int
    request: EngineRequest


class Script(Struct, frozen=True, kw_only=True, tag="script", tag_field="op"):
    """A named shell script of ours, run as root with `args` as quoted assignments before its text.

    `text` is resolved when the plan is made; `sha256` is of the text. Output lines are log events.
    """

    id: str
    deadline_s: int
    script: str
    args: dict[str, str]
    text: str
    sha256: str


class Put(Struct, frozen=True, kw_only=True, tag="put", tag_field="op"):
    """A small file (≤ 1 MiB), written aside and moved into place. `content`: text or a secret."""

    id: str
    deadline_s: int
    path: str
    mode: str
    owner: str = "root"
    content: str | SecretRef


class KeepJson(Struct, frozen=True, kw_only=True, tag="keep_json", tag_field="op"):
    """Keep aside what a JSON file that is not ours is, before it is edited: in `STATE_DIR/kept/<kept>/`,
    0600, so that a script can put it back without us. Its text never leaves the host and us.

    `was`: the file itself, not there where it is absent. Two ways to it, for a program that does not forget
    by reading: `restarted`, with the members it must have while it restarts; `reloaded`, with a neutral value
    for each it lacks. Every edit adds to `wrote` what it is about to write (sha256): only such a file is
    put back. `token`: which edit it is for. `expected_sha256`: what the file must be (empty: absent), unless
    this edit is under way already; else the plan is stale.
    """

    id: str
    deadline_s: int
    path: str
    kept: str
    token: str
    expected_sha256: str
    restarted: dict[str, Any] = {}
    reloaded: dict[str, Any] = {}


class MergeJson(Struct, frozen=True, kw_only=True, tag="merge_json", tag_field="op"):
    """Change one list of words in a JSON file that is not ours: what else it holds, its mode and its owner
    stay; a symlink is followed; an absent file is made, 0644. Its text never leaves the host and us.

    `key`: the member of the file's object that is the list. `kept`: the folder of its `keep_json`.
    `tidy`: what goes when nothing is left in it: the `list`, or with it the `file`.
    """

    id: str
    deadline_s: int
    path: str
    kept: str = ""
    key: str
    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    tidy: Literal["nothing", "list", "file"] = "nothing"


class AssignJson(Struct, frozen=True, kw_only=True, tag="assign_json", tag_field="op"):
    """Set members of a JSON file as `merge_json` edits one, or give them up; `host.json` knows whose they
    are.

    `values`: set, and claimed for the deployment; what was there before the first claim is kept on the host.
    Fails where another deployment claims another value. `release`: no longer claimed; where nobody else
    does and the value still is ours, what was before comes back.
    `neutral`: what a member that was not there gets for a while, with `meanwhile`, so that a program that
    only reloads takes notice; the claims stay until the same is done without.
    """

    id: str
    deadline_s: int
    path: str
    kept: str = ""
    deployment: str
    values: dict[str, Any] = {}
    release: tuple[str, ...] = ()
    neutral: dict[str, Any] = {}
    meanwhile: bool = False


class Claim(Struct, frozen=True, kw_only=True, tag="claim", tag_field="op"):
    """Note in `host.json` whose the shared `keys` are from now on. Claims of others are kept, and so is
    what was before the first of them."""

    id: str
    deadline_s: int
    keys: dict[str, SharedKey]


class Disclaim(Struct, frozen=True, kw_only=True, tag="disclaim", tag_field="op"):
    """Take a deployment's claims on shared keys out of `host.json`; a record of nothing is removed."""

    id: str
    deadline_s: int
    deployment: str
    keys: tuple[str, ...]


class Fetch(Struct, frozen=True, kw_only=True, tag="fetch", tag_field="op"):
    """One weights file into `<weights>/blobs/<sha256>`: resumed, hashed while it downloads, then recorded.

    `via`: auto (the host's curl, and where that reaches nothing through the controller), host, controller.
    `stall_s`: give up a source when nothing arrived for so long.
    """

    id: str
    deadline_s: int
    weights_dir: str
    file: WeightFile
    via: str = "auto"
    stall_s: int = 60


class Wait(Struct, frozen=True, kw_only=True, tag="wait", tag_field="op"):
    """A container's health gate: stable, then every check. Fails at once when the container exits.

    Through its published `address:port`; where that can't be reached, from inside the container.
    """

    id: str
    deadline_s: int
    container: str
    address: str
    port: int
    gate: Gate
    api_key: SecretRef | None = None
    diagnose: tuple[Diagnosis, ...] = ()


class Drain(Struct, frozen=True, kw_only=True, tag="drain", tag_field="op"):
    """Wait for a moment in which a container answers nobody, for `deadline_s` at most; then go on anyway.

    `busy`: the request that passes while the engine is at work. None: nobody can tell, nothing is waited for.
    """

    id: str
    deadline_s: int
    container: str
    address: str
    port: int
    busy: Check | None
    api_key: SecretRef | None = None


class GuardArm(Struct, frozen=True, kw_only=True, tag="guard_arm", tag_field="op"):
    """Arm a way back on the host: `revert` runs there, as root and without us, unless it is committed or
    renewed for `after_s`. Whoever holds the lease renews it. Armed anew it begins anew.

    `revert` is idempotent and looks first whether there is anything to put back.
    """

    id: str
    deadline_s: int
    guard: str
    after_s: int
    revert: Script


class GuardCommit(Struct, frozen=True, kw_only=True, tag="guard_commit", tag_field="op"):
    """Take the way back away: what it guarded is as it should be. Fails when it ran already, so that nobody
    builds on what was put back; with `lenient` (in a revert) that is done too.

    `fresh`: say so over a connection made for it: proof that the host can still be reached.
    """

    id: str
    deadline_s: int
    guard: str
    fresh: bool = False
    lenient: bool = False


class Record(Struct, frozen=True, kw_only=True, tag="record", tag_field="op"):
    """Write a release (or extend the one of this apply) under the state folder, 0600, before create.

    `instances`: container name → spec, every instance the deployment has on the host after this apply.
    Secret marks (salted scrypt) are computed by the executor from the values it resolves. Also writes
    `<weights>/refs/<deployment>.<release>`, the trees this release uses.
    """

    id: str
    deadline_s: int
    deployment: str
    release: str
    host: str
    origin: str
    weights_dir: str
    by: str = ""
    instances: dict[str, Instance]
    proven: tuple[str, ...] = ()
    """Names of instances that have passed their gate before and are not replaced by this apply."""


class Prove(Struct, frozen=True, kw_only=True, tag="prove", tag_field="op"):
    """Note in the release file that a container of it has passed its gate, and lift the hold on just that."""

    id: str
    deadline_s: int
    deployment: str
    release: str
    container: str


class HoldBack(Struct, frozen=True, kw_only=True, tag="hold", tag_field="op"):
    """Write down that what was `wanted` of a container failed its gate: `<deployment>/held/<container>.json`,
    a `types.safety.Hold`. What failed, why and what to do are filled in when it happens.

    `secrets`: of the wanted spec; their marks are kept, so that another key is another try.
    """

    id: str
    deadline_s: int
    deployment: str
    container: str
    release: str
    wanted: str
    secrets: tuple[SecretFile, ...] = ()
    what: str = ""
    cause: str = ""
    do: str = ""


Operation = (
    Engine
    | Script
    | Put
    | KeepJson
    | MergeJson
    | AssignJson
    | Claim
    | Disclaim
    | Fetch
    | Wait
    | Drain
    | GuardArm
    | GuardCommit
    | Record
    | Prove
    | HoldBack
)
