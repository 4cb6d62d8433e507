"""Servers for `benchmarks.tuning`: deployed by the real command on hosts of a lab, then started as copies.

In: a lab, an engine, the CPUs a host may use. Out: a `Place`, which knows what was rendered and starts a copy
of that container, the same in all but what a setting changes. The deployed one is stopped before.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

from benchmarks import f16
from benchmarks.load import Target
from benchmarks.tuning_settings import LLAMA, VLLM, Setting
from cpudeploy.execute.cause import root_cause
from tests.acceptance.site import make_site
from tests.lab import engine, vllm
from tests.lab.hosts import Host, HostSpec
from tests.lab.lab import Lab
from tests.lab.shell import LabError, say, tail

MODELS = {LLAMA: "HuggingFaceTB/SmolLM2-135M-Instruct-GGUF", VLLM: vllm.SMOLLM2}
BACKENDS = {LLAMA: "llama", VLLM: "vllm"}
CONTEXT, PARALLEL = 1024, 4
MEMORY = "6GiB"
"""The container's limit, by hand: enough for what an engine takes when nobody tells it how much."""
PORT = 8100
COPY = "setting"
DEPLOY_S = 1500
START_S = 300
F16_FILE = "/var/tmp/f16.gguf"  # noqa: S108
CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Place:
    """One engine on one host. cpus: those the container may use. found: what `docker inspect` told of the
    deployed container."""

    host: Host
    deployment: str
    engine: str
    cpus: frozenset[int]
    key: str
    found: dict[str, Any]

    @property
    def command(self) -> list[str]:
        """The arguments that cpudeploy rendered."""
        return list(self.found["Config"]["Cmd"])

    @property
    def env(self) -> dict[str, str]:
        """All variables: those rendered, and the image's own."""
        return dict(word.split("=", 1) for word in self.found["Config"]["Env"])

    @property
    def rendered(self) -> dict[str, str]:
        """The variables that are not the image's own."""
        told = json.loads(docker(self.host, "image", "inspect", self.found["Image"]))[0]["Config"]["Env"]
        return {name: value for name, value in self.env.items() if f"{name}={value}" not in told}

    @property
    def target(self) -> Target:
        return Target(self.host.address, PORT, "smollm2", self.key)

    @contextmanager
    def running(self, setting: Setting) -> Iterator[float]:
        """A copy with this setting, healthy; how many seconds that took. It is gone afterwards. Raises
        LabError with its last words where it does not get there."""
        remove(self.host)
        try:
            self._create(setting)
            began = time.monotonic()
            docker(self.host, "start", COPY)
            self._wait()
            yield time.monotonic() - began
        finally:
            remove(self.host)

    def why_down(self) -> str:
        """What became of a copy that stopped answering; nothing while it runs."""
        state = json.loads(docker(self.host, "inspect", COPY))[0]["State"]
        if state["Running"]:
            return ""
        return "killed: memory" if state["OOMKilled"] else f"exit {state['ExitCode']}"

    def cpu_seconds(self) -> float:
        """CPU time that the host has had in all, by its control group."""
        pid = engine.docker("inspect", "--format", "{{.State.Pid}}", self.host.container).strip()
        for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if "cpuacct" in controllers.split(","):
                return int((CGROUPS / "cpuacct" / path.lstrip("/") / "cpuacct.usage").read_text()) / 1e9
            if not controllers and (told := CGROUPS / path.lstrip("/") / "cpu.stat").exists():
                return int(told.read_text().split()[1]) / 1e6
        raise LabError(f"no control group of {self.host.name} counts CPU time")

    def _create(self, setting: Setting) -> None:
        """Through the engine's API, which takes what inspect gives."""
        config, limits = dict(self.found["Config"]), dict(self.found["HostConfig"])
        for name in ("Hostname", "Domainname", "Labels"):
            config.pop(name, None)
        config |= {
            "Image": self.found["Image"],
            "Cmd": setting.command(self.command),
            "Env": [f"{name}={value}" for name, value in setting.variables(self.env).items()],
        }
        network = f"{self.deployment}_pub"
        limits |= {"NetworkMode": network, "RestartPolicy": {"Name": "no"}}
        if setting.weights:
            limits["Binds"] = [*(limits["Binds"] or []), f"{F16_FILE}:/f16.gguf:ro"]
        body = config | {"HostConfig": limits, "NetworkingConfig": {"EndpointsConfig": {network: {}}}}
        told = ask_engine(self.host, f"POST /containers/create?name={COPY}", json.dumps(body))
        if '"Id"' not in told:
            raise LabError(f"no container for {setting.title}: {told}")

    def _wait(self) -> None:
        end = time.monotonic() + START_S
        while not healthy(self.host.address):
            over = time.monotonic() > end
            if over or (why := self.why_down()):
                log = docker(self.host, "logs", COPY)
                words = root_cause(log.splitlines()) or tail(log, 6)
                raise LabError(f"{f'not ready after {START_S} s' if over else why}: {words}")
            time.sleep(0.5)


def deploy(lab: Lab, spec: HostSpec, name: str) -> Place:
    """The model on a host that has nothing, as a user would deploy it; then its server is stopped."""
    lab.add(spec)
    host = lab.hosts[spec.name]
    if name == VLLM:
        vllm.serve_models(lab, vllm.SMOLLM2)
        vllm.publish(lab)
    else:
        engine.docker("cp", f16.smollm2(), f"{host.container}:{F16_FILE}")
        host.exec(["chmod", "644", F16_FILE])
    deployment = f"tune-{spec.name}"
    with tempfile.TemporaryDirectory() as folder:
        site = make_site(lab, Path(folder), host.name, name=deployment)
        site.manifest["mirrors"]["images"].append(
            {"match": "docker.io/", "try": [f"http://{lab.registry.plain}/"]}
        )
        site.manifest["backends"]["vllm"] = {"playbook": "vllm-cpu", "image": vllm.IMAGE}
        site.manifest["models"] = {
            "smollm2": {
                "source": {"huggingface": MODELS[name]},
                "backend": BACKENDS[name],
                "on": [host.name],
                "listen": "host",
                "port": PORT,
                "context": CONTEXT,
                "parallel": PARALLEL,
                "memory": MEMORY,
                "api_key": {"from_file": "api-key"},
            }
        }
        say(f"apply {name} on {host.name}")
        site.run("apply", timeout=DEPLOY_S)
        key = site.api_key
    container = f"{deployment}_smollm2_0"
    docker(host, "stop", container)
    found = json.loads(docker(host, "inspect", container))[0]
    return Place(host, deployment, name, cpus_of(found["HostConfig"]["CpusetCpus"]), key, found)


def cpus_of(listed: str) -> frozenset[int]:
    """A cpuset such as 0-3,8 as numbers."""
    ends = [part.split("-") for part in listed.split(",")]
    return frozenset(cpu for each in ends for cpu in range(int(each[0]), int(each[-1]) + 1))


def healthy(address: str) -> bool:
    connection = HTTPConnection(address, PORT, timeout=5)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def remove(host: Host) -> None:
    """The copy, whatever state it is in."""
    host.exec(["docker", "rm", "--force", COPY])


def ask_engine(host: Host, request: str, body: str) -> str:
    """A request to the API of the host's own engine; the answer as it came, headers too. The docker command
    could say less in a request than inspect tells."""
    lines = [f"{request} HTTP/1.0", "Host: engine", f"Content-Length: {len(body.encode())}"]
    lines += ["Content-Type: application/json", "", body]
    words = ["docker", "--host", f"unix://{engine.socket()}", "exec", "-i", host.container]
    # Its input stays open until the answer is there: who has closed already is not served.
    with subprocess.Popen(
        ["timeout", "60", *words, "docker", "system", "dial-stdio"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin and process.stdout
        process.stdin.write("\r\n".join(lines))
        process.stdin.flush()
        return process.stdout.read()


def docker(host: Host, *words: str) -> str:
    """A command to the host's own engine; what it printed, on either stream."""
    done = host.exec(["docker", *words])
    if done.returncode != 0:
        raise LabError(f"docker {words[0]} on {host.name}: {done.stderr.strip()}")
    return done.stdout + done.stderr
