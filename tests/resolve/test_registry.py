"""Against real registries, and small servers for what a real one can't be made to do."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from cpudeploy.errors import RegistryError
from cpudeploy.resolve.access import Access
from cpudeploy.resolve.manifests import pick
from cpudeploy.resolve.references import Candidate, parse
from cpudeploy.resolve.registry import Refused, RegistryClient, Unreachable
from cpudeploy.secrets import Secrets
from cpudeploy.types.base import SecretRef
from cpudeploy.types.deployment import Registry

from .registries import (
    PASSWORD,
    USER,
    Authority,
    RunningRegistry,
    free_port,
    start_registry,
    token_service,
)
from .web_server import Reply, Request, serve

MANIFEST = b'{"schemaVersion":2,"config":{"digest":"sha256:%s","size":2},"layers":[]}' % (b"0" * 64)


def client(text: str, access: Access, *, insecure: bool = False) -> RegistryClient:
    return RegistryClient(Candidate(parse(text), insecure=insecure), access)


@pytest.fixture
def nobody(secrets: Secrets) -> Access:
    return Access([], secrets)


def test_an_index_tells_digest_platforms_and_the_size_of_one(plain: RunningRegistry, nobody: Access) -> None:
    digest = plain.push("team/multi", "1", ["linux/amd64", "linux/arm64/v8"])
    with client(f"{plain.address}/team/multi:1", nobody, insecure=True) as registry:
        manifest = registry.manifest("1")
        offered = registry.platforms(manifest)
        assert manifest.digest == digest
        assert [str(each) for each in offered] == ["linux/amd64", "linux/arm64/v8"]
        arm = pick(offered, "arm64")
        assert arm is not None
        assert registry.size(manifest, arm) == 4000
        assert registry.manifest(digest).digest == digest


def test_a_single_manifests_platform_is_read_from_its_config(plain: RunningRegistry, nobody: Access) -> None:
    digest = plain.push("team/single", "1", ["linux/arm64"], index=False)
    with client(f"{plain.address}/team/single:1", nobody, insecure=True) as registry:
        manifest = registry.manifest("1")
        [platform] = registry.platforms(manifest)
        assert (manifest.digest, str(platform), registry.size(manifest, platform)) == (
            digest,
            "linux/arm64",
            2000,
        )
        assert registry.has(digest)
        assert not registry.has("sha256:" + "0" * 64)


def test_a_password_and_a_private_authority_are_used(private: RunningRegistry, access: Access) -> None:
    digest = private.push("llm/engine", "1")
    with client(f"{private.address}/llm/engine:1", access) as registry:
        assert registry.manifest("1").digest == digest


def test_without_a_login_the_message_names_both_possible_reasons(
    private: RunningRegistry, authority: Authority, secrets: Secrets
) -> None:
    access = Access([Registry(scope=private.address, ca=authority.pem)], secrets)
    with client(f"{private.address}/llm/engine:1", access) as registry, pytest.raises(Refused) as error:
        registry.manifest("1")
    assert "not logged in, or the image does not exist" in error.value.what
    assert "registries" in error.value.do


def test_a_wrong_password_is_told_without_showing_it(
    private: RunningRegistry, authority: Authority, secrets: Secrets
) -> None:
    wrong = SecretRef(kind="from_env", name="TEST_WRONG")
    entry = Registry(scope=private.address, username=USER, password=wrong, ca=authority.pem)
    with (
        client(f"{private.address}/llm/engine:1", Access([entry], secrets)) as registry,
        pytest.raises(Refused) as error,
    ):
        registry.manifest("1")
    assert "is not accepted" in error.value.what
    assert "not it" not in str(error.value)


def test_an_unknown_authority_leads_to_the_ca_setting(private: RunningRegistry, nobody: Access) -> None:
    with client(f"{private.address}/llm/engine:1", nobody) as registry, pytest.raises(Unreachable) as error:
        registry.manifest("1")
    assert "authority" in error.value.what
    assert "`ca:`" in error.value.do


def test_a_ca_that_is_no_certificate_is_told(private: RunningRegistry, secrets: Secrets) -> None:
    with pytest.raises(RegistryError, match="PEM"):
        client(f"{private.address}/x:1", Access([Registry(scope=private.address, ca="nonsense")], secrets))


def test_plain_http_where_tls_is_expected_is_told(plain: RunningRegistry, nobody: Access) -> None:
    with client(f"{plain.address}/team/x:1", nobody) as registry, pytest.raises(Unreachable) as error:
        registry.manifest("1")
    assert "does not speak TLS" in error.value.what
    assert "http://" in error.value.do


@pytest.mark.parametrize(
    ("where", "told"), [("registry.invalid/x:1", "does not resolve"), ("127.0.0.1:{port}/x:1", "refused")]
)
def test_no_way_to_the_registry_is_told_by_its_kind(where: str, told: str, nobody: Access) -> None:
    with client(where.format(port=free_port()), nobody) as registry, pytest.raises(Unreachable, match=told):
        registry.manifest("1")


def test_a_missing_tag_is_not_found(plain: RunningRegistry, nobody: Access) -> None:
    with (
        client(f"{plain.address}/team/nothing:1", nobody, insecure=True) as registry,
        pytest.raises(Refused, match="not found"),
    ):
        registry.manifest("1")


def test_a_token_service_is_asked_with_the_login_and_its_token_used(
    tmp_path: Path, authority: Authority, secrets: Secrets
) -> None:
    with serve(token_service(authority), authority.server_context()) as service:
        writer = start_registry(tmp_path / "writer", storage=tmp_path / "data")
        digest = writer.push("llm/engine", "1")
        writer.stop()
        registry = start_registry(
            tmp_path / "reader",
            tls=authority,
            token=(f"{service.url}/token", authority.ca),
            storage=tmp_path / "data",
        )
        password = SecretRef(kind="from_env", name="TEST_PASSWORD")
        entry = Registry(scope=registry.address, username=USER, password=password, ca=authority.pem)
        try:
            with client(f"{registry.address}/llm/engine:1", Access([entry], secrets)) as asked:
                assert asked.manifest("1").digest == digest
            stranger = Access([Registry(scope=registry.address, ca=authority.pem)], secrets)
            with (
                client(f"{registry.address}/llm/engine:1", stranger) as asked,
                pytest.raises(Refused, match="not logged in"),
            ):
                asked.manifest("1")
        finally:
            registry.stop()


def test_a_login_never_goes_to_a_login_service_elsewhere(authority: Authority, secrets: Secrets) -> None:
    """A registry at 127.0.0.1 that names a service at `localhost`: another host."""
    with serve(lambda _: Reply(200, b'{"token": "t"}'), authority.server_context()) as service:
        realm = service.url.replace("127.0.0.1", "localhost")
        challenge = {"WWW-Authenticate": f'Bearer realm="{realm}/token",service="s"'}

        def answer(request: Request) -> Reply:
            return Reply(200, MANIFEST) if "Authorization" in request.headers else Reply(401, b"", challenge)

        with serve(answer, authority.server_context()) as registry:
            password = SecretRef(kind="from_env", name="TEST_PASSWORD")
            entry = Registry(scope=registry.address, username=USER, password=password, ca=authority.pem)
            with client(f"{registry.address}/llm/x:1", Access([entry], secrets)) as asked:
                asked.manifest("1")
        assert service.requests
        assert all("Authorization" not in request.headers for request in service.requests)


def test_a_redirect_to_another_host_loses_the_login(authority: Authority, secrets: Secrets) -> None:
    with serve(lambda _: Reply(200, MANIFEST), authority.server_context()) as storage:
        elsewhere = {"Location": f"{storage.url.replace('127.0.0.1', 'localhost')}/blob"}
        basic = {"WWW-Authenticate": 'Basic realm="x"'}

        def answer(request: Request) -> Reply:
            return (
                Reply(307, b"", elsewhere) if "Authorization" in request.headers else Reply(401, b"", basic)
            )

        with serve(answer, authority.server_context()) as registry:
            password = SecretRef(kind="from_env", name="TEST_PASSWORD")
            entry = Registry(scope=registry.address, username=USER, password=password, ca=authority.pem)
            with client(f"{registry.address}/llm/x:1", Access([entry], secrets)) as asked:
                asked.manifest("1")
        [request] = storage.requests
        assert "Authorization" not in request.headers


def test_a_registry_that_recovers_is_asked_again(nobody: Access) -> None:
    replies = [Reply(503), Reply(502), Reply(200, MANIFEST)]
    with (
        serve(lambda _: replies.pop(0)) as server,
        client(f"{server.address}/x:1", nobody, insecure=True) as registry,
    ):
        registry.manifest("1")
        assert len(server.requests) == 3


def test_a_registry_that_stays_broken_is_unreachable(nobody: Access) -> None:
    with (
        serve(lambda _: Reply(500)) as server,
        client(f"{server.address}/x:1", nobody, insecure=True) as registry,
        pytest.raises(Unreachable, match="500"),
    ):
        registry.manifest("1")


def test_too_many_requests_says_how_long_to_wait(nobody: Access) -> None:
    with (
        serve(lambda _: Reply(429, b"", {"Retry-After": "120"})) as server,
        client(f"{server.address}/x:1", nobody, insecure=True) as registry,
        pytest.raises(Unreachable, match="too many requests; it asks to wait 120 s"),
    ):
        registry.manifest("1")
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("body", "headers", "told"),
    [
        (MANIFEST, {"Docker-Content-Digest": "sha256:" + "1" * 64}, "sent a manifest with digest"),
        (b"<html>log in to the hotel</html>", {}, "did not send an image manifest"),
        (b'{"schemaVersion":1,"fsLayers":[]}', {}, "manifest format 1"),
        (b'{"schemaVersion":2}', {}, "without an image"),
        (b'{"schemaVersion":2,"config":{"digest":"../../etc","size":2}}', {}, "can't be"),
        (b'{"schemaVersion":2,"config":{"digest":"sha256:%s","size":-2}}' % (b"0" * 64), {}, "can't be"),
        (b"[" * 100_000, {}, "did not send an image manifest"),
        (b"x" * (5 << 20), {}, "larger than"),
    ],
)
def test_an_answer_that_is_not_the_manifest_is_refused(
    body: bytes, headers: dict[str, str], told: str, nobody: Access
) -> None:
    with (
        serve(lambda _: Reply(200, body, headers)) as server,
        client(f"{server.address}/x:1", nobody, insecure=True) as registry,
        pytest.raises(RegistryError, match=told),
    ):
        registry.manifest("1")


def test_content_must_have_the_digest_asked_for(nobody: Access) -> None:
    with (
        serve(lambda _: Reply(200, MANIFEST)) as server,
        client(f"{server.address}/x:1", nobody, insecure=True) as registry,
        pytest.raises(RegistryError, match="sent a manifest with digest"),
    ):
        registry.manifest("sha256:" + "2" * 64)


def test_the_longest_scope_logs_in_and_a_hosts_certificate_serves_its_projects(secrets: Secrets) -> None:
    password = SecretRef(kind="from_env", name="TEST_PASSWORD")
    access = Access(
        [
            Registry(scope="harbor.corp", username="all", password=password, ca="host's"),
            Registry(scope="harbor.corp/llm", username="llm", password=password),
        ],
        secrets,
    )
    llm, other = access.login("harbor.corp/llm/x"), access.login("harbor.corp/other/x")
    assert llm is not None and other is not None
    assert (llm.username, llm.scope, other.username) == ("llm", "harbor.corp/llm", "all")
    assert access.ca("harbor.corp/llm/x") == "host's"
    assert access.login("ghcr.io/a/b") is None
    assert llm.header() == f"Basic {base64.b64encode(f'llm:{PASSWORD}'.encode()).decode()}"
    assert PASSWORD not in repr(llm)


def test_a_token_that_is_no_header_is_refused(nobody: Access) -> None:
    def answer(request: Request) -> Reply:
        if request.path.startswith("/token"):
            return Reply(200, json.dumps({"token": "a\r\nX: y"}).encode())
        realm = f"http://{request.headers['Host']}/token"
        return Reply(401, b"", {"WWW-Authenticate": f'Bearer realm="{realm}"'})

    with (
        serve(answer) as server,
        client(f"{server.address}/x:1", nobody, insecure=True) as registry,
        pytest.raises(Refused, match="without a token"),
    ):
        registry.manifest("1")
