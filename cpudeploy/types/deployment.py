"""What is wanted: one manifest, typed and merged, nothing left to look up.

Comes out of `manifest/`; goes into probe (which hosts, which questions), resolve (which images
and weights), sizing and plan. Groups, defaults and precedence are gone: a `Placement` is one model
on one host with every setting it has there. Where a value was written is in `Positions`, a side
map, so that the types stay plain.
"""

from __future__ import annotations

from typing import Any, Literal

from .base import SecretRef, Struct
from .playbook import Overhead

Positions = dict[str, str]
"""Dotted path in the manifest (`models.qwen.port`) → `file:line:column`; and under `model@host.setting` where
the value stands that a placement has."""


class Ssh(Struct, frozen=True, kw_only=True):
    """How a host is reached. None means: as the ssh configuration says."""

    address: str
    port: int | None = None
    user: str | None = None
    config: str | None = None
    """An ssh configuration file to use instead of the user's own (absolute path)."""
    host_keys: Literal["strict", "accept-new"] = "strict"


class Sudo(Struct, frozen=True, kw_only=True):
    """How root is had: `auto` uses root or sudo as found, `none` never calls sudo."""

    use: Literal["auto", "none"] = "auto"
    password: SecretRef | None = None


class Reserve(Struct, frozen=True, kw_only=True):
    """What models must leave free on a host. None: the rule of sizing. Memory in bytes."""

    cpus: int | None = None
    memory: int | None = None


class Proxy(Struct, frozen=True, kw_only=True):
    """For the engine, packages and downloads; never inside model containers. `no_proxy`: hosts, domains,
    networks. `https` is filled from `http` where the manifest leaves it out.
    """

    http: str | None = None
    https: str | None = None
    no_proxy: tuple[str, ...] = ()


class Host(Struct, frozen=True, kw_only=True):
    """One machine of the manifest."""

    name: str
    connection: Literal["ssh", "local"] = "ssh"
    ssh: Ssh
    sudo: Sudo = Sudo()
    engine: Literal["install", "existing", "manage"] = "install"
    weights_dir: str = "/var/lib/cpudeploy/weights"
    reserve: Reserve = Reserve()
    labels: dict[str, str] = {}
    playbooks: tuple[str, ...] = ()
    engine_settings: dict[str, Any] = {}
    """What playbooks of this host, or of an engine on it, want in daemon.json: setting → value."""
    retired: bool = False


class ImageMirror(Struct, frozen=True, kw_only=True):
    """One rewrite rule: a reference that begins with `match` is tried at each of `places`, in order.

    A rule's end marks what it replaces: `ghcr.io/` a registry, a whole repository a single image.
    `digests` maps a tag to the digest this mirror's own push has where it differs from the origin's.
    A place may begin with `http://`: a registry without TLS, which the engine must be told of.
    """

    match: str
    places: tuple[str, ...]
    digests: dict[str, str] = {}


class Mirrors(Struct, frozen=True, kw_only=True):
    """Where things are had when their own address is slow or blocked."""

    images: tuple[ImageMirror, ...] = ()
    huggingface: str | None = None
    docker_ce: str | None = None


class Registry(Struct, frozen=True, kw_only=True):
    """Login and certificate for `scope`: a registry host, or host/project. `ca` is PEM text."""

    scope: str
    username: str | None = None
    password: SecretRef | None = None
    ca: str | None = None


class Backend(Struct, frozen=True, kw_only=True):
    """An engine image with the playbook that knows it. `version`: where the tag doesn't tell.
    `overhead`: what the playbook says of this version's memory, None where it says nothing."""

    name: str
    playbook: str
    image: str
    version: str | None = None
    params: dict[str, str | int | float | bool] = {}
    overhead: Overhead | None = None


class HuggingFace(Struct, frozen=True, kw_only=True, tag="huggingface", tag_field="kind"):
    """Files of a Hub repository. `files` are globs; `quant` picks a GGUF by its name's quantisation."""

    repo: str
    revision: str = "main"
    quant: str | None = None
    files: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    """Globs of files to leave out of what `files`, or the format, would take."""
    mmproj: str | None = None
    """Glob of the file that lets the model see."""
    token: SecretRef | None = None


class ModelScope(Struct, frozen=True, kw_only=True, tag="modelscope", tag_field="kind"):
    """Files of a ModelScope repository; selectors as for the Hub."""

    repo: str
    revision: str = "master"
    quant: str | None = None
    files: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    mmproj: str | None = None
    token: SecretRef | None = None


class Upload(Struct, frozen=True, kw_only=True, tag="upload", tag_field="kind"):
    """A file or folder on the controller, as the manifest's folder sees it."""

    path: str


class Url(Struct, frozen=True, kw_only=True, tag="url", tag_field="kind"):
    """One file by address, with its checksum."""

    url: str
    sha256: str


class HostPath(Struct, frozen=True, kw_only=True, tag="path", tag_field="kind"):
    """A file that already is on the host; mounted where it lies, never written."""

    path: str


Source = HuggingFace | ModelScope | Url | Upload | HostPath


class Placement(Struct, frozen=True, kw_only=True):
    """One model on one host, all precedence applied.

    context: tokens one request may use, None: min(8192, what the model was trained for).
    parallel: requests at a time. cpus: `auto`, `cores:N` (physical cores), a cpu list, `numa:N`, `shared`.
    memory: bytes of the container's limit, None: what sizing works out. listen: as written: an address, a
    network, an interface or `host`.
    By hand, in args and env: kv: bytes of each rank's KV cache, None: what context and parallel need. bind: a
    cpu list a rank, joined by |, or a word of the engine's, None: sizing binds. params: the playbook's
    parameters, over the backend's. warnings: what should be known of all that, a clause each.
    """

    model: str
    host: str
    task: Literal["chat", "embed", "rerank"] = "chat"
    source: Source
    fetch: Literal["auto", "host", "controller"] = "auto"
    backend: str
    each: Literal["host", "numa"] = "host"
    listen: str = "127.0.0.1"
    port: int
    last_port: int | None = None
    """The last one that instances may get, where it was said (`8100-8103`)."""
    context: int | None = None
    parallel: int = 1
    cpus: str = "auto"
    memory: int | None = None
    kv: int | None = None
    bind: str | None = None
    params: dict[str, str | int | float | bool] = {}
    served_name: str
    api_key: SecretRef | None = None
    open: bool = False
    """`api_key: none` was said aloud: listening beyond loopback without a key is wanted."""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    replace: Literal["auto", "beside", "stop-first"] = "auto"
    """How a new version takes over: auto is beside where the host has room for both."""
    drain_s: int = 10
    """How long a change waits for requests under way before it interrupts them."""
    warnings: tuple[str, ...] = ()


class Deployment(Struct, frozen=True, kw_only=True):
    """One manifest: the scope of everything owned on a host."""

    name: str
    base: str
    """Folder of the manifest: `from_file` secrets resolve against it. Absolute."""
    hosts: dict[str, Host]
    proxy: Proxy | None = None
    network_pool: str | None = None
    """Network (CIDR) that container networks are cut from; None: our own choice."""
    mirrors: Mirrors = Mirrors()
    registries: tuple[Registry, ...] = ()
    backends: dict[str, Backend]
    placements: tuple[Placement, ...]
    """In manifest order: model by model, within a model as `on` lists its hosts."""
