"""Asked to stop in the middle of an apply, or killed in the middle of a download: what was begun is not lost.

What breaks an upgrade is in test_faults.py.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator

import pytest

from tests.acceptance.site import Site, bare_hosts, make_site
from tests.lab.hosts import HostSpec
from tests.lab.lab import Lab
from tests.ready import Command

pytestmark = pytest.mark.lab

HOST = "cut12"


@pytest.fixture(scope="module")
def site(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One host that serves the tiny model."""
    bare_hosts(lab, HostSpec(HOST, "bookworm", engine=True))
    site = make_site(lab, tmp_path_factory.mktemp("site"), HOST)
    site.run("apply")
    yield site
    lab.remove(HOST)


def wait_for(process: Command, text: str) -> None:
    """Read what the command prints until a line holds `text`."""
    assert process.stdout is not None
    for line in process.stdout:
        if text in line:
            return
    raise AssertionError(f"it ended before it said {text!r}")


def converged(site: Site) -> None:
    """The next apply works, nothing is left over, the model answers, and then there is nothing to do."""
    site.run("apply")
    names = site.on(HOST).check_output("docker ps -a --format '{{.Names}}'").split()
    assert names == ["rag_tiny_0"]
    assert "tiny" in site.ask(HOST, 8100, site.api_key)
    assert site.settled()


def test_interrupted_once_it_finishes_what_it_does_and_says_so(site: Site):
    tiny = site.manifest["models"]["tiny"]
    tiny["context"] = 1024 if tiny["context"] == 512 else 512
    process = site.start("apply")
    wait_for(process, "record release")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, out + err
    assert "Traceback" not in err
    converged(site)


def test_a_download_that_was_cut_goes_on_where_it_stopped(site: Site):
    """The second model's file is begun, the controller dies, and the next apply does not begin anew."""
    site.manifest["models"]["smol"] = {
        "source": {"huggingface": "HuggingFaceTB/SmolLM2-135M-Instruct-GGUF"},
        "fetch": "host",
        "backend": "llama",
        "on": [HOST],
        "port": 8101,
        "context": 512,
        "cpus": "1-1",
        "api_key": {"from_file": "api-key"},
    }
    site.manifest["models"]["tiny"]["cpus"] = "0-0"
    site.lab.hub.break_requests(match="SmolLM2", rate=10_000_000)
    try:
        process = site.start("apply")
        wait_for(process, "fetch SmolLM2")
        deadline = time.monotonic() + 60
        host = site.on(HOST)
        while time.monotonic() < deadline:
            begun = host.check_output("cat /var/lib/cpudeploy/weights/partial/* 2>/dev/null | wc -c")
            if int(begun) > 10_000_000:
                break
            time.sleep(0.2)
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=30)
    finally:
        site.lab.hub.heal()
    site.lab.hub.forget_requests()
    site.run("apply")
    ranges = [request["range"] for request in site.lab.hub.requests()]
    assert any(asked and not asked.startswith("bytes=0-") for asked in ranges)
    assert "serving" in site.run("status")
