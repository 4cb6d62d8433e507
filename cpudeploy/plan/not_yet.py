"""What a manifest may say and this version can't carry out: told once, plainly, and left alone.

In: a deployment. Out: sentences, and the deployment without what they speak of, so that
nobody asks a registry, a Hub or a secret for it. Pure; the one list of what is still to come.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ..types.base import SecretRef
from ..types.deployment import Deployment, Host, HuggingFace, ModelScope, Placement, Upload

_SECRETS = ("from_age", "from_sops")


def deployment_not_yet(deployment: Deployment) -> str:
    """Why nothing of the deployment can be carried out; empty when it can."""
    if deployment.proxy is not None:
        return (
            "`proxy` can't be set for engine and downloads; "
            "do: set it on the hosts themselves and leave `proxy` out"
        )
    for registry in deployment.registries:
        if registry.password is not None and registry.password.kind in _SECRETS:
            return _secret(f"the password of registry {registry.scope}", registry.password)
    return ""


def host_not_yet(host: Host) -> str:
    """Why nothing can be carried out on this host; empty when it can."""
    if host.engine == "manage":
        return "`engine: {use: manage}` can't be carried out; do: say install or existing"
    if host.sudo.password is not None and host.sudo.password.kind in _SECRETS:
        return _secret("sudo's password", host.sudo.password)
    return ""


def model_not_yet(placement: Placement) -> str:
    """Why this model can't be carried out on its host; empty when it can."""
    source = placement.source
    if placement.task != "chat":
        return f"task {placement.task} can't be served and proven; do: keep to chat models for now"
    if isinstance(source, ModelScope):
        return f"{source.repo} can't be had from ModelScope; do: give a huggingface source or an url"
    if isinstance(source, Upload):
        return f"{source.path} can't be uploaded; do: copy it to the host and say path: instead"
    if placement.each == "numa":
        return "an instance for each NUMA node can't be planned; do: leave `each` out"
    for what, secret in _secrets(placement):
        if secret.kind in _SECRETS:
            return _secret(what, secret)
    return ""


def not_yet_warnings(deployment: Deployment) -> tuple[str, ...]:
    """What is not heeded, though all else can be carried out."""
    if deployment.mirrors.docker_ce is None:
        return ()
    return ("mirrors.docker-ce is not used yet: where an engine is installed, it is the distribution's own",)


def plannable(deployment: Deployment) -> Deployment:
    """The deployment without the models that can't be carried out where they are placed."""
    if deployment_not_yet(deployment):
        return msgspec.structs.replace(deployment, placements=())
    return msgspec.structs.replace(
        deployment,
        placements=tuple(
            placement
            for placement in deployment.placements
            if not host_not_yet(deployment.hosts[placement.host]) and not model_not_yet(placement)
        ),
    )


def _secrets(placement: Placement) -> Iterator[tuple[str, SecretRef]]:
    if placement.api_key is not None:
        yield "api_key", placement.api_key
    if isinstance(placement.source, HuggingFace) and placement.source.token is not None:
        yield "the Hub's token", placement.source.token


def _secret(what: str, secret: SecretRef) -> str:
    return f"{what} can't be read by {secret.kind}; do: use from_env, from_file or from_command"
