"""What a model's server prints, as it reaches the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cpudeploy.cli.logs import log_lines
from cpudeploy.cli.running import Running
from cpudeploy.cli.site import Site
from cpudeploy.manifest import Manifest
from cpudeploy.secrets import Secrets
from cpudeploy.types.base import SecretRef
from cpudeploy.types.deployment import Deployment
from tests.execute.engine_server import Here, engine_serving

KEY = "planted-key"
INSTANCE = Running(
    host="here",
    model="m",
    container="rag_m_0",
    running=True,
    publish=None,
    served_name="m",
    api_key=SecretRef(kind="from_file", name="key"),
)
Logged = Callable[[bytes], list[str]]


@pytest.fixture
def logged(tmp_path: Path) -> Iterator[Logged]:
    """logged(printed): the lines shown of what a server printed."""
    with engine_serving() as engine:
        secrets = Secrets(tmp_path)
        deployment = Deployment(name="rag", base=str(tmp_path), hosts={}, backends={}, placements=())
        site = Site(manifest=Manifest(deployment, {}, {}), deployment=deployment, secrets=secrets)
        site.connections["here"] = Here(secrets, engine.port)

        def show(printed: bytes) -> list[str]:
            frame = b"\1\0\0\0" + len(printed).to_bytes(4, "big") + printed
            engine.answers["logs"] = lambda request: request.raw(frame)
            return list(log_lines(site, INSTANCE, tail=10, follow=False))

        yield show


def test_a_key_that_the_server_prints_is_not_shown(logged: Logged, tmp_path: Path):
    (tmp_path / "key").write_text(KEY)
    assert logged(f"api_keys: {KEY}\nready\n".encode()) == ["api_keys: [secret]", "ready"]


def test_a_log_does_not_drive_the_terminal(logged: Logged, tmp_path: Path):
    (tmp_path / "key").write_text(KEY)
    assert logged(b"\x1b]0;owned\x07\x1b[2Jfine\n") == ["\\x1b]0;owned\\x07\\x1b[2Jfine"]


def test_a_key_that_cannot_be_read_is_a_note_and_the_log_is_shown(
    logged: Logged, capsys: pytest.CaptureFixture[str]
):
    assert logged(b"ready\n") == ["ready"]
    assert "here: note: the key can't be hidden" in capsys.readouterr().err
