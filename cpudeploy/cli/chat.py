"""`cpudeploy chat`: ask a model, through the SSH connection, and print what it answers as it comes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click

from ..errors import GateFailed, HostError
from .options import inventory_option, limit_option, playbooks_option, sudo_option
from .running import Running
from .site import Site

_TIMEOUT_S = 300.0


@click.command("chat")
@click.argument("model")
@click.argument("prompt")
@inventory_option
@limit_option
@playbooks_option
@sudo_option
@click.option("--max-tokens", default=256, show_default=True, type=click.IntRange(1), help="Answer length.")
def command(
    model: str,
    prompt: str,
    inventory: Path,
    limit: tuple[str, ...],
    playbooks: tuple[Path, ...],
    ask_sudo_pass: bool,
    max_tokens: int,
) -> None:
    """Ask MODEL one question on each of its hosts."""
    from .running import instances_of
    from .site import site

    with site(inventory, playbooks=playbooks, limit=limit, ask_sudo=ask_sudo_pass) as found:
        instances = instances_of(found, model)
        for instance in instances:
            if len(instances) > 1:
                click.secho(f"{instance.host}", bold=True)
            for text in answer(found, instance, prompt, max_tokens):
                click.echo(_printable(text), nl=False)
            click.echo()


def answer(site: Site, instance: Running, prompt: str, max_tokens: int) -> Iterator[str]:
    """The pieces of one streamed answer. Raises HostError when the model is not there to be asked."""
    import httpx

    from ..transport.http import http_client

    publish = instance.publish
    where = f"{instance.host} {instance.model}"
    if not instance.running or publish is None:
        raise HostError(
            "is not running", where=where, do=f"cpudeploy logs {instance.model}, then cpudeploy apply"
        )
    connection = site.connections[instance.host]
    address = "127.0.0.1" if publish.address in ("0.0.0.0", "::", "") else publish.address  # noqa: S104
    headers = {}
    if instance.api_key is not None:
        headers["Authorization"] = f"Bearer {site.secrets.get(instance.api_key).reveal()}"
    body = {
        "model": instance.served_name,
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": max_tokens,
        "stream": True,
    }
    try:
        with (
            http_client(lambda: connection.dial_tcp(address, publish.port), timeout_s=_TIMEOUT_S) as client,
            client.stream("POST", "/v1/chat/completions", json=body, headers=headers) as response,
        ):
            if response.status_code != 200:
                text = response.read().decode("utf-8", "replace")[:300]
                raise GateFailed(
                    f"answered {response.status_code}: {site.secrets.redact(text)}",
                    where=where,
                    do="cpudeploy status",
                )
            yield from _pieces(response.iter_lines())
    except httpx.HTTPError as error:
        raise HostError(
            f"the connection to the model failed: {error}", where=where, do="cpudeploy status"
        ) from None


def _pieces(lines: Iterator[str]) -> Iterator[str]:
    """Text from server-sent events of the chat completions API."""
    for line in lines:
        data = line.removeprefix("data:").strip()
        if not line.startswith("data:") or data == "[DONE]":
            continue
        for choice in json.loads(data).get("choices", []):
            text = choice.get("delta", {}).get("content")
            if text:
                yield text


def _printable(text: str) -> str:
    """A model's words without the power to drive the terminal."""
    return "".join(char if char.isprintable() or char in "\n\t" else "�" for char in text)
