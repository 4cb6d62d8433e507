"""An operation of a plan in one line, for `plan -v`. Data in, text out; shows references of secrets only."""

from __future__ import annotations

from ..types import operation as op
from ..types.base import SecretRef
from ..types.shared import setting_text
from .numbers import data_size, duration


def operation_text(operation: op.Operation) -> str:
    """What `operation` does to the host, with its deadline."""
    return f"{_what(operation)} · at most {duration(operation.deadline_s)}"


def _what(operation: op.Operation) -> str:
    match operation:
        case op.Engine():
            return f"engine {_request(operation.request)}"
        case op.Script():
            args = "".join(f" {name}={value}" for name, value in operation.args.items())
            return f"script {operation.script}{args} · sha256 {operation.sha256[:12]}"
        case op.Put():
            secret = operation.content if isinstance(operation.content, SecretRef) else None
            what = f"secret {secret}" if secret else data_size(len(str(operation.content).encode()))
            return f"put {operation.path} {operation.mode} {operation.owner} · {what}"
        case op.KeepJson():
            return f"keep what {operation.path} is"
        case op.AssignJson():
            wanted = [f"{key}={setting_text(value)}" for key, value in operation.values.items()]
            gone = [f"-{key}" for key in operation.release]
            rest = " · neutral first" if operation.meanwhile else ""
            return f"edit {operation.path} {' '.join((*wanted, *gone))}{rest}"
        case op.MergeJson():
            words = [f"+{word}" for word in operation.add] + [f"-{word}" for word in operation.remove]
            rest = "" if operation.tidy == "nothing" else f" · an empty {operation.tidy} goes"
            return f"edit {operation.key} in {operation.path} {' '.join(words)}".rstrip() + rest
        case op.Claim():
            return f"claim {', '.join(operation.keys)}"
        case op.Disclaim():
            return f"give up {', '.join(operation.keys)}"
        case op.Fetch():
            file = operation.file
            return (
                f"fetch {file.name} {data_size(file.size)} · sha256 {file.sha256[:12]} · via {operation.via}"
            )
        case op.Wait():
            checks = ", ".join(check.name for check in operation.gate.checks)
            place = f"{operation.address}:{operation.port}"
            return f"wait for {operation.container} at {place} · {checks} · longer for more bytes to load"
        case op.Drain():
            return f"wait for a quiet moment of {operation.container}"
        case op.Prove():
            return f"note in release {operation.release} that {operation.container} serves"
        case op.HoldBack():
            return f"hold {operation.wanted[:12]} of {operation.container}"
        case op.GuardArm():
            after = duration(operation.after_s)
            return f"guard {operation.guard}: {operation.revert.script} after {after} unless committed"
        case op.GuardCommit():
            return f"guard {operation.guard}: commit"
        case op.Record():
            return f"record release {operation.release} · {', '.join(operation.instances)}"


def _request(request: op.EngineRequest) -> str:
    match request:
        case op.PullImage():
            places = ", then ".join(place.reference for place in request.places)
            return f"pull {places} · {request.platform} · {data_size(request.size)}"
        case op.CreateContainer():
            return f"create {request.container} from {request.spec.image}"
        case op.StartContainer():
            return f"start {request.container}"
        case op.StopContainer():
            return f"stop {request.container}, killed after {duration(request.grace_s)}"
        case op.RenameContainer():
            return f"rename {request.container} to {request.to}"
        case op.RemoveContainer():
            return f"remove {request.container}"
        case op.RestartPolicy():
            return f"restart policy of {request.container}: {request.policy}"
        case op.CreateNetwork():
            inside = ", internal" if request.internal else ""
            return f"create network {request.network} {request.subnet}{inside}"
        case op.ConnectNetwork():
            return f"connect {request.container} to network {request.network}"
        case op.DisconnectNetwork():
            return f"disconnect {request.container} from network {request.network}"
        case op.RemoveNetwork():
            return f"remove network {request.network}"
        case op.RemoveVolume():
            return f"remove volume {request.volume}"
        case op.RemoveImage():
            return f"remove image {request.reference}"
