"""Container specs in the engine's words, what it made of them, and its streams."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cpudeploy.errors import EngineError
from cpudeploy.execute.engine_body import create_body, differences
from cpudeploy.execute.engine_stream import PullProgress, frames, lines, messages
from cpudeploy.types.base import SecretRef
from cpudeploy.types.facts import Publish
from cpudeploy.types.release import ContainerSpec, Mount, SecretFile

KEY = SecretFile(
    name="api_key", path="/var/k", target="/run/secrets/api_key", secret=SecretRef(kind="from_env", name="K")
)
SPEC = ContainerSpec(
    image="ghcr.io/x/y@sha256:1",
    command=("-m", "/models/a.gguf"),
    env={"A": "1"},
    publish=(Publish(address="127.0.0.1", port=8100, container_port=8080),),
    cpuset="0-3",
    cpuset_mems="0",
    memory=2**30,
    shm=2**26,
    cap_add=("SYS_NICE",),
    ulimits={"memlock": -1},
    mounts=(
        Mount(source="/w/trees/t", target="/models"),
        Mount(source="rag_cache", target="/c", read_only=False),
    ),
    secrets=(KEY,),
    networks=("rag_pub", "rag_int"),
)
LABELS = {"io.cpudeploy.deployment": "rag"}


def body() -> dict[str, Any]:
    return create_body(SPEC, "mirror/x/y@sha256:1", LABELS)


def inspected() -> dict[str, Any]:
    """What an engine shows of a container made from `body`, in its own spellings."""
    made = body()
    host = made["HostConfig"] | {
        "CapAdd": ["CAP_SYS_NICE"],
        "SecurityOpt": ["no-new-privileges", "label=type:x"],
        "Init": None,
        "RestartPolicy": {"Name": "no", "MaximumRetryCount": 0},
    }
    config = {key: made[key] for key in ("Image", "Cmd", "Labels", "StopTimeout", "Healthcheck")}
    return {"Config": {**config, "Env": ["A=1", "PATH=/bin"]}, "HostConfig": host}


def test_what_keeps_a_model_in_its_bounds_is_said() -> None:
    host = body()["HostConfig"]
    assert host["Memory"] == host["MemorySwap"] == 2**30
    assert host["CpusetCpus"] == "0-3"
    assert host["CpusetMems"] == "0"
    assert host["CapDrop"] == ["ALL"]
    assert host["ReadonlyRootfs"] is True
    assert host["PidsLimit"] == 4096
    assert host["RestartPolicy"] == {"Name": "no"}
    assert host["LogConfig"] == {"Type": "json-file", "Config": {"max-size": "10m", "max-file": "3"}}
    assert host["Ulimits"] == [{"Name": "memlock", "Soft": -1, "Hard": -1}]
    assert host["PortBindings"] == {"8080/tcp": [{"HostIp": "127.0.0.1", "HostPort": "8100"}]}


def test_the_images_health_check_is_switched_off_unless_wanted() -> None:
    assert body()["Healthcheck"] == {"Test": ["NONE"]}


def test_weights_and_secrets_are_mounted_read_only_and_volumes_marked() -> None:
    weights, cache, secret = body()["HostConfig"]["Mounts"]
    assert (weights["Type"], weights["ReadOnly"]) == ("bind", True)
    assert (cache["Type"], cache["VolumeOptions"]) == ("volume", {"Labels": LABELS})
    assert (secret["Source"], secret["ReadOnly"]) == ("/var/k", True)


def test_only_the_first_network_is_named_at_create() -> None:
    assert list(body()["NetworkingConfig"]["EndpointsConfig"]) == ["rag_pub"]


def test_an_engines_own_spellings_are_no_difference() -> None:
    assert differences(body(), inspected()) == []


@pytest.mark.parametrize(
    ("field", "found"),
    [
        ("CpusetCpus", ""),
        ("CpusetMems", ""),
        ("Memory", 0),
        ("PidsLimit", None),
        ("ReadonlyRootfs", False),
        ("CapDrop", None),
        ("PortBindings", {}),
        ("MemorySwap", 2**31),
    ],
)
def test_a_field_the_engine_dropped_is_named_with_wanted_and_found(field: str, found: object) -> None:
    shown = inspected()
    shown["HostConfig"][field] = found
    (difference,) = differences(body(), shown)
    assert difference.field == f"HostConfig.{field}"
    assert difference.found == found


def test_swap_that_the_kernel_can_not_count_is_no_difference() -> None:
    shown = inspected()
    shown["HostConfig"]["MemorySwap"] = -1
    assert differences(body(), shown) == []


def test_a_missing_variable_is_named_without_its_value() -> None:
    shown = inspected()
    shown["Config"]["Env"] = []
    (difference,) = differences(body(), shown)
    assert "A" in str(difference) and "1" not in str(difference)


def frame(text: bytes) -> bytes:
    return b"\x01\0\0\0" + len(text).to_bytes(4, "big") + text


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_log_frames_are_put_together_however_they_arrive(size: int) -> None:
    stream = frame(b"one\ntw") + frame(b"o\r\nthree")
    chunks = [stream[at : at + size] for at in range(0, len(stream), size)]
    assert list(lines(frames(chunks))) == ["one", "two", "three"]


def test_a_line_may_come_in_any_number_of_pieces():
    assert list(lines([b"o", b"", b"ne\r\n", b"\n", b"tw", b"o\nthr", b"e", b"e"])) == [
        "one",
        "",
        "two",
        "three",
    ]
    many = [b"x" * (16 << 10)] * 4000
    assert [len(line) for line in lines([*many, b"\n", b"end\n"])] == [4000 * (16 << 10), 3]


def test_an_error_inside_a_pull_is_an_error() -> None:
    stream = [json.dumps({"status": "Pulling"}), json.dumps({"errorDetail": {"message": "denied"}})]
    with pytest.raises(EngineError, match="denied"):
        list(messages(stream))


def test_layers_are_summed_into_bytes_and_finished_ones_count_whole() -> None:
    sums = PullProgress(expected=150)
    for layer, current, total in (("a", 10, 100), ("b", 5, 50), ("a", 60, 100)):
        detail = {"current": current, "total": total}
        assert sums.take({"id": layer, "status": "Downloading", "progressDetail": detail})
    assert (sums.done, sums.total) == (65, 150)
    sums.take({"id": "a", "status": "Download complete"})
    assert sums.done == 105


def test_the_same_bytes_again_and_retries_are_no_progress() -> None:
    sums = PullProgress(expected=0)
    same = {"id": "a", "status": "Downloading", "progressDetail": {"current": 1, "total": 2}}
    assert sums.take(same)
    assert not sums.take(same)
    assert not sums.take({"id": "a", "status": "Retrying in 5 seconds"})


def test_layers_that_are_unpacked_are_told() -> None:
    sums = PullProgress(expected=0)
    for layer in ("a", "b"):
        sums.take({"id": layer, "status": "Downloading", "progressDetail": {"current": 5, "total": 5}})
    assert sums.unpacking == ""
    sums.take({"id": "a", "status": "Extracting", "progressDetail": {"current": 1, "total": 5}})
    assert sums.unpacking == "unpacking layer 1 of 2"
    sums.take({"id": "a", "status": "Pull complete"})
    assert sums.unpacking == ""
    sums.take({"id": "b", "status": "Extracting"})
    assert sums.unpacking == "unpacking layer 2 of 2"
