"""What is known about an engine or a host, as data: the typed form of a file in `playbooks/`.

Read by `manifest/` (schema-checked there), used by sizing and plan. Templates stay text until the
plan renders them over the closed context (model, host, alloc, image.version, param, files).
"""

from __future__ import annotations

from typing import Any, Literal

from .base import Struct
from .release import Check, Diagnosis


class Argument(Struct, frozen=True, kw_only=True):
    """One or more command-line arguments (each a template, never split), rendered when `when` holds.

    `field`: the manifest field this flag speaks for; user args that repeat `flags` are refused with it.
    """

    args: tuple[str, ...]
    when: str | None = None
    flags: tuple[str, ...] = ()
    field: str | None = None


class ContainerTemplate(Struct, frozen=True, kw_only=True):
    """How a container of this engine looks. Strings are templates."""

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

    deadline = `start_s` + weights bytes / `load_bytes_per_s`.
    """

    stable_s: int = 2
    start_s: int = 60
    load_bytes_per_s: int = 100_000_000
    ready: tuple[Check, ...]
    tasks: dict[str, tuple[Check, ...]]
    closed: Check | None = None
    """What must be refused without the API key: asked last, only where there is one."""


class Playbook(Struct, frozen=True, kw_only=True):
    """One playbook. kind `engine` serves models; kind `host` prepares machines.

    `steps` in order, each `{step name: settings}`. `weights`: which file formats the engine reads.
    `memory`, `threads`: named models of sizing.
    """

    name: str
    kind: Literal["engine", "host"]
    requires: tuple[str, ...] = ()
    cpu_flags: tuple[str, ...] = ()
    version_pattern: str | None = None
    """Regex with one group that reads the version out of an image tag."""
    params: dict[str, Any] = {}
    steps: tuple[dict[str, dict[str, Any]], ...] = ()
    weights: Literal["gguf", "safetensors"] | None = None
    memory: Literal["gguf", "paged", "fixed"] | None = None
    threads: Literal["physical", "omp"] | None = None
    container: ContainerTemplate | None = None
    health: HealthTemplate | None = None
    diagnose: tuple[Diagnosis, ...] = ()
