"""What a host is: one script over one connection, one document back, parsed here into `types.facts`.

`probe` does the I/O, `parse` is pure. What can't be read is Unknown with why, never a guess. Nothing on
the host is changed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from importlib import resources
from typing import TYPE_CHECKING

import msgspec

from ..errors import HostError
from ..types.base import from_json, to_json
from ..types.facts import Facts, Question
from .cpulist import whole
from .engine import read_containers, read_engine, read_images, read_networks, read_proxy, read_volumes
from .held import (
    read_disks,
    read_files,
    read_host_record,
    read_packages,
    read_releases,
    read_weights,
)
from .limits import Limits, throttled_containers
from .memory import read_memory
from .network import read_addresses, read_interfaces, read_ports, read_routes
from .processors import read_cpu
from .records import Records
from .safety import read_guards, read_held, read_in_flight, read_lease, read_used_plans
from .system import read_os

if TYPE_CHECKING:
    from ..transport import Connection

__all__ = ["parse", "probe"]

DEADLINE_S = 60
_MISSHAPEN = (ValueError, LookupError, TypeError, AttributeError, RecursionError)
"""Where an answer has another form than its reader knows; HostError, with its own words, is none of them."""
_SELINUX = {"1": "enforcing", "0": "permissive"}


def probe(connection: Connection, questions: Iterable[Question] = ()) -> Facts:
    """All facts of a host and answers to `questions`. Raises ConnectError, SudoError, HostError."""
    begun = time.monotonic()
    host = connection.host
    done = connection.run(
        script(),
        args=arguments(questions, weights_dir=host.weights_dir),
        root=host.sudo.use != "none",
        deadline_s=DEADLINE_S,
    )
    if done.rc != 0:
        raise HostError(f"reading facts failed: {done.stderr.strip() or done.rc}", where=host.name)
    facts = parse(done.stdout, host.name)
    return msgspec.structs.replace(facts, root=connection.root, probe_s=round(time.monotonic() - begun, 3))


def parse(document: bytes, host: str) -> Facts:
    """The probe's document as facts, without how root was had. Raises HostError when it is damaged."""
    records = Records(document, host)
    try:
        # Written and read once: what a host or its engine tells is held to the types here, and nowhere else.
        return from_json(to_json(_facts(records, host)), Facts)
    except _MISSHAPEN as error:
        raise HostError(
            f"what this host tells can't be understood ({type(error).__name__}: {str(error)[:200]})",
            where=host,
            do="look at what `docker version`, `docker network ls` and /var/lib/cpudeploy are there",
        ) from None


def _facts(records: Records, host: str) -> Facts:
    clock = records.text("clock").strip()
    engine = read_engine(records)
    ours = engine.state == "running"
    notes: list[str] = []
    limits = Limits(records)
    throttled = throttled_containers(records)
    containers = {
        name: msgspec.structs.replace(each, throttled=throttled.get(each.id))
        for name, each in (read_containers(records) if ours else {}).items()
    }
    os = read_os(records, notes)
    return Facts(
        host=host,
        os=os,
        cpu=read_cpu(records, os.arch, limits, notes),
        memory=read_memory(records, limits, notes),
        root="none",
        clock=whole(clock) or 0,
        addresses=read_addresses(records),
        routes=read_routes(records),
        interfaces=read_interfaces(records),
        ports=read_ports(records),
        selinux=_SELINUX.get(records.text("selinux").strip(), "disabled"),
        proxy=read_proxy(records),
        tools={word.partition("=")[0]: word.endswith("=1") for word in records.text("tools").split()},
        engine=engine,
        containers=containers,
        networks=read_networks(records) if ours else {},
        volumes=read_volumes(records) if ours else {},
        images=read_images(records) if ours else {},
        weights=read_weights(records),
        disks=read_disks(records),
        packages=read_packages(records),
        files=read_files(records),
        releases=read_releases(records),
        held=read_held(records, notes),
        used_plans=read_used_plans(records),
        lease=read_lease(records),
        in_flight=read_in_flight(records),
        guards=read_guards(records),
        host_record=read_host_record(records),
        notes=tuple(notes),
    )


def script() -> str:
    """The one fixed script."""
    return resources.files(__package__).joinpath("probe.sh").read_text(encoding="utf-8")


def arguments(questions: Iterable[Question], *, weights_dir: str) -> dict[str, str]:
    """Questions as the script's assignments. A question asked twice is asked once."""
    args = {"weights_dir": weights_dir}
    asked = dict.fromkeys(questions)
    for number, question in enumerate(asked, start=1):
        if "\n" in question.key:
            raise HostError(f"no host can be asked about {question.key!r}: it holds a line break")
        args |= {
            f"q{number}_kind": question.kind,
            f"q{number}_key": question.key,
            f"q{number}_arg": question.arg,
        }
    return {**args, "questions": str(len(asked))}
