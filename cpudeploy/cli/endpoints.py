"""`cpudeploy endpoints`: where models can be asked, for people, programs and the gateways before them."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import click
import msgspec

from ..errors import ERROR, OK, HostError, UsageError
from ..types.deployment import Deployment
from ..types.endpoint import SERVING, EndpointsDocument
from ..types.facts import Facts
from .options import facts_option, format_option, inventory_argument, limit_option, playbooks_option


@click.command("endpoints")
@inventory_argument
@limit_option
@playbooks_option
@click.option("--model", metavar="MODEL", help="Only this model.")
@click.option("--on", metavar="HOST", help="For a program that runs on HOST, and reaches its loopback.")
@click.option("--check", is_flag=True, help="Ask each of them, from this machine: is the model there?")
@facts_option("Addresses that only hosts know are looked up in what `facts -o DIR` recorded.")
@format_option("text", "json", "env", "litellm", "nginx")
def command(
    inventory: Path,
    limit: tuple[str, ...],
    playbooks: tuple[Path, ...],
    model: str | None,
    on: str | None,
    check: bool,
    facts: Path | None,
    output: str,
) -> int:
    """Tell where each model answers OpenAI's API once the manifest is applied. Tells no key, and asks
    nobody but with --check.

    \b
    text     a table
    json     the same for programs (`cpudeploy schema endpoints`)
    env      variables for a shell: eval "$(cpudeploy endpoints --format env)"
    litellm  config.yaml of a LiteLLM proxy, which balances between a model's hosts
    nginx    a file for conf.d: a path a model, balanced between its hosts

    Exits 1 when an address is not known (--facts DIR, or an address in the manifest), and with --check when a
    model that was asked is not there.
    """
    from ..plan.endpoints import endpoints
    from ..report.endpoints_text import render_endpoints
    from ..report.json_text import json_document
    from .site import read_manifest
    from .terminal import stdout

    if check and output not in ("text", "json"):
        raise UsageError(f"--check and --format {output} exclude each other", do="leave one out")
    manifest, deployment, secrets = read_manifest(inventory, playbooks, limit, ask_sudo=False)
    if model is not None:
        deployment = _of_model(deployment, model)
    if on is not None and on not in manifest.deployment.hosts:
        raise UsageError(
            f"--on {on}: no such host in the manifest",
            do=f"choose from {', '.join(manifest.deployment.hosts)}",
        )
    known = {} if facts is None else _recorded(deployment, facts)
    document = endpoints(deployment, manifest.playbooks, known)
    here = [on] if on else [name for name, host in deployment.hosts.items() if host.connection == "local"]
    if check:
        from .endpoints_check import checked

        document = checked(document, deployment, secrets, here)
    console = stdout()
    if output == "text":
        console.write(render_endpoints(document, colour=console.colour, width=console.width))
    elif output == "json":
        console.write(json_document(document))
    else:
        console.write(_generated(document, output, here, deployment.base))
    missing = any(each.problem or each.state not in ("", SERVING) for each in document.endpoints)
    return ERROR if missing else OK


def _of_model(deployment: Deployment, model: str) -> Deployment:
    """The deployment with one model. Raises UsageError for one that is not placed here."""
    from .site import hosts_of

    hosts_of(deployment, model)
    placements = tuple(each for each in deployment.placements if each.model == model)
    return msgspec.structs.replace(deployment, placements=placements)


def _recorded(deployment: Deployment, folder: Path) -> dict[str, Facts]:
    from .records import read_facts

    read = {name: read_facts(folder, name) for name in deployment.hosts}
    return {name: facts for name, facts in read.items() if facts is not None}


def _generated(document: EndpointsDocument, output: str, on: Collection[str], base: str) -> str:
    """A configuration; what it leaves out is told on stderr too. Raises HostError where nothing is left."""
    from ..report.endpoints_usable import usable
    from .terminal import stderr

    found = usable(document, on)
    if not found.endpoints:
        first, more = (*found.left_out, "no model is placed here")[0], len(found.left_out) - 1
        raise HostError(f"nothing to write: {first}" + (f" (and {more} more)" if more > 0 else ""))
    for why in found.left_out:
        stderr().try_write(f"left out: {why}")
    if output == "litellm":
        from ..report.endpoints_litellm import render_litellm

        return render_litellm(found)
    if output == "nginx":
        from ..report.endpoints_nginx import render_nginx

        return render_nginx(found)
    from ..plan.endpoints import variable_of
    from ..report.endpoints_env import render_env

    return render_env(found, prefixes={model: variable_of(model) for model in found.models}, base=base)
