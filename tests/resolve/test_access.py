from __future__ import annotations

import pytest

from cpudeploy.resolve.access import may_send, read_challenge
from cpudeploy.resolve.references import parse


@pytest.mark.parametrize(
    ("image", "realm"),
    [
        ("vllm/x", "https://auth.docker.io/token"),
        ("ghcr.io/a/b", "https://ghcr.io/token"),
        ("harbor.corp:8443/a/b", "https://harbor.corp:8443/service/token"),
        ("registry.gitlab.com/a/b", "https://gitlab.com/jwt/auth"),
        ("registry.cn-hangzhou.aliyuncs.com/a/b", "https://dockerauth.cn-hangzhou.aliyuncs.com/auth"),
        ("quay.io/a/b", "https://auth.quay.io/token"),
    ],
)
def test_a_registrys_own_login_service_gets_the_login(image: str, realm: str) -> None:
    assert may_send(parse(image), realm, insecure=False)


@pytest.mark.parametrize(
    ("image", "realm"),
    [
        ("m.daocloud.io/ghcr.io/a/b", "https://ghcr.io/token"),
        ("harbor.corp/a/b", "https://harbor.corp.evil.com/token"),
        ("harbor.corp/a/b", "https://evil-harbor.corp/token"),
        ("harbor.corp/a/b", "https://other.corp/token"),
        ("harbor.corp/a/b", "http://harbor.corp/token"),
        ("harbor.corp/a/b", "https://harbor.corp@evil.com/token"),
        ("10.0.0.1:5000/a/b", "https://10.0.0.2/token"),
        ("10.0.0.1:5000/a/b", "https://9.0.0.1/token"),
        ("[::1]:5000/a/b", "https://[::2]/token"),
        ("harbor.corp/a/b", ""),
        ("harbor.corp/a/b", "file:///etc/passwd"),
    ],
)
def test_a_stranger_gets_none(image: str, realm: str) -> None:
    assert not may_send(parse(image), realm, insecure=False)


def test_a_registry_declared_plain_may_log_in_plainly_at_its_own_address() -> None:
    assert may_send(parse("10.0.0.1:5000/x"), "http://10.0.0.1:5001/token", insecure=True)
    assert not may_send(parse("10.0.0.1:5000/x"), "http://10.0.0.2:5001/token", insecure=True)


def test_bearer_is_answered_before_basic() -> None:
    bearer = 'Bearer realm="https://a/token",service="s, t",scope="repository:x:pull"'
    found = read_challenge(['Basic realm="x"', bearer])
    assert found is not None
    assert (found.scheme, found.realm, found.service) == ("bearer", "https://a/token", "s, t")
    assert found.scope == "repository:x:pull"


@pytest.mark.parametrize("headers", [[], ["Negotiate"], [""], ['Digest realm="x"']])
def test_challenges_we_cannot_answer_are_none(headers: list[str]) -> None:
    assert read_challenge(headers) is None
