"""Operations as a few words for people: what is being done, while it is being done. Pure."""

from __future__ import annotations

from ..types import operation as op


def describe(operation: op.Operation) -> str:
    """One short clause without a host's name, e.g. `stop rag_qwen_0`."""
    match operation:
        case op.Engine(request=request):
            return _request(request)
        case op.Script(script=script):
            return f"run {script}"
        case op.Put(path=path):
            return f"write {path}"
        case op.KeepJson(path=path):
            return f"keep what {path} is"
        case op.AssignJson(path=path, values=values, release=release):
            return f"edit {', '.join((*values, *release))} in {path}"
        case op.MergeJson(path=path, key=key):
            return f"edit {key} in {path}"
        case op.Claim(keys=keys):
            return f"claim {', '.join(keys)}"
        case op.Disclaim(keys=names):
            return f"give up {', '.join(names)}"
        case op.Fetch(file=file):
            return f"fetch {file.name}"
        case op.Wait(container=container):
            return f"wait until {container} serves"
        case op.Drain(container=container):
            return f"wait for a quiet moment of {container}"
        case op.Prove(container=container):
            return f"note that {container} serves"
        case op.HoldBack(container=container):
            return f"hold what {container} should have become"
        case op.GuardArm(guard=guard):
            return f"arm guard {guard}"
        case op.GuardCommit(guard=guard):
            return f"commit guard {guard}"
        case op.Record(release=release):
            return f"record release {release}"


def _request(request: op.EngineRequest) -> str:
    match request:
        case op.PullImage(places=places):
            return f"pull {places[0].reference.partition('@')[0]}" if places else "pull"
        case op.CreateContainer(container=container):
            return f"create {container}"
        case op.StartContainer(container=container):
            return f"start {container}"
        case op.StopContainer(container=container):
            return f"stop {container}"
        case op.RenameContainer(container=container, to=to):
            return f"rename {container} to {to}"
        case op.RemoveContainer(container=container):
            return f"remove {container}"
        case op.RestartPolicy(container=container, policy=policy):
            return f"restart policy of {container}: {policy}"
        case op.CreateNetwork(network=network):
            return f"create network {network}"
        case op.ConnectNetwork(network=network, container=container):
            return f"connect {container} to {network}"
        case op.DisconnectNetwork(network=network, container=container):
            return f"disconnect {container} from {network}"
        case op.RemoveNetwork(network=network):
            return f"remove network {network}"
        case op.RemoveVolume(volume=volume):
            return f"remove volume {volume}"
        case op.RemoveImage(reference=reference):
            return f"remove image {reference}"
