"""A lab: hosts, registries and a model hub on a network of their own.

In: a name, a subnet, and the hosts wanted. Out: everything running, described in a state folder, and gone
again after `down`. Labs of different names and subnets run side by side and share one engine.
"""

from __future__ import annotations

import ipaddress
import json
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.lab import cache, engine, hosts, images, llama, models
from tests.lab.hosts import Host, HostSpec
from tests.lab.hub_process import Hub
from tests.lab.registry import Registries
from tests.lab.shell import LabError, run, step, write_whole

DEMO = ("demo", "10.77.1.0/24")
TEST = ("test", "10.77.2.0/24")
ENGINES = ("engines", "10.77.3.0/24")
TWO_HOSTS = (HostSpec("deb12", "bookworm"), HostSpec("deb13", "trixie", sudo="password"))
FIRST_HOST = 11  # last part of the first host's address; the gateway is 1, the registries are 2 and 3
LLAMA_REPOSITORY = llama.IMAGE.partition("/")[2]


class Lab:
    """One lab. Making the object starts nothing; a lab that runs is seen by every object of its name."""

    def __init__(self, name: str = DEMO[0], subnet: str | None = None) -> None:
        known = dict([DEMO, TEST, ENGINES])
        self.name = name
        self.state = cache.root() / "run" / name
        recorded = self._recorded()
        chosen = recorded.get("subnet") or subnet or known.get(name)
        if chosen is None or (subnet and subnet != chosen):
            raise LabError(f"lab {name} has subnet {chosen}" if chosen else f"lab {name} needs a subnet")
        self.subnet = ipaddress.ip_network(chosen)
        self.network = f"cpudeploy-{name}"
        self.hosts: dict[str, Host] = {}
        self._load_hosts()
        addresses = {"tls": str(self.subnet[2]), "plain": str(self.subnet[3])}
        self.registry = Registries(self.network, self.network, addresses, self.state)  # type: ignore[arg-type]
        self.hub = Hub(str(self.subnet[1]), self.state)

    @property
    def gateway(self) -> str:
        """The controller's address on the lab's network."""
        return str(self.subnet[1])

    @property
    def key(self) -> Path:
        """The private key that `ops` and `root` accept on every host."""
        return self.state / "id_ed25519"

    @property
    def known_hosts(self) -> Path:
        """The host keys of the lab's hosts."""
        return self.state / "known_hosts"

    @property
    def sudo_password(self) -> str:
        """The password of `ops`, for the hosts whose sudo asks for one."""
        return (self.state / "sudo-password").read_text()

    @property
    def running(self) -> bool:
        """Whether `up` has finished and its engine runs."""
        return self._recorded().get("ready") is True and engine.running()

    def build(self, suites: Sequence[str] = images.SUITES) -> None:
        """Make and import everything that is slow; only what the cache lacks."""
        with engine.held():
            _together(
                images.import_llama,
                images.import_registry,
                models.smollm2,
                models.tiny,
                *(lambda suite=suite: images.import_host(suite) for suite in suites),
            )

    def up(self, specs: Sequence[HostSpec] = TWO_HOSTS, *, services: bool = True) -> Lab:
        """Start the lab, or what is missing of it; without `services` only the hosts."""
        with engine.held():
            self.build(sorted({spec.suite for spec in specs}))
            with self._locked(), step(f"start lab {self.name}"):
                self._prepare()
                jobs: list[Callable[[], object]] = [lambda: self._add(specs)]
                if services:
                    jobs += [self.hub.start, self._start_registries]
                _together(*jobs)
                self._record(ready=True)
        return self

    def add(self, *specs: HostSpec) -> list[Host]:
        """Start more hosts in a running lab, or the same ones anew where their spec changed."""
        for suite in {spec.suite for spec in specs}:
            images.import_host(suite)
        with self._locked():
            self._add(specs)
        return [self.hosts[spec.name] for spec in specs]

    def remove(self, name: str) -> None:
        """Stop a host and delete its disk. One that comes later under this name has the same host key."""
        with self._locked():
            host = self.hosts.pop(name)
            engine.docker("rm", "--force", "--volumes", host.container)
            self._record()

    def down(self) -> None:
        """Stop the lab and delete its state, however far it had come; the cache stays."""
        if not self.state.exists() and not engine.running():
            return
        # after a crash the containers are still on disk, so the engine is needed to remove them
        with engine.held(), self._locked():
            self.hub.stop()
            mine = ["--filter", f"label={self._label}"]
            if containers := engine.docker("ps", "--all", "--quiet", *mine).split():
                engine.docker("rm", "--force", "--volumes", *containers)
            if networks := engine.docker("network", "ls", "--quiet", *mine).split():
                engine.docker("network", "rm", *networks)
            shutil.rmtree(self.state, ignore_errors=True)
            self.hosts.clear()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One change of this lab at a time, each from what the last one left."""
        with cache.lock(f"lab-{self.name}"):
            self._load_hosts()
            yield

    def _prepare(self) -> None:
        """The state folder, the keys and the network."""
        self.state.mkdir(parents=True, exist_ok=True)
        self.state.chmod(0o700)
        self._record()  # a lab that comes no further than this can be found and taken down
        hosts.make_key(self.key)
        password = self.state / "sudo-password"
        if not password.exists():
            password.touch(mode=0o600)
            password.write_text(secrets.token_urlsafe(12))
        if not engine.docker("network", "ls", "--quiet", "--filter", f"name=^{self.network}$").strip():
            if f" {self.gateway}/" in run(["ip", "-4", "-o", "address"]).stdout:
                raise LabError(f"{self.subnet} is in use on this machine; choose another subnet")
            shape = ["--subnet", str(self.subnet), "--gateway", self.gateway]
            engine.docker("network", "create", *shape, "--label", self._label, self.network)

    def _start_registries(self) -> None:
        self.registry.start([self._label])
        with step("push llama-server to both registries"):
            _together(
                lambda: self.registry.push(llama.IMAGE, LLAMA_REPOSITORY, "tls"),
                lambda: self.registry.push(llama.IMAGE, LLAMA_REPOSITORY, "plain"),
            )

    def _add(self, specs: Sequence[HostSpec]) -> None:
        alive = set(engine.docker("ps", "--format", "{{.Names}}", "--filter", f"label={self._label}").split())
        fresh = []
        for spec in specs:
            old = self.hosts.get(spec.name)
            if old is not None and old.spec == spec and old.container in alive:
                continue
            host = Host(spec, self._address(spec.name), f"{self.network}-{spec.name}", self.network)
            self.hosts[spec.name] = host
            fresh.append(host)
        self._record()
        _together(*(lambda host=host: self._start_host(host) for host in fresh))
        write_whole(self.known_hosts, hosts.known_hosts(list(self.hosts.values()), self.state))

    def _start_host(self, host: Host) -> None:
        if host.spec.engine:
            images.make_engine_host(host.spec.suite, self.network)
        hosts.create(host, [self._label], self.state)
        hosts.finish(host, self.sudo_password)

    def _address(self, name: str) -> str:
        """The host's address: the same for as long as the lab lives, and never another's, so that no host key is
        looked up where somebody else's was known."""
        if name not in self._addresses:
            taken = set(self._addresses.values())
            free = (address for address in map(str, list(self.subnet)[FIRST_HOST:-1]) if address not in taken)
            self._addresses[name] = next(free, "")
            if not self._addresses[name]:
                raise LabError(f"no address left in {self.subnet}")
        return self._addresses[name]

    @property
    def _label(self) -> str:
        return f"cpudeploy.lab={self.name}"

    def _recorded(self) -> dict[str, Any]:
        file = self.state / "lab.json"
        found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
        return found

    def _load_hosts(self) -> None:
        recorded = self._recorded()
        self.hosts = {host.name: host for host in map(hosts.host_from_json, recorded.get("hosts", []))}
        self._addresses: dict[str, str] = recorded.get("addresses", {})

    def _record(self, *, ready: bool | None = None) -> None:
        """Write the state file; `ready` stays as it was unless given."""
        ready = self._recorded().get("ready", False) if ready is None else ready
        data = {
            "subnet": str(self.subnet),
            "ready": ready,
            "hosts": [host.as_json() for host in self.hosts.values()],
            "addresses": self._addresses,
        }
        write_whole(self.state / "lab.json", json.dumps(data, indent=1))


def _together(*jobs: Callable[[], object]) -> None:
    """Run the jobs at the same time; the first failure is raised once all have ended."""
    with ThreadPoolExecutor(max_workers=min(len(jobs), 16) or 1) as pool:
        for future in [pool.submit(job) for job in jobs]:
            future.result()
