"""Every kind of host: one with next to nothing on it, one that is the controller itself, many behind a jump."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.acceptance.site import Site, bare_hosts, make_site
from tests.acceptance.test_interrupted import wait_for
from tests.lab.hosts import HostSpec
from tests.lab.lab import Lab

pytestmark = pytest.mark.lab

BARE = "bare12"
INSIDE = "inside"
JUMP = "jump"
MANY = tuple(f"many{number:02}" for number in range(1, 51))
SMOL = "HuggingFaceTB/SmolLM2-135M-Instruct-GGUF"
SMOL_SIZE = 98_362_432
SUITES = {(3, 11): "bookworm", (3, 13): "trixie"}


@pytest.fixture(scope="module")
def bare(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A host with sh, coreutils and apt, with the tiny model applied to it."""
    bare_hosts(lab, HostSpec(BARE, bare=True))
    site = make_site(lab, tmp_path_factory.mktemp("bare"), BARE)
    site.bare_plan = site.run("plan", "--detailed-exitcode", code=2)
    site.run("apply")
    yield site
    lab.remove(BARE)


def test_a_host_without_curl_python_and_iproute2_gets_its_model_through_this_machine(bare: Site):
    assert "through this machine (no curl on the host)" in bare.bare_plan
    assert "tiny" in bare.ask(BARE, 8100, bare.api_key)
    assert bare.settled()
    assert not any(bare.on(BARE).exists(tool) for tool in ("curl", "python3", "ip", "flock"))


def test_a_stream_that_was_cut_goes_on_where_the_host_is_and_leaves_nothing_here(bare: Site, tmp_path: Path):
    bare.manifest["models"]["tiny"]["cpus"] = "0-0"
    bare.manifest["models"]["smol"] = {
        "source": {"huggingface": SMOL},
        "backend": "llama",
        "on": [BARE],
        "port": 8101,
        "context": 512,
        "cpus": "1-1",
        "api_key": {"from_file": "api-key"},
    }
    host, partial = (
        bare.lab.hosts[BARE],
        "cat /var/lib/cpudeploy/weights/partial/[0-9a-f]* 2>/dev/null | wc -c",
    )
    bare.lab.hub.break_requests(match="SmolLM2", rate=10_000_000)
    try:
        process = bare.start("apply", env={"XDG_CACHE_HOME": str(tmp_path), "TMPDIR": str(tmp_path)})
        wait_for(process, "fetch SmolLM2")
        for _ in range(300):
            if int(host.exec(["sh", "-c", partial]).stdout) > 10_000_000:
                break
            time.sleep(0.2)
        host.disconnect()
        out, err = process.communicate(timeout=180)
    finally:
        host.reconnect()
        bare.lab.hub.heal()
    assert process.returncode == 4, out + err
    host.wait_for_ssh()
    begun = int(host.exec(["sh", "-c", partial]).stdout)  # at least: what is still in its buffers follows
    assert 10_000_000 < begun < SMOL_SIZE
    bare.lab.hub.forget_requests()
    told = bare.run("apply")
    starts = [
        int(request["range"].strip("bytes=").partition("-")[0])
        for request in bare.lab.hub.requests()
        if request["range"] and "SmolLM2" in request["path"] and not request["range"].startswith("bytes=0-")
    ]
    assert starts and min(starts) >= begun, told
    assert "serving" in bare.run("status")
    kept = sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file())
    assert kept < 5_000_000


@pytest.fixture(scope="module")
def inside(lab: Lab) -> Iterator[Site]:
    """A machine of the lab that runs cpudeploy itself, with itself as its only host."""
    suite = SUITES.get(sys.version_info[:2])
    if suite is None:
        pytest.skip("no Debian of the lab has this Python, so its packages can't be used there")
    root = Path(__file__).parents[2]
    mounts = ((root, "/opt/cpudeploy"), (sysconfig.get_paths()["purelib"], "/opt/packages"))
    volumes = (word for here, there in mounts for word in ("--volume", f"{here}:{there}:ro"))
    bare_hosts(lab, HostSpec(INSIDE, suite, docker_args=tuple(volumes)))
    host = lab.hosts[INSIDE]
    install = "apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -yqq python3 >/dev/null"
    assert host.exec(["sh", "-ec", install]).returncode == 0
    folder = lab.state / "inside"
    folder.mkdir(exist_ok=True)
    site = make_site(lab, folder, INSIDE)
    site.manifest["hosts"] = {"here": {"connection": "local"}}
    site.manifest["models"]["tiny"]["on"] = ["here"]
    site.manifest["registries"][lab.registry.tls]["ca"] = "ca.pem"
    del site.manifest["defaults"]
    files = {
        "inventory.yaml": yaml.safe_dump(site.manifest, sort_keys=False),
        "ca.pem": lab.registry.ca.read_text(),
        "api-key": site.api_key,
        "registry-password": lab.registry.password,
    }
    for name, text in files.items():
        put = [
            "sh",
            "-ec",
            f"mkdir -p /home/ops/site && cat >/home/ops/site/{name} && chown -R ops: /home/ops",
        ]
        assert host.exec(put, stdin=text).returncode == 0
    yield site
    lab.remove(INSIDE)


def run_inside(site: Site, *arguments: str, code: int = 0) -> str:
    """cpudeploy as `ops` on that machine."""
    words = ["env", "PYTHONPATH=/opt/cpudeploy:/opt/packages", "COLUMNS=240", "python3", "-m", "cpudeploy"]
    command = " ".join([*words, *arguments])
    done = site.lab.hosts[INSIDE].exec(
        ["su", "ops", "-s", "/bin/sh", "-c", f"cd /home/ops/site && {command}"]
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_a_machine_deploys_to_itself(inside: Site):
    run_inside(inside, "plan", "--detailed-exitcode", code=2)
    run_inside(inside, "apply")
    assert "no changes" in run_inside(inside, "plan", "--detailed-exitcode")
    assert "serving" in run_inside(inside, "status")
    assert run_inside(inside, "chat", "tiny", "Hello", "--max-tokens", "8").strip()
    run_inside(inside, "destroy", "--yes")
    assert inside.on(INSIDE).file("/var/lib/cpudeploy").listdir() == ["audit.jsonl"]


@pytest.fixture(scope="module")
def many(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path]]:
    """Fifty hosts and a jump with an sshd as it comes: (folder with their manifest, ssh configuration)."""
    lab.add(HostSpec(JUMP, light=True), *(HostSpec(name, light=True) for name in MANY))
    folder = tmp_path_factory.mktemp("many")
    config = folder / "ssh_config"
    lines = [
        *(f"Host {name}\n HostName {lab.hosts[name].address}" for name in (JUMP, *MANY)),
        f"Host many*\n ProxyJump {JUMP}",
        f"Host *\n User root\n IdentityFile {lab.key}\n IdentitiesOnly yes\n UserKnownHostsFile {folder}/known",
    ]
    config.write_text("\n".join(lines) + "\n")
    manifest: dict[str, Any] = {
        "version": 1,
        "name": "many",
        "defaults": {"ssh": {"config": str(config)}},
        "hosts": {name: {"address": name} for name in MANY},
        "backends": {"llama": {"playbook": "llama-cpp", "image": "registry.invalid/llama:server-b9000"}},
        "models": {},
    }
    (folder / "inventory.yaml").write_text(yaml.safe_dump(manifest))
    yield folder, config
    for name in (JUMP, *MANY):
        lab.remove(name)


def run_in(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "cpudeploy", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_fifty_hosts_behind_one_jump_are_trusted_and_reached_at_once(many: tuple[Path, Path]):
    folder, _ = many
    trusted = run_in(folder, "trust", "--yes")
    assert trusted.returncode == 0, trusted.stdout + trusted.stderr
    assert len((folder / "known").read_text().splitlines()) == 1 + len(MANY)
    facts = run_in(folder, "facts", "--format", "json")
    assert facts.returncode == 0, facts.stderr
    assert [found["root"] for found in json.loads(facts.stdout).values()] == ["root"] * len(MANY)
