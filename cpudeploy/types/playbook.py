"""What is known about an engine or a host, as data: the typed form of a file in `playbooks/`.

Read by `manifest/` (schema-checked there), used by sizing and plan. Templates stay text until the
plan renders them over the closed context (model, host, cpu, alloc, image, param, files).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from .base import Count, Struct
from .release import Check, Diagnosis

Value = str | int | float | bool


class Parameter(Struct, frozen=True, kw_only=True):
    """Something a backend may set under `params`; the default tells the type.

    choices: all there is to choose from; minimum, maximum: of numbers, both included.
    """

    default: Value
    description: str
    choices: tuple[Value, ...] = ()
    minimum: float | None = None
    maximum: float | None = None


class CpuNeed(Struct, frozen=True, kw_only=True):
    """Flags a CPU must have (as /proc/cpuinfo names them) where `arch` and `when` hold; `do`: else what."""

    flags: tuple[str, ...]
    arch: str | None = None
    when: str | None = None
    do: str = ""


class ImageNeed(Struct, frozen=True, kw_only=True):
    """A condition on the image's version that must hold, why, and what to do where it does not."""

    when: str
    why: str
    do: str


class Overhead(Struct, frozen=True, kw_only=True):
    """What an engine takes beside a model's weights and its KV cache, where `when` holds; the first entry is
    the one where it does. In MiB.

    engine: of a server with one rank, ready and having answered. compile: more than that while it compiles,
    before the KV cache is there. rank: of each further one. kv: what the size of the KV cache can be said in.
    reads_limit: it starts only where its memory limit has room for the KV cache beside all that is charged to
    it by then, the pages of the model's files among it.
    """

    when: str | None = None
    engine_mib: Count
    compile_mib: Count = 0
    rank_mib: Count = 0
    kv: Literal["bytes", "GiB"] = "bytes"
    reads_limit: bool = False


class Refusal(Struct, frozen=True, kw_only=True):
    """Flags that a user's args, and variables that their env may not hold, and why: one clause."""

    flags: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    why: str


class ByHand(Struct, frozen=True, kw_only=True):
    """What a user's args or env may say although the playbook renders it: theirs wins, and is counted with.

    sets: what it becomes: `context` or `context_total` (tokens of a request, of all), `parallel`, `kv`
    (bytes), `bind` (a cpu list a rank, joined by |, or one of the words in `harms`), `params.NAME`.
    unit: bytes that one of it stands for. gives: the value of flags that take none.
    harms: value → what it costs, one clause, which is told as a warning.
    """

    flags: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    sets: str
    unit: str | None = None
    gives: Value | None = None
    harms: dict[str, str] = {}


class Argument(Struct, frozen=True, kw_only=True):
    """One or more command-line arguments (each a template, never split), rendered when `when` holds.

    `field`: the manifest field this flag speaks for; user args that repeat `flags` are refused with it,
    unless the playbook's `by_hand` has them.
    """

    args: tuple[str, ...]
    when: str | None = None
    flags: tuple[str, ...] = ()
    field: str | None = None


class ContainerTemplate(Struct, frozen=True, kw_only=True):
    """How a container of this engine looks. Strings are templates; a variable that comes out empty is not
    set."""

    port: int
    entrypoint: tuple[str, ...] = ()
    arguments: tuple[Argument, ...]
    env: dict[str, str] = {}
    weights_target: str
    api_key_file: str | None = None
    cap_add: tuple[str, ...] = ()
    security_opt: tuple[str, ...] = ("no-new-privileges",)
    ulimits: dict[str, int] = {}
    read_only: bool = True
    tmpfs: dict[str, str] = {}
    shm: str | None = None
    volumes: dict[str, str] = {}
    stop_timeout_s: int = 30
    healthcheck: Literal["image", "none"] = "none"


class HealthTemplate(Struct, frozen=True, kw_only=True):
    """The gate: `ready` and `listed` always, then the task's own checks. Bodies are templates.

    deadline = `start_s` + weights bytes / `load_bytes_per_s`. `usual_start_s`: what a start takes on an idle
    host besides reading the weights, for the estimate of a gap in service.
    """

    stable_s: int = 2
    start_s: int = 60
    usual_start_s: int = 3
    load_bytes_per_s: int = 100_000_000
    ready: tuple[Check, ...]
    tasks: dict[str, tuple[Check, ...]]
    closed: Check | None = None
    """What must be refused without the API key: asked last, only where there is one."""
    busy: Check | None = None
    """What passes while the engine answers somebody; None: nobody can tell."""


class Playbook(Struct, frozen=True, kw_only=True):
    """One playbook. kind `engine` serves models; kind `host` prepares machines.

    `images`: which versions it knows. `cpu`: what the processor must have. `steps` in order, each
    `{step name: settings}`. `weights`: which file formats the engine reads. `memory`, `threads`: named models
    of sizing. `by_hand`: what a user's args and env may say in place of what is rendered. `refuses`: flags
    whose effect sizing can't see, or that would undo what the playbook sets up.
    """

    name: str
    kind: Literal["engine", "host"]
    requires: tuple[str, ...] = ()
    images: tuple[ImageNeed, ...] = ()
    cpu: tuple[CpuNeed, ...] = ()
    version_pattern: str | None = None
    """Regex with one group that reads the version out of an image tag."""
    parameters: dict[str, Parameter] = {}
    steps: tuple[dict[str, dict[str, Any]], ...] = ()
    weights: Literal["gguf", "safetensors"] | None = None
    memory: Literal["gguf", "paged", "fixed"] | None = None
    threads: Literal["physical", "omp"] | None = None
    overheads: tuple[Overhead, ...] = ()
    """What `memory: paged` adds, by version."""
    container: ContainerTemplate | None = None
    by_hand: tuple[ByHand, ...] = ()
    refuses: tuple[Refusal, ...] = ()
    health: HealthTemplate | None = None
    diagnose: tuple[Diagnosis, ...] = ()

    @property
    def params(self) -> dict[str, Value]:
        """The parameters' defaults."""
        return {name: parameter.default for name, parameter in self.parameters.items()}

    def params_with(self, *own: Mapping[str, Value]) -> dict[str, Value]:
        """The defaults with a backend's own over them, and a model's over those: what its containers are
        rendered and counted with."""
        return {name: value for layer in (self.params, *own) for name, value in layer.items()}
