"""`cpudeploy endpoints` as a user meets it: no host is asked, and what it writes is what programs take."""

from __future__ import annotations

import http.server
import json
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from cpudeploy.cli.records import write_facts
from cpudeploy.errors import UsageError
from cpudeploy.manifest import load
from cpudeploy.plan.endpoints import endpoints, variable_of
from cpudeploy.report.endpoints_env import render_env
from cpudeploy.report.endpoints_litellm import render_litellm
from cpudeploy.report.endpoints_nginx import render_nginx
from cpudeploy.report.endpoints_text import render_endpoints
from cpudeploy.report.endpoints_usable import usable
from cpudeploy.types.base import to_data
from cpudeploy.types.endpoint import EndpointsDocument, ModelEndpoint
from cpudeploy.types.facts import Facts
from tests.factories import facts
from tests.lab.packages import unpacked
from tests.schemas import check_document

from .test_commands import cpudeploy

HOSTS = {
    "one": {"address": "10.1.2.3", "port": 2222, "user": "ops"},
    "two": {"address": "10.1.2.4"},
    "named": {"address": "three.corp"},
    "six": {"address": "fd00::6"},
    "here": {"connection": "local"},
}


def write(folder: Path, models: dict[str, Any], hosts: dict[str, Any] = HOSTS) -> Path:
    base = {"source": {"huggingface": "org/m-GGUF"}, "backend": "llama", "port": 8100}
    manifest = {
        "version": 1,
        "name": "rag",
        "hosts": hosts,
        "backends": {"llama": {"playbook": "llama-cpp", "image": "registry.invalid/llama:server-b9000"}},
        "models": {name: {**base, **model} for name, model in models.items()},
    }
    (folder / "inventory.yaml").write_text(yaml.safe_dump(manifest))
    return folder


def run(site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return cpudeploy("endpoints", *arguments, cwd=site)


def document(site: Path, *recorded: Facts) -> EndpointsDocument:
    """What the command works out, without a process of its own."""
    manifest = load(site / "inventory.yaml")
    return endpoints(manifest.deployment, manifest.playbooks, {each.host: each for each in recorded})


def told(site: Path, *recorded: Facts) -> dict[tuple[str, str], ModelEndpoint]:
    """(model, host) → its entry."""
    found = document(site, *recorded)
    check_document("endpoints", to_data(found))
    return {(each.model, each.host): each for each in found.endpoints}


def shell_lines(site: Path) -> str:
    found = usable(document(site), ())
    return render_env(found, prefixes={model: variable_of(model) for model in found.models}, base=str(site))


@pytest.mark.parametrize(
    ("listen", "host", "url", "reach"),
    [
        ("127.0.0.1", "one", "http://127.0.0.1:8100/v1", "host"),
        ("::1", "one", "http://[::1]:8100/v1", "host"),
        ("10.9.9.9", "one", "http://10.9.9.9:8100/v1", "network"),
        ("0.0.0.0", "one", "http://10.1.2.3:8100/v1", "network"),
        ("0.0.0.0", "named", "http://three.corp:8100/v1", "network"),
        ("::", "six", "http://[fd00::6]:8100/v1", "network"),
        ("10.1.0.0/16", "one", "http://10.1.2.3:8100/v1", "network"),
        ("host", "two", "http://10.1.2.4:8100/v1", "network"),
    ],
)
def test_what_the_manifest_tells_needs_no_host(tmp_path: Path, listen: str, host: str, url: str, reach: str):
    site = write(tmp_path, {"m": {"on": [host], "listen": listen, "api_key": "none"}})
    only = told(site)["m", host]
    assert (only.url, only.reach, only.problem) == (url, reach, "")


@pytest.mark.parametrize(
    ("listen", "host"),
    [("192.168.0.0/16", "one"), ("eth1", "one"), ("host", "named"), ("host", "here"), ("0.0.0.0", "here")],
)
def test_what_only_the_host_knows_is_unknown_and_says_so(tmp_path: Path, listen: str, host: str):
    site = write(tmp_path, {"m": {"on": [host], "listen": listen, "api_key": "none"}})
    only = told(site)["m", host]
    assert (only.url, only.reach) == ("", "unknown")
    assert "--facts DIR" in only.problem and listen in only.problem


def test_recorded_facts_tell_what_the_manifest_does_not(tmp_path: Path):
    on = [{"hosts": "one", "listen": "192.168.0.0/16"}, {"hosts": "two", "listen": "eth1"}]
    site = write(tmp_path, {"m": {"on": [*on, "here"], "listen": "host", "api_key": "none"}})
    recorded = (
        facts("one", addresses=("10.1.2.3", "192.168.5.1")),
        facts("two", addresses=("10.1.2.4", "172.20.0.2"), interfaces={"eth1": ("172.20.0.2",)}),
        facts("here", addresses=("10.1.2.9",)),
    )
    assert {host: each.url for (_, host), each in told(site, *recorded).items()} == {
        "one": "http://192.168.5.1:8100/v1",
        "two": "http://172.20.0.2:8100/v1",
        "here": "http://10.1.2.9:8100/v1",
    }


def test_the_command_reads_them_and_says_what_is_unknown_without(tmp_path: Path):
    site = write(tmp_path, {"m": {"on": ["one"], "listen": "eth1", "api_key": "none"}})
    write_facts(site / "recorded", (facts("one", interfaces={"eth1": ("172.20.0.2",)}),))
    without = run(site)
    assert without.returncode == 1
    assert "unknown" in without.stdout and "--facts DIR" in without.stdout
    done = run(site, "--facts", "recorded", "--format", "json")
    assert (done.returncode, done.stderr) == (0, "")
    check_document("endpoints", json.loads(done.stdout))
    assert json.loads(done.stdout)["endpoints"][0]["url"] == "http://172.20.0.2:8100/v1"


def test_an_address_the_host_does_not_have_is_found_out_by_its_facts(tmp_path: Path):
    site = write(tmp_path, {"m": {"on": ["one"], "listen": "10.9.9.9", "api_key": "none"}})
    assert "matches none" in told(site, facts("one"))["m", "one"].problem


def test_what_cannot_be_served_has_no_address(tmp_path: Path):
    site = write(tmp_path, {"m": {"on": ["one"]}, "e": {"on": ["one"], "port": 8101, "task": "embed"}})
    found = told(site)
    assert found["m", "one"].url and not found["e", "one"].url
    assert "not yet" in found["e", "one"].problem


def test_loopback_comes_with_the_tunnel_that_brings_it_here(tmp_path: Path):
    site = write(tmp_path, {"m": {"on": ["one", "here"]}})
    found = told(site)
    assert found["m", "one"].tunnel == "ssh -N -L 8100:127.0.0.1:8100 -p 2222 ops@10.1.2.3"
    assert found["m", "here"].tunnel == ""
    assert found["m", "one"].tunnel in render_endpoints(document(site), colour=False, width=80)


def test_one_host_and_one_model_are_asked_for_by_name(tmp_path: Path):
    site = write(tmp_path, {"m": {"on": ["one", "two"]}, "n": {"on": ["one"], "port": 8101}})
    done = run(site, "--model", "m", "--limit", "two")
    rows = [line.split()[:2] for line in done.stdout.splitlines() if "http://" in line]
    assert rows == [["m", "two"]]
    for arguments, says in (
        (["--check", "--format", "env"], "--check and --format env"),
        (["--model", "x"], "m, n"),
        (["--on", "x"], "named, one"),
        (["--limit", "x"], "one"),
    ):
        done = run(site, *arguments)
        assert done.returncode == 64
        assert says in done.stderr


def test_no_key_is_read_nor_shown(tmp_path: Path):
    key = {"from_command": f"touch {tmp_path}/asked hunter2"}
    site = write(tmp_path, {"m": {"on": ["one"], "listen": "host", "api_key": key}})
    for form in ("text", "json", "env", "litellm", "nginx"):
        done = run(site, "--format", form)
        assert (done.returncode, done.stderr) == (0, "")
        assert "10.1.2.3:8100" in done.stdout and "hunter2" not in done.stdout
    assert not (tmp_path / "asked").exists()


KEYED = {
    "file": {"from_file": "secrets/it's one"},
    "env": {"from_env": "RAG_KEY"},
    "home": {"from_file": "~/a key"},
}


def in_sh(lines: str, ask: str, **env: str) -> subprocess.CompletedProcess[str]:
    """What a strict POSIX shell has after it read the lines."""
    return subprocess.run(
        ["/bin/sh", "-euc", 'eval "$LINES"; ' + ask],
        env={"PATH": os.environ["PATH"], "LINES": lines, **env},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


@pytest.mark.parametrize("kind", KEYED)
def test_a_shell_has_url_name_and_key_of_the_model_meant(tmp_path: Path, kind: str):
    served = 'Qwen\'s "model"; $(touch /tmp/no) `x`'
    model = {"on": ["one"], "listen": "host", "api_key": KEYED[kind], "served_name": served}
    site = write(tmp_path, {"4-m": model})
    for file in (tmp_path / "secrets/it's one", tmp_path / "home/a key"):
        file.parent.mkdir()
        file.write_text("sk-1\n")
    lines = shell_lines(site)
    ask = (
        'printf "%s\\n" "$OPENAI_BASE_URL" "$OPENAI_API_KEY" '
        '"$LLM_4_M_BASE_URL" "$LLM_4_M_API_KEY" "$LLM_4_M_MODEL"'
    )
    got = in_sh(lines, ask, RAG_KEY="sk-1", HOME=str(tmp_path / "home"))
    url = "http://10.1.2.3:8100/v1"
    assert got.stdout.splitlines() == [url, "sk-1", url, "sk-1", served], got.stderr


def test_a_variable_that_is_not_set_stops_the_shell_with_its_name(tmp_path: Path):
    site = write(tmp_path, {"m": {"on": ["one"], "listen": "host", "api_key": KEYED["env"]}})
    got = in_sh(shell_lines(site), "true")
    assert got.returncode != 0
    assert "RAG_KEY" in got.stderr


def test_of_several_models_each_has_variables_and_none_is_the_one(tmp_path: Path):
    keyed = {"listen": "host", "api_key": "none"}
    models = {"m": {"on": ["one", "two"], **keyed}, "m-2": {"on": ["one"], "port": 8101, **keyed}}
    lines = shell_lines(write(tmp_path, models))
    ask = 'printf "%s " "$LLM_M_BASE_URL" "$LLM_M_BASE_URL_2" "$LLM_M_2_BASE_URL" "${OPENAI_BASE_URL-}"'
    assert in_sh(lines, ask).stdout.split() == [
        "http://10.1.2.3:8100/v1",
        "http://10.1.2.4:8100/v1",
        "http://10.1.2.3:8101/v1",
    ]


def entries(site: Path, *on: str) -> list[dict[str, Any]]:
    config = yaml.safe_load(render_litellm(usable(document(site), on)))
    assert list(config) == ["model_list"]
    found: list[dict[str, Any]] = config["model_list"]
    return found


def test_a_gateway_gets_an_entry_an_instance_under_the_name_clients_send(tmp_path: Path):
    key = {"from_file": "secrets/key"}
    on = ["one", {"hosts": "two", "api_key": {"from_env": "TWO"}}, {"hosts": "six", "api_key": "none"}]
    site = write(tmp_path, {"m": {"on": on, "listen": "host", "api_key": key, "served_name": "Qwen/😀: x"}})
    found = entries(site)
    assert {each["model_name"] for each in found} == {"Qwen/😀: x"}
    assert {each["litellm_params"]["model"] for each in found} == {"openai/Qwen/😀: x"}
    assert [(each["litellm_params"]["api_base"], each["litellm_params"]["api_key"]) for each in found] == [
        ("http://10.1.2.3:8100/v1", "os.environ/LLM_M_API_KEY"),
        ("http://10.1.2.4:8100/v1", "os.environ/TWO"),
        ("http://[fd00::6]:8100/v1", "none"),
    ]
    text = render_litellm(usable(document(site), ()))
    comments = [line for line in text.splitlines() if line[0] == "#"]
    assert any("LLM_M_API_KEY" in line and "from_file secrets/key" in line for line in comments)


def test_the_variables_of_the_gateway_are_those_of_the_shell(tmp_path: Path):
    first, second = ({"from_file": f"secrets/{name}"} for name in ("a", "b"))
    on = ["one", {"hosts": "two", "api_key": second}]
    site = write(tmp_path, {"m": {"on": on, "listen": "host", "api_key": first}})
    for name in ("a", "b"):
        (tmp_path / "secrets").mkdir(exist_ok=True)
        (tmp_path / "secrets" / name).write_text(f"sk-{name}\n")
    names = [each["litellm_params"]["api_key"].removeprefix("os.environ/") for each in entries(site)]
    got = in_sh(shell_lines(site), " && ".join(f'echo "${name}"' for name in names))
    assert got.stdout.split() == ["sk-a", "sk-b"], got.stderr


def test_loopback_is_for_programs_of_its_host_alone(tmp_path: Path):
    site = write(tmp_path, {"m": {"on": ["one", {"hosts": "two", "listen": "host"}], "api_key": "none"}})
    bases = [each["litellm_params"]["api_base"] for each in entries(site)]
    assert bases == ["http://10.1.2.4:8100/v1"]
    done = run(site, "--format", "litellm")
    assert "m on one" in done.stderr and "--on one" in done.stderr
    assert "left out: m on one" in done.stdout
    there = run(site, "--format", "litellm", "--on", "one")
    assert (there.returncode, there.stderr) == (0, "")
    bases = [each["litellm_params"]["api_base"] for each in yaml.safe_load(there.stdout)["model_list"]]
    assert bases == ["http://127.0.0.1:8100/v1", "http://10.1.2.4:8100/v1"]


def test_a_program_here_reaches_the_loopback_of_this_machine(tmp_path: Path):
    site = write(tmp_path, {"m": {"on": ["here"]}})
    done = run(site, "--format", "litellm")
    assert (done.returncode, done.stderr) == (0, "")
    assert "http://127.0.0.1:8100/v1" in done.stdout


def test_a_configuration_of_nothing_is_not_written(tmp_path: Path):
    site = write(tmp_path, {"m": {"on": ["one", "two"]}})
    done = run(site, "--format", "litellm")
    assert (done.returncode, done.stdout) == (1, "")
    assert "m on one" in done.stderr and "--on one" in done.stderr and "1 more" in done.stderr


class Listing(http.server.BaseHTTPRequestHandler):
    """Lists one model to whoever has the key."""

    def do_GET(self) -> None:
        known = self.headers["Authorization"] == "Bearer sk-1"
        data = json.dumps({"data": [{"id": "m"}]} if self.path == "/v1/models" and known else {}).encode()
        self.send_response(200 if known else 401)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        return


def test_what_is_asked_tells_whether_the_model_is_there(tmp_path: Path):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Listing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port, key = server.server_address[1], {"from_env": "RIGHT"}
        models = {
            "m": {"on": ["here"], "port": port, "api_key": key},
            "other": {"on": [{"hosts": "one", "listen": "127.0.0.1"}], "port": port, "api_key": key},
        }
        site = write(tmp_path, models)
        done = cpudeploy("endpoints", "--check", "--format", "json", cwd=site, RIGHT="sk-1")
        states = {each["model"]: each["state"] for each in json.loads(done.stdout)["endpoints"]}
        assert states == {"m": "serving", "other": ""}
        assert done.returncode == 0

        there = cpudeploy("endpoints", "--check", "--on", "one", cwd=site, RIGHT="sk-1")
        assert "answers, but has no other" in there.stdout
        wrong = cpudeploy("endpoints", "--check", "--model", "m", cwd=site, RIGHT="sk-2")
        assert (wrong.returncode, "refuses the key (401)" in wrong.stdout) == (1, True)
        unset = cpudeploy("endpoints", "--check", "--model", "m", cwd=site)
        assert "RIGHT is not set" in unset.stdout
        good = cpudeploy("endpoints", "--check", "--model", "m", cwd=site, RIGHT="sk-1")
        assert (good.returncode, "serving" in good.stdout, "sk-1" in good.stdout) == (0, True, False)
        server.shutdown()
    gone = cpudeploy("endpoints", "--check", "--model", "m", cwd=site, RIGHT="sk-1")
    assert (gone.returncode, "no answer" in gone.stdout) == (1, True)


class Model(http.server.BaseHTTPRequestHandler):
    """Answers in two pieces, the second when it is told to, with what it was asked."""

    protocol_version = "HTTP/1.1"
    go_on: threading.Event

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self._chunk(f"{self.path} {self.headers['Authorization']}\n")
        self.go_on.wait(30)
        self._chunk("end\n")
        self._chunk("")

    def _chunk(self, text: str) -> None:
        self.wfile.write(f"{len(text):x}\r\n{text}\r\n".encode())
        self.wfile.flush()

    def log_message(self, *_: object) -> None:
        return


@contextmanager
def model_server() -> Iterator[tuple[int, threading.Event]]:
    go_on = threading.Event()
    handler = type("Here", (Model,), {"go_on": go_on})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server.server_address[1], go_on
        finally:
            go_on.set()
            server.shutdown()


def free_port() -> int:
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        port: int = asked.getsockname()[1]
        return port


def nginx(folder: Path, snippet: str, *arguments: str) -> subprocess.Popen[str]:
    """Debian's nginx, with everything of its own below `folder`, and the snippet as in conf.d."""
    (folder / "conf.d").mkdir(parents=True)
    (folder / "conf.d/cpudeploy.conf").write_text(snippet)
    temporary = "".join(
        f"{name}_temp_path {folder}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"pid {folder}/pid; error_log stderr; worker_processes 1; daemon off; master_process off;\n"
        f"events {{}}\nhttp {{ access_log off; {temporary} include {folder}/conf.d/*.conf; }}\n"
    )
    binary = unpacked("nginx") / "usr/sbin/nginx"
    return subprocess.Popen(
        [binary, "-p", folder, "-e", "stderr", "-c", folder / "nginx.conf", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def snippet_of(site: Path, *on: str) -> str:
    return render_nginx(usable(document(site), on))


def test_nginx_takes_the_file(tmp_path: Path):
    keyed = {"listen": "host", "api_key": {"from_env": "KEY"}}
    models = {"m": {"on": ["one", "two", "six"], **keyed}, "4-n": {"on": ["one"], "port": 8101, **keyed}}
    with nginx(tmp_path / "nginx", snippet_of(write(tmp_path, models)), "-t") as process:
        said, _ = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert "warn" not in said


def test_nginx_hands_on_path_and_key_and_a_stream_as_it_comes_and_passes_by_who_is_gone(tmp_path: Path):
    with model_server() as (port, go_on):
        on = [{"hosts": "gone", "port": free_port()}, {"hosts": "there", "port": port}]
        hosts = {"gone": {"address": "127.0.0.2"}, "there": {"address": "127.0.0.3"}}
        site = write(tmp_path, {"m": {"on": on}}, hosts)
        front = free_port()
        text = snippet_of(site, "gone", "there").replace("listen 127.0.0.1:8080", f"listen 127.0.0.1:{front}")
        process = nginx(tmp_path / "nginx", text)
        try:
            with (
                httpx.Client(transport=httpx.HTTPTransport(retries=8), trust_env=False, timeout=30) as client,
                client.stream(
                    "POST",
                    f"http://127.0.0.1:{front}/m/v1/chat/completions",
                    content=b"{}",
                    headers={"Authorization": "Bearer sk-1"},
                ) as response,
            ):
                lines = response.iter_lines()
                # The model waits: a piece that is here was not kept back.
                assert next(lines) == "/v1/chat/completions Bearer sk-1"
                go_on.set()
                assert list(lines) == ["end"]
        finally:
            process.terminate()
            process.communicate(timeout=60)


def test_instances_that_want_different_requests_are_not_balanced(tmp_path: Path):
    keyed = {"listen": "host", "api_key": {"from_env": "A"}}
    for other in ({"api_key": {"from_env": "B"}}, {"served_name": "b"}):
        site = write(tmp_path, {"m": {"on": ["one", {"hosts": "two", **other}], **keyed}})
        with pytest.raises(UsageError, match=next(iter(other))) as refused:
            snippet_of(site)
        assert "--limit" in refused.value.do


@pytest.mark.parametrize("said", [b'{"data": 5}', b"5", b"<html>", b"[" * 100_000, b" " * (2 << 20)])
def test_whatever_else_listens_there_is_no_model(tmp_path: Path, said: bytes):
    class Other(Listing):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Other) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        site = write(tmp_path, {"m": {"on": ["here"], "port": server.server_address[1], "api_key": "none"}})
        done = cpudeploy("endpoints", "--check", "--format", "json", cwd=site)
        server.shutdown()
    assert (done.returncode, done.stderr) == (1, "")
    (only,) = json.loads(done.stdout)["endpoints"]
    assert only["state"] in ("answers, but has no m", f"no answer: the answer is larger than {1 << 20} bytes")
