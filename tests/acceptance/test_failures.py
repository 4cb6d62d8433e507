"""The real llama-server made to fail in every way it has: what is told, and what to change.

First the program alone, before the playbook's rules. Then models on a host that fail through the whole product,
one after another, and one that served and ends.
"""

from __future__ import annotations

import json
import resource
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cpudeploy.execute.failure import diagnose
from cpudeploy.manifest import load_playbook
from tests.acceptance.site import TINY_FILE, Site, bare_hosts, make_site
from tests.lab import engine, llama, models
from tests.lab.hosts import HostSpec
from tests.lab.lab import Lab

pytestmark = pytest.mark.lab

HOST, CONTAINER = "fails12", "rag_tiny_0"
PATIENCE_S = 25


def changed(old: bytes, new: bytes) -> Callable[[bytes], bytes]:
    return lambda model: model.replace(old, new, 1)


BROKEN: dict[str, Callable[[bytes], bytes]] = {
    "truncated": lambda model: model[:2_000_000],
    "cut in its header": lambda model: model[:3000],
    "empty": lambda model: b"",
    "not a model": lambda model: b"<html>moved permanently</html>",
    "of a newer family": changed(b"\x05\0\0\0\0\0\0\0llama", b"\x05\0\0\0\0\0\0\0qwenx"),
    "without a tensor": changed(b"blk.2.attn_q.weight", b"blk.2.attn_z.weight"),
}


def run_server(*arguments: str, address_space: int | None = None) -> tuple[int, list[str]]:
    """The server's end: exit code and lines."""
    command = [str(llama.server()), "--host", "127.0.0.1", "--parallel", "1", "--threads", "1", *arguments]

    def limit() -> None:
        if address_space is not None:
            resource.setrlimit(resource.RLIMIT_AS, (address_space, address_space))

    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, check=False, preexec_fn=limit
    )
    return done.returncode, done.stdout.decode(errors="replace").splitlines()


def told(end: tuple[int, list[str]]) -> tuple[str, str]:
    code, log = end
    assert code == 1, log
    return diagnose(load_playbook("llama-cpp", ()).diagnose, code, False, log)


@pytest.mark.parametrize(
    ("broken", "cause", "do"),
    [
        ("truncated", "truncated or corrupt", "check the source"),
        ("cut in its header", "truncated or corrupt", "check the source"),
        ("empty", "truncated or corrupt", "check the source"),
        ("not a model", "not GGUF", "source.quant"),
        ("of a newer family", "architecture, qwenx", "newer server-bNNNN"),
        ("without a tensor", "'blk.2.attn_q.weight' not found", "another conversion"),
    ],
)
def test_a_file_that_is_no_whole_model(tmp_path: Path, broken: str, cause: str, do: str) -> None:
    whole = models.tiny().read_bytes()
    file = tmp_path / "model.gguf"
    file.write_bytes(BROKEN[broken](whole))
    assert file.read_bytes() != whole
    said = told(run_server("--port", "1", "--model", str(file), "--ctx-size", "512"))
    assert cause in said[0] and do in said[1], said


@pytest.mark.parametrize(
    ("arguments", "cause", "do"),
    [
        (("--model", "/models/gone.gguf"), "/models/gone.gguf is not in the container", "source.files"),
        (("--no-such", "3"), "does not know --no-such", "args"),
        (("--ctx-size", "lots"), "--ctx-size can't be what it was given", "args"),
        (("--cache-type-k", "q9"), "Unsupported cache type: q9", "args"),
        (("--mmproj", "/models/eyes.gguf"), "the projector /models/eyes.gguf", "source.mmproj"),
    ],
)
def test_an_argument_that_it_does_not_take(arguments: tuple[str, ...], cause: str, do: str) -> None:
    model = () if "--model" in arguments else ("--model", str(models.tiny()))
    said = told(run_server("--port", "1", *model, *arguments))
    assert cause in said[0] and do in said[1], said


def test_a_port_that_somebody_has() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        said = told(run_server("--port", port, "--model", str(models.tiny()), "--ctx-size", "512"))
    assert said == ("the port inside the container is taken", "take --port out of args")


def test_more_context_than_there_is_memory() -> None:
    big = ("--port", "1", "--model", str(models.tiny()), "--ctx-size", "8000000")
    cause, do = told(run_server(*big, address_space=3 * 2**30))
    assert "not enough memory for the KV cache" in cause
    assert do == "lower context or parallel"


@pytest.fixture(scope="module")
def site(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One host. Its playbook waits for less time than ours, and lets people say threads and context themselves."""
    bare_hosts(lab, HostSpec(HOST, "bookworm", engine=True))
    folder = tmp_path_factory.mktemp("site")
    site = make_site(lab, folder, HOST)
    ours = yaml.safe_load((Path(__file__).parents[2] / "playbooks" / "llama-cpp.yaml").read_text())
    ours["health"]["start_s"] = PATIENCE_S
    del ours["by_hand"]
    for argument in ours["container"]["arguments"]:
        if argument["field"] in ("cpus", "context"):
            argument["flags"] = []
    (folder / "playbooks").mkdir()
    (folder / "playbooks" / "llama-cpp.yaml").write_text(yaml.safe_dump(ours, sort_keys=False))
    site.manifest["models"]["tiny"]["cpus"] = 1
    yield site
    lab.remove(HOST)


def repository(lab: Lab, name: str, content: bytes) -> str:
    """A repository of the Hub with one model file."""
    files = lab.hub.root / "cpudeploy" / name / "files"
    files.mkdir(parents=True, exist_ok=True)
    (files / TINY_FILE).write_bytes(content)
    return f"cpudeploy/{name}"


@pytest.mark.parametrize(
    ("wish", "told"),
    [
        ({"args": ["--no-such", "3"]}, ("does not know --no-such", "take it out of args")),
        ({"source": "truncated"}, ("truncated or corrupt", "check the source")),
        ({"source": "without a tensor"}, ("attn_q.weight' not found", "another conversion")),
        ({"args": ["--ctx-size", "3000000"]}, ("reached its memory limit", "lower context or parallel")),
        (
            {"args": ["--threads", "1000"], "memory": "2GiB"},
            (f"does not serve after {PATIENCE_S} s", "it still loads, or hangs; the last it said"),
        ),
    ],
    ids=["flag", "truncated", "tensor", "memory", "hang"],
)
def test_the_first_version_of_a_model_that_fails_leaves_nothing(
    site: Site, wish: dict[str, Any], told: tuple[str, ...]
) -> None:
    whole = dict(site.manifest["models"]["tiny"])
    if broken := wish.get("source"):
        name = repository(site.lab, broken.replace(" ", "-"), BROKEN[broken](models.tiny().read_bytes()))
        wish = {"source": {"huggingface": name, "files": [TINY_FILE]}}
    site.manifest["models"]["tiny"] = {**whole, **wish}
    try:
        said = site.run("apply", "--playbooks", "playbooks", code=7)
        assert all(part in said for part in (*told, "  do ")), said
    finally:
        site.manifest["models"]["tiny"] = whole
    assert not site.on(HOST).check_output("docker ps -aq")


def test_one_that_served_and_ends_is_brought_back_and_told(site: Site) -> None:
    """Its exit code is 0, as vLLM's is when its engine has died."""
    image = f"ghcr.io/{llama.IMAGE.partition('/')[2]}-mortal"
    script = '/app/llama-server "$@" & while ! [ -e /tmp/die ]; do sleep 0.2; done; exit 0'
    entrypoint = json.dumps(["/bin/sh", "-c", script, "llama-server"])
    engine.derive(llama.IMAGE, "lab/mortal", f"ENTRYPOINT {entrypoint}")
    site.lab.registry.push("lab/mortal", image.removeprefix("ghcr.io/"), "tls")
    before = site.manifest["backends"]["llama"]["image"]
    site.manifest["backends"]["llama"] |= {"image": image, "version": f"b{llama.BUILD}"}
    try:
        site.run("apply", "--playbooks", "playbooks")
        assert "serving" in site.run("status", "--playbooks", "playbooks")
        served = site.inspect(HOST, CONTAINER)
        site.on(HOST).check_output("docker exec %s sh -c ': >/tmp/die'", CONTAINER)
        for _ in range(100):
            again = site.inspect(HOST, CONTAINER)
            if again["RestartCount"] and again["State"]["Running"]:
                break
            site.on(HOST).check_output("sleep 0.3")
        assert (again["Id"], again["RestartCount"]) == (served["Id"], 1)
        said = site.run("status", "--playbooks", "playbooks", code=1)
        assert "restarting" in said and "ended by itself" in said and "cpudeploy logs tiny" in said, said

        site.on(HOST).check_output("docker stop -t 1 %s", CONTAINER)
        said = site.run("status", "--playbooks", "playbooks", code=1)
        assert "stopped" in said and "by somebody" in said, said
        assert "stopped with exit code" in site.run("plan", "--playbooks", "playbooks")
        site.run("apply", "--playbooks", "playbooks")
        assert "serving" in site.run("status", "--playbooks", "playbooks")
        assert site.inspect(HOST, CONTAINER)["Id"] == served["Id"]
    finally:
        site.manifest["backends"]["llama"]["image"] = before
