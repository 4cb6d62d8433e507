"""What one apply leaves on a host: the full wanted specs, written before anything is created.

The container's labels only name the release; the spec is found here, compared field by field.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal

import msgspec

from .base import SecretRef, Struct, digest, from_data, to_data
from .facts import Publish

RELEASE_SCHEMA = 2


class Mount(Struct, frozen=True, kw_only=True):
    """A bind mount or named volume (`source` without a slash)."""

    source: str
    target: str
    read_only: bool = True


class SecretFile(Struct, frozen=True, kw_only=True):
    """A secret as a file: on the host at `path` (0600), mounted read-only at `target`."""

    name: str
    path: str
    target: str
    secret: SecretRef


class ContainerSpec(Struct, frozen=True, kw_only=True):
    """A container, engine-neutral and complete. Sizes in bytes; swap always equals memory (none extra).

    `image` is identity, not address: the original repository with the digest (`ghcr.io/x/y@sha256:…`),
    whichever place it was pulled from.

    cpuset_mems: NUMA nodes its memory comes from, as a kernel list; empty: any.

    `user` empty: the image's. `healthcheck`: `none` disables the image's own.
    """

    image: str
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...]
    env: dict[str, str] = {}
    publish: tuple[Publish, ...] = ()
    cpuset: str
    cpuset_mems: str = ""
    memory: int
    shm: int | None = None
    pids: int = 4096
    cap_drop: tuple[str, ...] = ("ALL",)
    cap_add: tuple[str, ...] = ()
    security_opt: tuple[str, ...] = ("no-new-privileges",)
    ulimits: dict[str, int] = {}
    read_only: bool = True
    tmpfs: dict[str, str] = {}
    mounts: tuple[Mount, ...] = ()
    secrets: tuple[SecretFile, ...] = ()
    networks: tuple[str, ...] = ()
    log_max_size: str = "10m"
    log_max_file: int = 3
    stop_timeout_s: int = 30
    healthcheck: Literal["image", "none"] = "none"
    user: str = ""
    init: bool = False


class Check(Struct, frozen=True, kw_only=True):
    """One request of a health gate: passes on `status` and, if given, when the JSON value at `pointer`
    (RFC 6901, `*` stands for any list element) equals `equals`, or exists when `equals` is None.

    Where an answer that does not pass holds `instead_when` (Python regex), `instead` is asked from then
    on."""

    name: str
    method: Literal["GET", "POST"] = "GET"
    path: str
    body: str | None = None
    status: int = 200
    pointer: str | None = None
    equals: str | None = None
    auth: bool = True
    instead_when: str | None = None
    instead: Check | None = None


_CHECK_SINCE = ("instead", "instead_when")


class Gate(Struct, frozen=True, kw_only=True):
    """When a model counts as serving: no restart for `stable_s`, then every check in order. `busy`: passes
    while the engine is answering somebody; None: nobody can tell."""

    port: int
    stable_s: int
    deadline_s: int
    checks: tuple[Check, ...]
    busy: Check | None = None


class Diagnosis(Struct, frozen=True, kw_only=True):
    """A known failure: matched by exit code and/or log pattern (Python regex), told as cause and do.

    A named group of the pattern, `(?P<length>[0-9]+)`, stands in both for `{length}`."""

    exit_code: int | None = None
    oom: bool | None = None
    log: str | None = None
    cause: str
    do: str


class Instance(Struct, frozen=True, kw_only=True):
    """The full normalised spec of one running model: what people asked for, and what it became.

    The first fields are the ones a diff speaks of; `container` is what the engine is told. `cpus`,
    `memory_asked` and `kv_asked` are the wishes the allocation was made from, so that it can be kept, and
    `params` the playbook's parameters. `gate` is how it was proven; a changed gate alone never replaces a
    container.
    """

    model: str
    instance: int
    backend: str
    playbook: str
    engine_version: str
    source: str
    tree: str
    context: int
    parallel: int
    threads: int
    threads_batch: int
    served_name: str
    task: str
    cpus: str = "auto"
    memory_asked: int | None = None
    kv: int = 0
    """Bytes of the KV cache, where the engine is told its size."""
    kv_asked: int | None = None
    params: dict[str, str | int | float | bool] = {}
    container: ContainerSpec
    gate: Gate
    api_key: SecretRef | None = None
    image_reference: str = ""
    """The image as the manifest asked for it, normalised, with its tag."""


class Release(Struct, frozen=True, kw_only=True):
    """`<state>/<deployment>/releases/<id>.json`, 0600. Ids sort by age: `0007-1a2b3c4d`.

    `secret_marks`: secret file path → salted scrypt of the value, filled in by the host's writer.
    """

    schema: int = RELEASE_SCHEMA
    id: str
    deployment: str
    host: str
    origin: str
    created: str
    """RFC 3339 in UTC, by the host's clock."""
    instances: dict[str, Instance]
    """By container name."""
    secret_marks: dict[str, str] = {}
    by: str = ""
    """Who applied it, for people: `ops@laptop`."""
    proven: tuple[str, ...] = ()
    """Container names that passed their gate as this release has them."""


def identity(instance: Instance) -> str:
    """What a hold is on: all that decides whether the instance passes its gate, but the secrets' values.

    A field that came after holds were first written takes no part while it says nothing: they go on holding.
    """
    gate = to_data(instance.gate)
    for check in (*gate["checks"], gate["busy"] or {}):
        for name in _CHECK_SINCE:
            if check.get(name, ...) is None:
                del check[name]
    return digest((instance.container, gate))


def read_release(document: Any) -> Release | None:
    """A release document from a host, brought to the form of today step by step. None when it is not there,
    damaged, or written by a newer cpudeploy: then its state counts as lost, and the container is compared by
    what inspect tells.
    """
    schema = document_schema(document)
    if not 1 <= schema <= RELEASE_SCHEMA:
        return None
    for step in range(schema, RELEASE_SCHEMA):
        document = _UPGRADES[step](document)
    try:
        return from_data(document, Release)
    except msgspec.ValidationError:
        return None


def document_schema(document: Any) -> int:
    """The version of the form a release document was written in; 0 where it doesn't tell."""
    schema = document.get("schema") if isinstance(document, dict) else None
    return schema if isinstance(schema, int) and not isinstance(schema, bool) else 0


def by_age(releases: Iterable[str]) -> list[str]:
    """Release ids, oldest first; what is no id comes before all."""
    return sorted(releases, key=lambda id: (release_number(id), id))


def release_number(id: str) -> int:
    """The running number an id begins with; 0 without one."""
    head = id.partition("-")[0]
    return int(head) if head.isascii() and head.isdecimal() else 0


def _from_1(document: dict[str, Any]) -> dict[str, Any]:
    """Who applied it and what was proven was not written down then: both stay empty."""
    return {**document, "schema": 2}


_UPGRADES: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {1: _from_1}
"""Schema → what makes the next one of a document."""
