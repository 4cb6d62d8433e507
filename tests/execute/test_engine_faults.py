"""An engine that trickles, falls silent or breaks off: what an operation makes of it, and when it ends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cpudeploy.errors import ConnectionLost, EngineError, OperationFailed, RegistryError
from cpudeploy.execute import EngineClient, HostTarget
from cpudeploy.execute.deadline import Due
from cpudeploy.execute.failure import GateDisturbed, ModelNotServing
from cpudeploy.execute.pull import pull_image
from cpudeploy.secrets import Secrets
from cpudeploy.types import event as ev
from cpudeploy.types import operation as op
from cpudeploy.types.plan import Plan
from cpudeploy.types.release import Check, Gate
from cpudeploy.types.resolved import Place
from tests.execute.engine_server import EngineServer, Here, Request, engine_serving

NAME = "rag_tiny_0"
VOLUME = "rag_tiny_cache"
PLAN = Plan(deployment="rag", base="/", origin="", hosts={})
PLACE = Place(reference="reg:5000/a/b@sha256:1", digest="sha256:1", registry="reg:5000")


class Bench:
    def __init__(self, server: EngineServer, folder: Path) -> None:
        self.server = server
        here = Here(Secrets(folder), server.port)
        self.target = HostTarget(here, plan=PLAN, secrets=Secrets(folder))
        self.client = EngineClient(here.dial_engine)
        self.events: list[ev.Event] = []

    def do(self, operation: op.Operation) -> None:
        self.target.perform(operation, self.events.append)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with engine_serving() as server:
        bench = Bench(server, tmp_path)
        yield bench
        bench.client.close()
        bench.target.close()


def container(**fields: Any) -> dict[str, Any]:
    """What inspect shows of a running container that publishes nothing."""
    return {
        "Name": f"/{NAME}",
        "Config": {"Labels": {"io.cpudeploy.deployment": "rag"}},
        "HostConfig": {"PortBindings": {}},
        "State": {"Status": "running", "Running": True, "ExitCode": 0},
        "NetworkSettings": {"Ports": {}, "Networks": {}},
        **fields,
    }


def pulling(deadline_s: int) -> op.Engine:
    request = op.PullImage(places=(PLACE,), platform="linux/amd64", size=1000)
    return op.Engine(id="pull", deadline_s=deadline_s, request=request)


def gate(*checks: Check, deadline_s: int = 1, gate_s: int = 600, stable_s: int = 0) -> op.Wait:
    return op.Wait(
        id="gate",
        deadline_s=deadline_s,
        container=NAME,
        address="127.0.0.1",
        port=1,
        gate=Gate(port=1, stable_s=stable_s, deadline_s=gate_s, checks=checks),
    )


def removing(**fields: Any) -> op.Engine:
    return op.Engine(id="v", deadline_s=20, request=op.RemoveVolume(volume=VOLUME, **fields))


class Volumes:
    """The engine's share of one volume: `users` mount it; `gone` once it was removed."""

    def __init__(self, bench: Bench, labels: dict[str, str] | None, *users: str) -> None:
        self.gone = False
        self._labels = labels
        self._users = users
        bench.server.answers |= {VOLUME: self._one, "json": self._containers}

    def _one(self, request: Request) -> None:
        if self.gone:
            request.json({"message": f"get {VOLUME}: no such volume"}, 404)
        elif request.method == "GET":
            request.json({"Name": VOLUME, "Labels": self._labels})
        elif self._users:
            request.json({"message": f"remove {VOLUME}: volume is in use - [4e1f]"}, 409)
        else:
            self.gone = True
            request.json({}, 204)

    def _containers(self, request: Request) -> None:
        request.json([{"Id": "4e1f", "Names": [f"/{name}"]} for name in self._users])


def test_a_volume_of_ours_is_removed_and_removing_it_again_is_done(bench: Bench) -> None:
    volume = Volumes(bench, {"io.cpudeploy.deployment": "rag"})
    bench.do(removing())
    assert volume.gone
    bench.do(removing())


@pytest.mark.parametrize("unmarked", [False, True])
@pytest.mark.parametrize("labels", [None, {}, {"io.cpudeploy.deployment": "other"}])
def test_a_volume_that_is_not_ours_by_now_is_left_alone(
    bench: Bench, labels: dict[str, str] | None, unmarked: bool
) -> None:
    volume = Volumes(bench, labels)
    if unmarked and not labels:
        bench.do(removing(unmarked=True))
        assert volume.gone
        return
    with pytest.raises(EngineError, match=f"volume {VOLUME} is not of deployment rag; it is left alone"):
        bench.do(removing(unmarked=unmarked))
    assert not volume.gone


def test_a_volume_in_use_is_the_trouble_of_whom_it_names(bench: Bench) -> None:
    Volumes(bench, {"io.cpudeploy.deployment": "rag"}, "backup", "shell")
    with pytest.raises(OperationFailed, match=f"volume {VOLUME} is in use by backup, shell") as caught:
        bench.do(removing())
    assert "docker rm" in caught.value.do


def one_byte_more(number: int) -> bytes:
    detail = {"current": number, "total": 10**9}
    return json.dumps({"id": "a", "status": "Downloading", "progressDetail": detail}).encode() + b"\n"


def test_a_pull_that_trickles_ends_at_its_deadline(bench: Bench) -> None:
    bench.server.answers["create"] = lambda request: request.trickle(one_byte_more)
    with pytest.raises(OperationFailed, match=r"pull reg:5000/a/b: not done in 1 s"):
        bench.do(pulling(1))


def test_a_request_that_trickles_ends_at_its_deadline_too(bench: Bench) -> None:
    bench.server.answers["json"] = lambda request: request.trickle(lambda _: b" ")
    start = op.Engine(id="start", deadline_s=1, request=op.StartContainer(container=NAME))
    with pytest.raises(OperationFailed, match=f"start {NAME}: not done in 1 s"):
        bench.do(start)


@pytest.mark.parametrize("when", ["before", "in the middle"])
def test_a_host_that_was_let_go_is_told_as_lost_and_not_as_a_bug(bench: Bench, when: str) -> None:
    """Who asks twice to stop closes it, while whatever was under way is still at it."""

    def let_go(request: Request) -> None:
        bench.target.close()
        request.json(container())

    bench.server.answers["json"] = let_go
    if when == "before":
        bench.target.close()
    for request in (op.StartContainer(container=NAME), op.RemoveContainer(container=NAME)):
        with pytest.raises(ConnectionLost, match="let go"):
            bench.do(op.Engine(id="x", deadline_s=20, request=request))


def test_the_next_operation_has_a_deadline_of_its_own(bench: Bench) -> None:
    bench.server.answers["create"] = lambda request: request.trickle(one_byte_more)
    with pytest.raises(OperationFailed):
        bench.do(pulling(1))
    remove = op.Engine(id="x", deadline_s=60, request=op.RemoveContainer(container=NAME))
    bench.do(remove)


def test_a_silent_pull_is_tried_again_and_told(bench: Bench) -> None:
    bench.server.answers["create"] = Request.silence
    notes: list[str] = []
    request = op.PullImage(places=(PLACE,), platform="linux/amd64", size=1000)
    with pytest.raises(RegistryError, match="nothing arrived"):
        pull_image(bench.client, request, lambda _: None, lambda *_: None, notes.append, stall_s=0.2)
    assert sum("trying again" in note for note in notes) == 2


@pytest.mark.parametrize("fault", [Request.cut, Request.silence])
def test_logs_that_break_off_are_the_engines_error(bench: Bench, fault: Any) -> None:
    bench.server.answers["logs"] = fault
    error = EngineError if fault is Request.cut else OperationFailed
    with pytest.raises(error), bench.client.within(Due("read", 1)):
        list(bench.client.logs(NAME, tail=1))


def test_a_gate_goes_on_when_the_engine_hiccups(bench: Bench) -> None:
    """Neither a broken log nor one broken inspect says that the model does not serve."""
    inspects = iter([Request.cut])

    def inspect(request: Request) -> None:
        next(inspects, lambda req: req.json(container()))(request)

    bench.server.answers = {"json": inspect, "logs": Request.cut}
    bench.do(gate(stable_s=1, deadline_s=60))


def test_what_went_down_with_its_engine_is_no_verdict_on_the_model(bench: Bench) -> None:
    down = container(State={"Status": "exited", "Running": False, "ExitCode": 0})
    inspects = iter([lambda req: req.json(container()), Request.cut])
    bench.server.answers = {
        "json": lambda request: next(inspects, lambda req: req.json(down))(request),
        "logs": Request.cut,
    }
    with pytest.raises(GateDisturbed, match="exit code 0.*the engine itself went down") as error:
        bench.do(gate(stable_s=1, deadline_s=60))
    assert error.value.do == "apply again"
    with pytest.raises(ModelNotServing, match=r"stopped by itself \(exit code 0\)"):
        bench.do(gate(stable_s=1, deadline_s=60))


def test_a_container_that_somebody_removed_is_no_verdict_either(bench: Bench) -> None:
    inspects = iter([lambda req: req.json(container())])
    gone = {"message": f"No such container: {NAME}"}
    bench.server.answers = {
        "json": lambda request: next(inspects, lambda req: req.json(gone, 404))(request),
        "logs": Request.cut,
    }
    with pytest.raises(GateDisturbed, match=f"{NAME} is gone: something else removed it"):
        bench.do(gate(stable_s=1, deadline_s=60))


def test_a_gate_ends_at_the_deadline_of_its_operation_with_the_log(bench: Bench) -> None:
    line = b"loading still\n"
    frame = b"\x01\0\0\0" + len(line).to_bytes(4, "big") + line

    bench.server.answers = {
        "json": lambda request: request.json(container()),
        "logs": lambda request: request.raw(frame),
    }
    with pytest.raises(ModelNotServing, match="does not serve after 1 s") as error:
        bench.do(gate(Check(name="ready", path="/health")))
    assert error.value.failure.log == ("loading still",)


def test_a_model_that_only_trickles_does_not_serve(bench: Bench) -> None:
    port = bench.server.port
    ports = {f"{port}/tcp": [{"HostIp": "127.0.0.1", "HostPort": str(port)}]}
    shown = container(NetworkSettings={"Ports": ports, "Networks": {}})
    bench.server.answers = {
        "json": lambda request: request.json(shown),
        "health": lambda request: request.trickle(lambda _: b" "),
    }
    wait = gate(Check(name="ready", path="/health"))
    wait = msgspec.structs.replace(wait, port=port, gate=msgspec.structs.replace(wait.gate, port=port))
    with pytest.raises(ModelNotServing, match=r"check ready \(GET /health\): the answer: not done in"):
        bench.do(wait)


@pytest.mark.parametrize(
    ("asked", "opened"),
    [
        ("lo", ["0.0.0.0", "::"]),
        ("127.0.0.1", ["0.0.0.0"]),
        ("0.0.0.0", ["0.0.0.0", "::"]),
        ("10.0.0.1", ["10.0.0.2"]),
    ],
)
def test_a_port_that_is_open_elsewhere_is_an_error_and_is_closed_again(
    bench: Bench, asked: str, opened: list[str]
) -> None:
    stopped: list[bool] = []
    bench.server.answers = {
        "start": lambda request: request.json({}, 204),
        "stop": lambda request: (stopped.append(True), request.json({}, 204))[1],
        "json": lambda request: request.json(publishing(asked, opened)),
    }
    start = op.Engine(id="start", deadline_s=20, request=op.StartContainer(container=NAME))
    with pytest.raises(EngineError, match=f"{asked}:8100.*{opened[-1]}:8100"):
        bench.do(start)
    assert stopped


@pytest.mark.parametrize(
    ("asked", "opened"),
    [
        ("127.0.0.1", ["127.0.0.1"]),
        ("", ["0.0.0.0", "::"]),
        ("::", ["::"]),
        ("fd00:0::1", ["fd00::1"]),
        ("127.0.0.1", []),
    ],
)
def test_a_port_that_is_open_where_it_was_asked_for_is_none(
    bench: Bench, asked: str, opened: list[str]
) -> None:
    bench.server.answers = {
        "start": lambda request: request.json({}, 204),
        "json": lambda request: request.json(publishing(asked, opened)),
    }
    bench.do(op.Engine(id="start", deadline_s=20, request=op.StartContainer(container=NAME)))


def publishing(asked: str, opened: list[str]) -> dict[str, Any]:
    bindings = [{"HostIp": address, "HostPort": "8100"} for address in opened]
    return container(
        HostConfig={"PortBindings": {"8080/tcp": [{"HostIp": asked, "HostPort": "8100"}]}},
        NetworkSettings={"Ports": {"8080/tcp": bindings or None}, "Networks": {}},
    )


def test_a_port_that_opens_elsewhere_when_connected_is_closed_again(bench: Bench) -> None:
    """Engines take a host address that is none for every address."""
    asked = {"8080/tcp": [{"HostIp": "10.9.9.9", "HostPort": "8100"}]}
    opened = {"8080/tcp": [{"HostIp": "0.0.0.0", "HostPort": "8100"}]}
    networks: dict[str, Any] = {"rag_int": {}}
    calls: list[str] = []

    def inspect(request: Request) -> None:
        ports = opened if "rag_pub" in networks else {}
        settings = {"Ports": ports, "Networks": networks}
        request.json(container(HostConfig={"PortBindings": asked}, NetworkSettings=settings))

    def connect(request: Request) -> None:
        calls.append("connect")
        networks["rag_pub"] = {}
        request.json({})

    def disconnect(request: Request) -> None:
        calls.append("disconnect")
        networks.pop("rag_pub")
        request.json({})

    bench.server.answers.update(json=inspect, connect=connect, disconnect=disconnect)
    publish = op.ConnectNetwork(network="rag_pub", container=NAME)
    with pytest.raises(EngineError, match="published elsewhere"):
        bench.do(op.Engine(id="publish", deadline_s=10, request=publish))
    assert calls == ["connect", "disconnect"]
