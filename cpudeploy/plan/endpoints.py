"""Where each model will answer, from the manifest alone or with recorded facts. Pure.

In: a deployment, its playbooks, the facts there are. Out: a ModelEndpoint an instance, in manifest order.
An address that only the host can tell (`steps.client_address`) stays unknown without its facts.
"""

from __future__ import annotations

import ipaddress
import shlex
from collections.abc import Mapping

import msgspec

from ..errors import HostError
from ..steps.client_address import client_address
from ..types.base import SecretRef
from ..types.deployment import Deployment, Host, Placement
from ..types.endpoint import EndpointKey, EndpointsDocument, ModelEndpoint, url_of
from ..types.facts import Facts
from ..types.playbook import Playbook
from .not_yet import deployment_not_yet, host_not_yet, model_not_yet

VARIABLE_PREFIX = "LLM_"
"""Of the environment variables that clients' settings use: a model's name may begin with a digit."""


def endpoints(
    deployment: Deployment, playbooks: Mapping[str, Playbook], facts: Mapping[str, Facts]
) -> EndpointsDocument:
    """Of every placement. facts: by host, of those that have any."""
    keys = _variables(deployment)
    return EndpointsDocument(
        deployment=deployment.name,
        endpoints=tuple(
            _endpoint(deployment, placement, playbooks, facts.get(placement.host), keys)
            for placement in deployment.placements
        ),
    )


def variable_of(model: str) -> str:
    """`qwen3-4b` → `LLM_QWEN3_4B`, what the variables about a model begin with. No two models share one."""
    return VARIABLE_PREFIX + model.upper().replace("-", "_")


def _endpoint(
    deployment: Deployment,
    placement: Placement,
    playbooks: Mapping[str, Playbook],
    facts: Facts | None,
    variables: Mapping[tuple[str, SecretRef], str],
) -> ModelEndpoint:
    host = deployment.hosts[placement.host]
    ref = placement.api_key
    told = ModelEndpoint(
        model=placement.model,
        host=placement.host,
        backend=placement.backend,
        served_name=placement.served_name,
        key=None if ref is None else _key(ref, variables[placement.model, ref]),
    )
    problem = deployment_not_yet(deployment) or host_not_yet(host) or model_not_yet(placement)
    if problem:
        return msgspec.structs.replace(told, problem=f"not yet: {problem}")
    try:
        address = client_address(placement, host, facts)
    except HostError as error:
        return msgspec.structs.replace(told, problem=error.sentence)
    here = _is_loopback(address)
    return msgspec.structs.replace(
        told,
        url=url_of(address, placement.port),
        reach="host" if here else "network",
        tunnel=_tunnel(host, address, placement.port) if here else "",
    )


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _tunnel(host: Host, address: str, port: int) -> str:
    """An ssh command line for a shell; empty where the host is this machine."""
    if host.connection == "local":
        return ""
    ssh = host.ssh
    there = f"[{address}]" if ":" in address else address
    words = ["ssh", "-N", "-L", f"{port}:{there}:{port}"]
    words += ["-F", ssh.config] if ssh.config else []
    words += ["-p", str(ssh.port)] if ssh.port else []
    words.append(f"{ssh.user}@{ssh.address}" if ssh.user else ssh.address)
    return shlex.join(words)


def _variables(deployment: Deployment) -> dict[tuple[str, SecretRef], str]:
    """(model, key) → the variable a client finds the key in: the manifest's own, or one named for the model.
    Where a model's instances have several keys, the second and further ones are numbered."""
    found: dict[tuple[str, SecretRef], str] = {}
    numbers: dict[str, int] = {}
    for placement in deployment.placements:
        model, ref = placement.model, placement.api_key
        if ref is None or (model, ref) in found:
            continue
        if ref.kind == "from_env":
            found[model, ref] = ref.name
            continue
        numbers[model] = number = numbers.get(model, 0) + 1
        found[model, ref] = f"{variable_of(model)}_API_KEY" + (f"_{number}" if number > 1 else "")
    return found


def _key(ref: SecretRef, variable: str) -> EndpointKey:
    shown = str(ref).removeprefix(f"{ref.kind}:")
    return EndpointKey(kind=ref.kind, name=shown, variable=variable)
