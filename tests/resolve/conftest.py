"""Servers and small builders that the tests of this room share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cpudeploy.resolve.access import Access
from cpudeploy.secrets import Secrets
from cpudeploy.types.base import SecretRef
from cpudeploy.types.deployment import Registry

from .registries import (
    PASSWORD,
    USER,
    Authority,
    RunningRegistry,
    make_authority,
    start_registry,
)


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="session")
def private(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[RunningRegistry]:
    """A registry with TLS of our own authority and a password."""
    registry = start_registry(tmp_path_factory.mktemp("private"), tls=authority, login=True)
    yield registry
    registry.stop()


@pytest.fixture(scope="session")
def origin(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[RunningRegistry]:
    """A registry with TLS, open to all: what references in the tests name."""
    registry = start_registry(tmp_path_factory.mktemp("origin"), tls=authority)
    yield registry
    registry.stop()


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningRegistry]:
    """A registry without TLS: what mirror rules in the tests name."""
    registry = start_registry(tmp_path_factory.mktemp("plain"))
    yield registry
    registry.stop()


@pytest.fixture
def secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Secrets:
    monkeypatch.setenv("TEST_PASSWORD", PASSWORD)
    monkeypatch.setenv("TEST_WRONG", "not it")
    for name in ("HF_ENDPOINT", "HF_TOKEN", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    return Secrets(tmp_path)


@pytest.fixture
def access(
    secrets: Secrets, authority: Authority, private: RunningRegistry, origin: RunningRegistry
) -> Access:
    """Login and CA for `private`, CA for `origin`."""
    password = SecretRef(kind="from_env", name="TEST_PASSWORD")
    entries = [
        Registry(scope=private.address, username=USER, password=password, ca=authority.pem),
        Registry(scope=origin.address, ca=authority.pem),
    ]
    return Access(entries, secrets)
