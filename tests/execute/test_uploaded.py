"""A model's file of this machine, sent to a host as it is read: to one with everything and to bare busybox."""

from __future__ import annotations

from pathlib import Path

import pytest

from cpudeploy.errors import StalePlan
from tests.transport.conftest import programs

from .test_streamed import CONTENT, Host, host

__all__ = ["host", "programs"]

EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "mine.gguf"
    path.write_bytes(CONTENT)
    return path


def test_a_file_arrives_verified_and_is_not_sent_again(host: Host, model: Path) -> None:
    host.fetch(upload=str(model))
    assert host.blob.read_bytes() == CONTENT
    assert host.progress[-1] == (len(CONTENT), len(CONTENT))
    model.unlink()
    host.fetch(upload=str(model))
    assert list((host.there / "partial").iterdir()) == []


def test_of_what_is_there_already_nothing_is_sent_again(host: Host, model: Path) -> None:
    host.there.joinpath("partial").mkdir(parents=True)
    host.partial.write_bytes(CONTENT[:400_000])
    model.write_bytes(bytes(400_000) + CONTENT[400_000:])  # it would not be the file, were this sent
    host.fetch(upload=str(model))
    assert host.blob.read_bytes() == CONTENT


def test_wrong_bytes_that_an_earlier_apply_left_are_sent_anew(host: Host, model: Path) -> None:
    host.there.joinpath("partial").mkdir(parents=True)
    host.partial.write_bytes(b"x" * 400_000)
    host.fetch(upload=str(model))
    assert host.blob.read_bytes() == CONTENT


@pytest.mark.parametrize("other", [CONTENT + b"x", CONTENT[:-1], b"x" * len(CONTENT)])
def test_a_file_that_changed_since_the_plan_makes_it_stale(host: Host, model: Path, other: bytes) -> None:
    model.write_bytes(other)
    with pytest.raises(StalePlan, match="changed since this was planned") as stale:
        host.fetch(upload=str(model))
    assert str(model) in str(stale.value)
    assert not host.blob.exists()
    assert not host.partial.exists() or host.partial.stat().st_size == 0


def test_a_file_that_is_gone_makes_the_plan_stale(host: Host, model: Path) -> None:
    model.unlink()
    with pytest.raises(StalePlan, match="No such file"):
        host.fetch(upload=str(model))


def test_an_empty_file_is_a_file(host: Host, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").touch()
    host.fetch(upload=str(tmp_path / "empty.txt"), size=0, sha256=EMPTY)
    assert (host.there / "blobs" / EMPTY).read_bytes() == b""
