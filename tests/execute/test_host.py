"""Operations done on real hosts with real engines, over SSH and sudo."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import httpx
import msgspec
import pytest

from cpudeploy.errors import CpudeployError, EngineError, OperationFailed, RegistryError
from cpudeploy.execute import EngineClient, HostTarget
from cpudeploy.execute.failure import ModelNotServing, ScriptFailed
from cpudeploy.probe import probe
from cpudeploy.secrets import Secrets, same
from cpudeploy.transport import Connection
from cpudeploy.types import event as ev
from cpudeploy.types import operation as op
from cpudeploy.types.base import SecretRef
from cpudeploy.types.facts import Publish
from cpudeploy.types.release import Check, ContainerSpec, Diagnosis, Gate, Instance, Mount, SecretFile
from cpudeploy.types.resolved import Place, WeightFile
from tests.execute.conftest import artifact, lab_plan, reach
from tests.execute.file_server import serving
from tests.execute.plans import engine as engine_op
from tests.lab import Lab
from tests.lab.lab import LLAMA_REPOSITORY

pytestmark = pytest.mark.lab

KEY = SecretRef(kind="from_file", name="key")
NAME = "rag_tiny_0"
MARKS = {"io.cpudeploy.deployment": "rag", "io.cpudeploy.release": "0001-a"}
CHAT = json.dumps({"model": "tiny", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 2})
CHECKS = (
    Check(name="ready", path="/health", auth=False),
    Check(name="listed", path="/v1/models", pointer="/data/*/id", equals="tiny"),
    Check(name="answers", method="POST", path="/v1/chat/completions", body=CHAT, pointer="/choices/0"),
)


@dataclass
class Bench:
    """A host under test and what it told."""

    connection: Connection
    target: HostTarget
    engine: EngineClient
    image: str
    events: list[ev.Event] = field(default_factory=list)

    def do(self, *operations: op.Operation) -> None:
        for operation in operations:
            self.target.perform(operation, self.events.append)

    def sh(self, script: str) -> str:
        done = self.connection.run(script, deadline_s=60)
        assert done.rc == 0, done.stderr
        return done.stdout.decode()

    @property
    def notes(self) -> str:
        return "\n".join(event.text for event in self.events if isinstance(event, ev.Note))


@pytest.fixture(scope="module")
def places(lab: Lab) -> dict[str, Place]:
    """The same image at both registries, and at one that has nothing."""
    sha = _digest(lab)
    return {
        kind: Place(
            reference=f"{registry}/{LLAMA_REPOSITORY.partition(':')[0]}@{sha}",
            digest=sha,
            registry=registry,
            login=login,
        )
        for kind, registry, login in (
            ("plain", lab.registry.plain, None),
            ("tls", lab.registry.tls, lab.registry.tls),
            ("tls-no-login", lab.registry.tls, None),
        )
    }


def _digest(lab: Lab) -> str:
    repository, _, tag = LLAMA_REPOSITORY.partition(":")
    accept = ", ".join(
        f"application/vnd.{kind}"
        for kind in ("docker.distribution.manifest.v2+json", "oci.image.manifest.v1+json")
    )
    url = f"http://{lab.registry.plain}/v2/{repository}/manifests/{tag}"
    return httpx.head(url, headers={"Accept": accept}).headers["docker-content-digest"]


@pytest.fixture
def bench(lab: Lab, connection: Connection, secrets: Secrets, places: dict[str, Place]) -> Iterator[Bench]:
    """The host with the image, and nothing of ours left over afterwards."""
    target = HostTarget(connection, plan=lab_plan(lab), secrets=secrets)
    engine = EngineClient(connection.dial_engine)
    bench = Bench(connection, target, engine, places["plain"].reference)
    bench.do(pull(places["plain"]))
    bench.events.clear()
    yield bench
    for name in (NAME, f"{NAME}_old", "foreign"):
        engine.remove(name)
    for network in ("rag_pub", "rag_int"):
        engine.remove_network(network)
    engine.remove_volume("rag_tiny_cache")
    bench.sh("rm -rf /var/lib/cpudeploy /srv/models")
    engine.close()


def pull(*places: Place) -> op.Engine:
    return engine_op("pull", op.PullImage(places=places, platform="linux/amd64", size=11_000_000))


def spec(bench: Bench, **fields: object) -> ContainerSpec:
    """llama-server as the product would run it."""
    wanted = ContainerSpec(
        image=bench.image,
        command=(
            "-m",
            "/models/tiny.gguf",
            "--alias",
            "tiny",
            "--port",
            "8080",
            "-c",
            "256",
            "-np",
            "1",
            "-t",
            "1",
        ),
        env={"LLAMA_ARG_HOST": "0.0.0.0"},
        publish=(Publish(address="127.0.0.1", port=8100, container_port=8080),),
        cpuset="0",
        memory=512 * 2**20,
        tmpfs={"/tmp": "rw,size=16m"},
        ulimits={"nofile": 1024},
        mounts=(Mount(source="/srv/models", target="/models"),),
        networks=("rag_pub",),
        cap_add=("SYS_NICE",),
    )
    return msgspec.structs.replace(wanted, **fields)


def create(bench: Bench, **fields: object) -> op.Engine:
    request = op.CreateContainer(
        container=NAME, references=(bench.image,), spec=spec(bench, **fields), labels=MARKS
    )
    return engine_op("create", request)


def network(name: str = "rag_pub", internal: bool = False, subnet: str = "10.99.1.0/26") -> op.Engine:
    labels = {"io.cpudeploy.deployment": "rag"}
    return engine_op("net", op.CreateNetwork(network=name, subnet=subnet, internal=internal, labels=labels))


def start() -> op.Engine:
    return engine_op("start", op.StartContainer(container=NAME))


def gate(key: SecretRef | None = None, deadline_s: int = 60, **fields: object) -> op.Wait:
    wait = op.Wait(
        id="gate",
        deadline_s=deadline_s,
        container=NAME,
        address="127.0.0.1",
        port=8100,
        gate=Gate(port=8080, stable_s=1, deadline_s=deadline_s, checks=CHECKS),
        api_key=key,
    )
    return msgspec.structs.replace(wait, **fields)


@pytest.fixture
def model(bench: Bench) -> None:
    bench.sh("mkdir -p -m 0755 /srv/models")
    bench.connection.put("/srv/models/tiny.gguf", artifact("tiny").read_bytes(), mode="0644", deadline_s=60)


def test_an_image_is_pulled_with_progress(bench: Bench, places: dict[str, Place]) -> None:
    bench.engine.remove_image(bench.image)
    bench.do(pull(places["plain"]))
    assert bench.engine.image(bench.image) is not None
    progress = [event for event in bench.events if isinstance(event, ev.Progress)]
    assert progress[-1].done == progress[-1].total > 0


def test_a_registry_with_a_password_gets_it_in_a_header(bench: Bench, places: dict[str, Place]) -> None:
    bench.engine.remove_image(bench.image)
    bench.do(pull(places["tls"]))
    assert bench.engine.image(places["tls"].reference) is not None
    assert "config.json" not in bench.sh("ls -a /root/.docker 2>/dev/null || true")
    bench.engine.remove_image(places["tls"].reference)
    bench.do(pull(places["plain"]))


def test_a_place_that_lacks_the_image_is_told_and_the_next_is_used(
    bench: Bench, places: dict[str, Place]
) -> None:
    for place in places.values():  # under every name, else the engine has nothing to ask for
        bench.engine.remove_image(place.reference)
    good = places["plain"]
    missing = msgspec.structs.replace(good, reference=f"{good.registry}/nothing/here@{good.digest}")
    bench.do(pull(missing, places["tls-no-login"], good))
    assert bench.engine.image(bench.image) is not None
    assert "nothing/here" in bench.notes
    assert places["tls"].registry in bench.notes


def test_no_place_at_all_is_an_error_that_names_each(bench: Bench, places: dict[str, Place]) -> None:
    good = places["plain"]
    other = "sha256:" + "0" * 64
    repository = good.reference.partition("@")[0]
    missing = msgspec.structs.replace(good, digest=other, reference=f"{repository}@{other}")
    with pytest.raises(RegistryError, match=good.registry):
        bench.do(pull(missing))


def test_a_container_is_created_as_told_and_twice_is_once(bench: Bench, model: None) -> None:
    bench.do(network(), network("rag_int", internal=True, subnet="10.99.2.0/26"))
    for _ in range(2):
        bench.do(create(bench, networks=("rag_pub", "rag_int")))
    found = bench.engine.container(NAME)
    assert found and found["State"]["Status"] == "created"
    assert set(found["NetworkSettings"]["Networks"]) == {"rag_pub", "rag_int"}
    assert found["HostConfig"]["RestartPolicy"]["Name"] == "no"


def test_a_container_of_another_release_is_not_taken_for_ours(bench: Bench, model: None) -> None:
    bench.do(network(), create(bench))
    other = engine_op(
        "create",
        op.CreateContainer(
            container=NAME,
            references=(bench.image,),
            spec=spec(bench),
            labels={**MARKS, "io.cpudeploy.release": "0002-b"},
        ),
    )
    with pytest.raises(EngineError, match="another release"):
        bench.do(other)


def test_a_missing_mount_is_an_error_and_not_an_empty_folder(bench: Bench) -> None:
    bench.do(network())
    with pytest.raises(EngineError, match="/srv/models"):
        bench.do(create(bench))


def test_the_image_is_found_under_whichever_name_it_was_pulled(bench: Bench, model: None) -> None:
    bench.do(network())
    identity = bench.image.replace(bench.image.partition("/")[0], "ghcr.io")
    bench.do(create(bench, image=identity))
    assert bench.engine.container(NAME) is not None


def test_a_container_without_our_mark_is_left_alone(bench: Bench, model: None) -> None:
    bench.do(network())
    bench.engine.create("foreign", spec(bench), (bench.image,), {})
    for request in (
        op.StopContainer(container="foreign", grace_s=1),
        op.RemoveContainer(container="foreign"),
        op.RenameContainer(container="foreign", to="mine"),
        op.RestartPolicy(container="foreign", policy="always"),
    ):
        with pytest.raises(EngineError, match="left alone"):
            bench.do(engine_op("x", request))
    assert bench.engine.container("foreign") is not None


def test_a_volume_goes_when_its_container_has_and_nobody_else_mounts_it(bench: Bench, model: None) -> None:
    name = "rag_tiny_cache"
    cache = (*spec(bench).mounts, Mount(source=name, target="/cache", read_only=False))
    remove = engine_op("volume", op.RemoveVolume(volume=name))
    bench.do(network(), create(bench, mounts=cache))
    bench.engine.create("foreign", spec(bench, mounts=cache), (bench.image,), {})
    facts = bench.target.facts()
    assert facts.volumes[name].deployment == "rag"
    assert [facts.containers[each].volumes for each in (NAME, "foreign")] == [(name,), (name,)]
    bench.do(engine_op("x", op.RemoveContainer(container=NAME)))
    with pytest.raises(OperationFailed, match=f"volume {name} is in use by foreign"):
        bench.do(remove)
    bench.engine.remove("foreign")
    bench.do(remove, remove)
    assert bench.engine.volume(name) is None


def test_a_volume_without_our_mark_is_left_alone(bench: Bench) -> None:
    name = "rag_tiny_cache"
    bench.sh(f"docker volume create {name}")
    with pytest.raises(EngineError, match="left alone"):
        bench.do(engine_op("x", op.RemoveVolume(volume=name)))
    assert bench.target.facts().volumes[name].deployment == ""
    bench.do(engine_op("x", op.RemoveVolume(volume=name, unmarked=True)))
    assert bench.engine.volume(name) is None


def test_every_request_may_be_repeated(bench: Bench, model: None) -> None:
    old = f"{NAME}_old"
    twice = [
        network(),
        create(bench),
        start(),
        engine_op("policy", op.RestartPolicy(container=NAME, policy="unless-stopped")),
        engine_op("stop", op.StopContainer(container=NAME, grace_s=5)),
        engine_op("disconnect", op.DisconnectNetwork(network="rag_pub", container=NAME)),
        engine_op("connect", op.ConnectNetwork(network="rag_pub", container=NAME)),
        engine_op("rename", op.RenameContainer(container=NAME, to=old)),
        engine_op("remove", op.RemoveContainer(container=old)),
        engine_op("net", op.RemoveNetwork(network="rag_pub")),
    ]
    for operation in twice:
        bench.do(operation, operation)
    assert bench.engine.container(old) is None
    assert bench.engine.network("rag_pub") is None


def test_a_removal_that_names_a_release_spares_another(bench: Bench, model: None) -> None:
    bench.do(network(), create(bench))
    bench.do(engine_op("x", op.RemoveContainer(container=NAME, release="0002-b")))
    assert bench.engine.container(NAME) is not None
    bench.do(engine_op("x", op.RemoveContainer(container=NAME, release="0001-a")))
    assert bench.engine.container(NAME) is None


def test_a_network_that_is_there_otherwise_is_an_error(bench: Bench) -> None:
    bench.do(network())
    with pytest.raises(EngineError, match="not as wanted"):
        bench.do(network(subnet="10.99.7.0/26"))


def test_the_gate_passes_when_the_model_answers(bench: Bench, model: None) -> None:
    bench.do(network(), create(bench), start(), gate())
    assert any(isinstance(event, ev.Progress) and event.text for event in bench.events)


def test_a_model_bound_to_a_memory_node_serves_and_is_found_so(bench: Bench, model: None) -> None:
    bench.do(network(), create(bench, cpuset_mems="0"), start(), gate())
    pid = bench.sh(f"docker inspect --format '{{{{.State.Pid}}}}' {NAME}").strip()
    assert "Mems_allowed_list:\t0\n" in bench.sh(f"cat /proc/{pid}/status")
    assert probe(bench.connection, ()).containers[NAME].cpuset_mems == "0"


def test_a_memory_node_that_the_host_has_not_is_refused_in_words(bench: Bench, model: None) -> None:
    bench.do(network())
    with pytest.raises(EngineError, match="memory nodes"):
        bench.do(create(bench, cpuset_mems="9"))
    assert bench.engine.container(NAME) is None


def test_the_gate_sends_the_key_and_a_wrong_one_fails_with_what_came(bench: Bench, model: None) -> None:
    path = "/var/lib/cpudeploy/rag/secrets/rag_tiny_0/api_key"
    bench.do(op.Put(id="put", deadline_s=30, path=path, mode="0600", content=KEY), network())
    file = SecretFile(name="api_key", path=path, target="/run/secrets/api_key", secret=KEY)
    command = (*spec(bench).command, "--api-key-file", file.target)
    bench.do(create(bench, command=command, secrets=(file,)), start(), gate(KEY))
    with pytest.raises(ModelNotServing, match=r"listed.*401"):
        bench.do(gate(None, deadline_s=3))
    assert "lab-api-key" not in str(bench.engine.container(NAME))


def test_a_model_that_exits_fails_at_once_with_cause_and_log(bench: Bench, model: None) -> None:
    bench.connection.put("/srv/models/tiny.gguf", b"GGUF and nothing", mode="0644", deadline_s=30)
    bench.do(network(), create(bench), start())
    with pytest.raises(ModelNotServing) as error:
        bench.do(gate())
    failure = error.value.failure
    assert failure.exit_code == 1
    assert "stopped with exit code 1" in failure.what
    assert failure.log and len(failure.log) <= 15
    assert failure.cause and failure.cause != failure.log[-1].strip()


def test_a_playbooks_diagnosis_comes_first(bench: Bench, model: None) -> None:
    bench.connection.put("/srv/models/tiny.gguf", b"GGUF and nothing", mode="0644", deadline_s=30)
    rule = Diagnosis(exit_code=1, log="failed to", cause="the file is damaged", do="fetch it again")
    bench.do(network(), create(bench), start())
    with pytest.raises(ModelNotServing) as error:
        bench.do(gate(diagnose=(rule,)))
    assert (error.value.failure.cause, error.value.failure.do) == ("the file is damaged", "fetch it again")


def test_too_little_memory_is_told_as_such(bench: Bench, model: None) -> None:
    greedy = ("sh", "-c", "x=a; while :; do x=$x$x; done")
    bench.do(network(), create(bench, memory=32 * 2**20, entrypoint=greedy, command=()), start())
    with pytest.raises(ModelNotServing) as error:
        bench.do(gate())
    assert error.value.failure.exit_code == 137
    assert error.value.failure.oom


def test_an_unpublished_container_is_asked_at_its_own_address(bench: Bench, model: None) -> None:
    bench.do(network("rag_int", internal=True, subnet="10.99.2.0/26"))
    bench.do(create(bench, networks=("rag_int",)), start(), gate())


def test_a_port_that_the_engine_opens_to_everybody_instead_is_closed_again(bench: Bench, model: None) -> None:
    """It takes a name of an interface for no address at all, without a word."""
    bench.do(network(), create(bench, publish=(Publish(address="lo", port=8100, container_port=8080),)))
    with pytest.raises(EngineError, match=r"lo:8100.*0\.0\.0\.0:8100"):
        bench.do(start())
    found = bench.engine.container(NAME)
    assert found and not found["State"]["Running"]


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "::"])
def test_a_port_that_is_opened_as_told_is_no_error(bench: Bench, model: None, address: str) -> None:
    bench.do(network(), create(bench, publish=(Publish(address=address, port=8100, container_port=8080),)))
    bench.do(start())


def test_where_sshd_forbids_forwarding_the_gate_asks_from_inside(
    bench: Bench, model: None, lab: Lab, secrets: Secrets
) -> None:
    host = lab.hosts[bench.connection.host.name]
    rule = "/etc/ssh/sshd_config.d/no-forwarding.conf"
    reload = "pkill -HUP -o -x sshd"
    done = host.exec(
        ["sh", "-ec", f"mkdir -p /etc/ssh/sshd_config.d; echo 'AllowTcpForwarding no' >{rule}; {reload}"]
    )
    assert done.returncode == 0, done.stderr
    host.wait_for_ssh()
    try:
        bench.do(network(), create(bench), start())
        forbidden = reach(lab, host.name, secrets)
        target = HostTarget(forbidden, plan=lab_plan(lab), secrets=secrets)
        with pytest.raises(CpudeployError, match="sshd does not allow"):
            forbidden.dial_tcp("127.0.0.1", 8100)
        target.perform(gate(), bench.events.append)
        target.close()
    finally:
        host.exec(["sh", "-c", f"rm {rule}; {reload}"])
        host.wait_for_ssh()


def test_logs_can_be_followed_until_the_container_stops(bench: Bench, model: None) -> None:
    bench.do(network(), create(bench), start(), gate())
    some = list(bench.engine.logs(NAME, tail=3))
    assert len(some) == 3
    following = bench.engine.logs(NAME, tail=1, follow=True)
    assert next(following)
    with EngineClient(bench.connection.dial_engine) as other:
        other.stop(NAME, 5)
    assert isinstance(list(following), list)


def test_a_script_tells_its_lines_and_a_failure_keeps_the_last(bench: Bench) -> None:
    bench.do(script("echo one; echo two"))
    assert [event.text for event in bench.events if isinstance(event, ev.Progress)] == ["one", "two"]
    with pytest.raises(ScriptFailed) as error:
        bench.do(script("echo begun; echo 'no space left' >&2; exit 3"))
    assert "exit code 3" in error.value.what
    assert error.value.failure.log == ("begun", "no space left")


def test_a_script_that_is_not_what_was_planned_is_not_run(bench: Bench) -> None:
    changed = msgspec.structs.replace(script("touch /tmp/ran"), text="touch /tmp/ran2")
    with pytest.raises(OperationFailed, match="checksum differs"):
        bench.do(changed)


def script(text: str) -> op.Script:
    sha = hashlib.sha256(text.encode()).hexdigest()
    return op.Script(id="s", deadline_s=30, script="test", args={}, text=text, sha256=sha)


def test_secrets_in_output_are_not_told(bench: Bench, secrets: Secrets) -> None:
    secrets.get(KEY)
    bench.do(script("echo key is lab-api-key"))
    assert "lab-api-key" not in str(bench.events)


def test_a_release_is_recorded_with_marks_and_refs(bench: Bench) -> None:
    path = "/var/lib/cpudeploy/rag/secrets/rag_tiny_0/api_key"
    file = SecretFile(name="api_key", path=path, target="/run/secrets/api_key", secret=KEY)
    instance = Instance(
        model="tiny",
        instance=0,
        backend="llama",
        playbook="llama-cpp",
        engine_version="b1",
        source="url",
        tree="tree1",
        context=256,
        parallel=1,
        threads=1,
        threads_batch=1,
        served_name="tiny",
        task="chat",
        container=spec(bench, secrets=(file,)),
        gate=Gate(port=8080, stable_s=1, deadline_s=9, checks=CHECKS),
    )
    record = op.Record(
        id="r",
        deadline_s=30,
        deployment="rag",
        release="0001-a",
        host="h",
        origin="o",
        weights_dir="/var/lib/cpudeploy/weights",
        instances={NAME: instance},
    )
    bench.do(record)
    written = bench.sh("cat /var/lib/cpudeploy/rag/releases/0001-a.json")
    assert bench.sh("stat -c '%a %U' /var/lib/cpudeploy/rag/releases/0001-a.json") == "600 root\n"
    assert bench.sh("cat /var/lib/cpudeploy/weights/refs/rag.0001-a") == "tree1\n"
    assert "lab-api-key" not in written
    assert same("lab-api-key", json.loads(written)["secret_marks"][path])
    bench.do(record)
    assert bench.sh("cat /var/lib/cpudeploy/rag/releases/0001-a.json") == written
    other = msgspec.structs.replace(record, instances={"rag_other_0": instance})
    bench.do(other)
    both = json.loads(bench.sh("cat /var/lib/cpudeploy/rag/releases/0001-a.json"))
    assert set(both["instances"]) == {NAME, "rag_other_0"}


def test_weights_arrive_and_the_facts_know_them(bench: Bench, lab: Lab) -> None:
    content = b"w" * 300_000
    sha = hashlib.sha256(content).hexdigest()
    with serving(content, address=lab.gateway) as hub:
        file = WeightFile(name="f", size=len(content), sha256=sha, urls=(hub.url,))
        bench.do(op.Fetch(id="f", deadline_s=60, weights_dir="/var/lib/cpudeploy/weights", file=file))
    assert bench.target.facts().weights.blobs[sha].verified
    assert bench.sh("stat -c %a /var/lib/cpudeploy /var/lib/cpudeploy/weights") == "700\n755\n"


def test_a_download_ends_with_its_connection(
    bench: Bench, lab: Lab, secrets: Secrets, wait_for: Callable[[Callable[[], bool]], None]
) -> None:
    content = b"z" * 2_000_000
    sha = "0" * 64
    with serving(content, address=lab.gateway) as slow:
        slow.stall = threading.Event()
        file = WeightFile(name="f", size=len(content), sha256=sha, urls=(slow.url,))
        fetch = op.Fetch(id="f", deadline_s=60, weights_dir="/var/lib/cpudeploy/weights", file=file)
        doomed = reach(lab, bench.connection.host.name, secrets)
        target = HostTarget(doomed, plan=lab_plan(lab), secrets=secrets)
        arrived = threading.Event()

        def tell(event: ev.Event) -> None:
            if isinstance(event, ev.Progress) and event.done:
                arrived.set()

        def run() -> None:
            with pytest.raises(CpudeployError):
                target.perform(fetch, tell)

        thread = threading.Thread(target=run)
        thread.start()
        assert arrived.wait(30)
        assert bench.sh("pgrep -x curl || true") != ""
        doomed.close()
        thread.join(30)
        wait_for(lambda: bench.sh("pgrep -x curl || true") == "")
        wait_for(lambda: bench.sh("ls -A /var/lib/cpudeploy/weights/partial") == f"{sha}\n")
