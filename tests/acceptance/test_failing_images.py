"""Images that don't do their work, each in a way of its own: the old version serves, and the plan says what to do.

They are the lab's llama-server image with another entrypoint, pushed under tags of their own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.acceptance.site import Site, bare_hosts, make_site
from tests.lab import engine, llama
from tests.lab.hosts import HostSpec
from tests.lab.lab import Lab

pytestmark = pytest.mark.lab

HOST, CONTAINER = "fail12", "rag_tiny_0"
PATIENCE_S = 20

ENTRYPOINTS = {
    "crashes": "echo 'error while loading shared libraries: libgomp.so.1' >&2; exit 127",
    "hangs": "echo 'loading, and loading'; while :; do sleep 1; done",
    "misnames": 'set -- "$@" --alias another; exec /app/llama-server "$@"',
    "eats": "echo 'about to eat'; x=0123456789abcdef; while :; do x=$x$x; done",
    "ends": "echo 'done for today'; exit 0",
    "locks": 'for word do shift; case $word in --api-key-file | /run/secrets/*) ;; *) set -- "$@" "$word" ;; esac; done; '
    'exec /app/llama-server "$@" --api-key another',
    "illegal": "exec /app/illegal",
}
ILLEGAL = bytes.fromhex(
    "7f454c4602010100" "0000000000000000" "0200" "3e00" "01000000" "7800400000000000" "4000000000000000"
    "0000000000000000" "00000000" "4000" "3800" "0100" "0000" "0000" "0000"
    "01000000" "05000000" "0000000000000000" "0000400000000000" "0000400000000000" "7a00000000000000"
    "7a00000000000000" "0010000000000000" "0f0b"
)  # fmt: skip
"""A whole program of one instruction that no CPU has."""


@pytest.fixture(scope="module")
def site(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One host that serves the tiny model, gated by a playbook that waits for less time than ours."""
    bare_hosts(lab, HostSpec(HOST, "bookworm", engine=True))
    folder = tmp_path_factory.mktemp("site")
    site = make_site(lab, folder, HOST)
    ours = Path(__file__).parents[2] / "playbooks" / "llama-cpp.yaml"
    playbook = yaml.safe_load(ours.read_text())
    playbook["health"]["start_s"] = PATIENCE_S
    (folder / "playbooks").mkdir()
    (folder / "playbooks" / "llama-cpp.yaml").write_text(yaml.safe_dump(playbook, sort_keys=False))
    site.run("apply", "--playbooks", "playbooks")
    yield site
    lab.remove(HOST)


def push(site: Site, name: str) -> str:
    """The image with another entrypoint, where the mirror has it; its original name."""
    repository = f"{llama.IMAGE.partition('/')[2]}-{name}"
    container = f"{site.lab.name}-{name}"
    entrypoint = json.dumps(["/bin/sh", "-c", ENTRYPOINTS[name], "llama-server"])
    engine.docker("create", "--name", container, llama.IMAGE)
    try:
        if name == "illegal":
            program = site.folder / "illegal"
            program.write_bytes(ILLEGAL)
            program.chmod(0o755)
            engine.docker("cp", str(program), f"{container}:/app/illegal")
        engine.docker("commit", "--change", f"ENTRYPOINT {entrypoint}", container, f"lab/{name}")
    finally:
        engine.docker("rm", container)
    site.lab.registry.push(f"lab/{name}", repository, "tls")
    return f"ghcr.io/{repository}"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("crashes", ("exit code 127", "libgomp.so.1")),
        (
            "hangs",
            (f"does not serve after {PATIENCE_S} s", "or hangs; the last it said: loading, and loading"),
        ),
        ("misnames", ("does not serve", "another", "served_name")),
        ("eats", ("memory",)),
        ("ends", ("stopped by itself (exit code 0)", "done for today")),
        ("locks", ("HTTP 401", "another key")),
        ("illegal", ("SIGILL", "CPU instructions", "official server image")),
    ],
)
def test_the_old_one_serves_and_the_cause_and_the_next_step_are_told(
    site: Site, name: str, told: tuple[str, ...]
):
    served = site.inspect(HOST, CONTAINER)["Id"]
    before = site.manifest["backends"]["llama"]["image"]
    site.manifest["backends"]["llama"] |= {"image": push(site, name), "version": f"b{llama.BUILD}"}
    try:
        said = site.run("apply", "--playbooks", "playbooks", code=7)
        assert "the old version serves again" in said
        assert all(part in said for part in told), said
        assert "  do " in said, said
    finally:
        site.manifest["backends"]["llama"]["image"] = before
    assert site.inspect(HOST, CONTAINER)["Id"] == served
    assert site.on(HOST).check_output("docker ps -a --format '{{.Names}}'").split() == [CONTAINER]
    assert "tiny" in site.ask(HOST, 8100, site.api_key)
    assert "no changes" in site.run("plan", "--playbooks", "playbooks", "--detailed-exitcode")
