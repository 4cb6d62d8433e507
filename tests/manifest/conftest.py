"""A manifest that is right, playbooks for it, and ways to load them changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cpudeploy.errors import ManifestError, Problem
from cpudeploy.manifest import Manifest, load

GOOD = """\
version: 1
name: rag
hosts:
  a: {address: 10.0.0.1}
backends:
  llama: {playbook: engine, image: "ghcr.io/x/y:b9000"}
models:
  m:
    source: {path: /w/m.gguf}
    backend: llama
    port: 8100
    on: [a]
"""

ENGINE = """\
name: engine
kind: engine
requires: [base]
version_pattern: "b([0-9]+)$"
parameters: {kv: {default: f16, description: x}, cache: {default: 0, description: x}, ratio: {default: 0.5, description: x}, mmap: {default: true, description: x}}
memory: gguf
container:
  port: 8080
  weights_target: /models
  api_key_file: /run/secrets/api_key
  arguments:
    - {args: ["--ctx-size", "{{ alloc.context * alloc.parallel }}"], flags: [-c, --ctx-size], field: context}
    - {args: ["--kv={{ param.kv }}"], when: image.version >= 9000, flags: [--kv]}
health:
  ready: [{name: health, path: /health}]
  tasks:
    chat: [{name: ask, method: POST, path: /v1/ask, body: '{"model": {{ model.served_name|tojson }}}'}]
"""

BASE = """\
name: base
kind: host
steps: [{docker_engine: {}}]
"""

KEYLESS = """\
name: keyless
kind: engine
container: {port: 80, weights_target: /m, arguments: []}
health:
  ready: [{name: health, path: /}]
  tasks: {embed: []}
"""

CERTIFICATE = """\
-----BEGIN CERTIFICATE-----
MIIBdTCCARugAwIBAgIUUVI6B56XOKFdd6OGbdFXYUmDxk4wCgYIKoZIzj0EAwIw
DzENMAsGA1UEAwwEY29ycDAgFw0yNjExMzAxMjM4NDhaGA8yMTI2MTEwNjEyMzg0
OFowDzENMAsGA1UEAwwEY29ycDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABNT2
e2ViNQIn9YqsHg1/gYb+KTD0rXDRQEyiACaZiAmVvozejWcPYno5IRveBY0PObJ2
QE7z8tj+XG3aVYBRv3+jUzBRMB0GA1UdDgQWBBRxfIOuV43oygel7xkgBW6L/euo
WjAfBgNVHSMEGDAWgBRxfIOuV43oygel7xkgBW6L/euoWjAPBgNVHRMBAf8EBTAD
AQH/MAoGCCqGSM49BAMCA0gAMEUCIQCT141fsgU4OXxur5QI2E1pbFEqnJGe0Eqm
4J/gjjt6NQIgTyyOjLeB/h/TSnxUYZ56Ha7EZjn5ZQ3NwKJtz/4s5MM=
-----END CERTIFICATE-----
"""
"""Of an authority of nobody, good for a hundred years."""

Loader = Callable[[str], Manifest]
Failer = Callable[[str], list[Problem]]


@pytest.fixture
def playbooks(tmp_path: Path) -> Path:
    """A folder with playbooks `engine`, `keyless` (engines) and `base` (for hosts)."""
    folder = tmp_path / "playbooks"
    folder.mkdir()
    for name, text in (("engine", ENGINE), ("keyless", KEYLESS), ("base", BASE)):
        (folder / f"{name}.yaml").write_text(text)
    return folder


@pytest.fixture
def load_text(tmp_path: Path, playbooks: Path) -> Loader:
    """Loads a manifest given as text."""

    def load_it(text: str) -> Manifest:
        path = tmp_path / "inventory.yaml"
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        return load(path, [playbooks])

    return load_it


@pytest.fixture
def problems_of(tmp_path: Path, load_text: Loader) -> Failer:
    """The problems of a manifest that must be refused, places without the folder."""

    def fail(text: str) -> list[Problem]:
        with pytest.raises(ManifestError) as caught:
            load_text(text)
        folder = f"{tmp_path}/"
        return [Problem(p.where.removeprefix(folder), p.what, p.do) for p in caught.value.problems]

    return fail


def changed(old: str, new: str) -> str:
    """The good manifest with one piece of text replaced."""
    assert GOOD.count(old) == 1, f"{old!r} is not once in the good manifest"
    return GOOD.replace(old, new)
