from cpudeploy.report.operation_text import operation_text
from cpudeploy.types.base import SecretRef
from cpudeploy.types.operation import Engine, GuardArm, Put, RemoveVolume, Script

from .samples import fetch, instance, pull, record, wait


def test_operations_name_their_objects_and_deadline() -> None:
    assert operation_text(pull()).startswith(
        "engine pull m.daocloud.io/ghcr.io/ggml-org/llama.cpp:server-b9000@sha256:ab"
    )
    assert operation_text(fetch()).startswith("fetch MiniCPM5-1B-F16.gguf 2.2 GB")
    assert (
        operation_text(wait("rag_a_0", 8100))
        == "wait for rag_a_0 at 127.0.0.1:8100 · ready · longer for more bytes to load · at most 1 min 30 s"
    )
    assert "rag_a_0" in operation_text(record("h", {"rag_a_0": instance("a", port=1)}))
    back = Script(id="r", deadline_s=5, script="put-back", args={}, text="docker rename x y", sha256="a" * 64)
    arm = GuardArm(id="g", deadline_s=5, guard="swap", after_s=120, revert=back)
    assert "put-back after 2 min" in operation_text(arm)


def test_a_volume_that_is_removed_is_named() -> None:
    remove = Engine(id="v", deadline_s=300, request=RemoveVolume(volume="rag_a_cache"))
    assert operation_text(remove) == "engine remove volume rag_a_cache · at most 5 min"


def test_a_script_shows_its_arguments_and_not_its_text() -> None:
    script = Script(
        id="s", deadline_s=5, script="install", args={"package": "docker.io"}, text="apt-get", sha256="a" * 64
    )
    assert operation_text(script) == "script install package=docker.io · sha256 aaaaaaaaaaaa · at most 5 s"


def test_a_secret_is_told_by_its_reference() -> None:
    put = Put(
        id="p", deadline_s=5, path="/s/key", mode="0600", content=SecretRef(kind="from_env", name="KEY")
    )
    assert operation_text(put) == "put /s/key 0600 root · secret from_env:KEY · at most 5 s"
    assert "hunter2" not in operation_text(
        Put(id="p", deadline_s=5, path="/f", mode="0644", content="hunter2")
    )
