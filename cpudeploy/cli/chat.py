"""`cpudeploy chat`: ask a model, through the SSH connection, and print what it answers as it comes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click

from ..errors import HostError, UsageError
from .options import inventory_option, limit_option, model_named, playbooks_option, sudo_option
from .running import Running
from .site import Site

_TIMEOUT_S = 300.0
_SHOWN = 300
"""Characters shown of an answer that is no answer."""


@click.command("chat")
@click.argument("model", callback=model_named)
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
) -> int:
    """Ask MODEL one question on each of its hosts."""
    from ..report.text import Ink
    from .running import ask_each, instances_of
    from .site import site
    from .terminal import stdout

    _check_text(prompt)
    with site(inventory, playbooks=playbooks, limit=limit, ask_sudo=ask_sudo_pass, model=model) as found:
        asked = instances_of(found, model)
        several = len(asked.instances) > 1
        console = stdout()

        def ask(instance: Running) -> None:
            if several:
                console.write(Ink(console.colour)(instance.host, "bold"))
            said = False
            try:
                for text in answer(found, instance, prompt, max_tokens):
                    said = True
                    console.stream.write(_printable(text))
                    console.stream.flush()
            finally:
                if said:
                    console.write("")

        return ask_each(asked, ask)


def _check_text(prompt: str) -> None:
    """Raises UsageError for bytes that are no text: no model can be sent them."""
    try:
        prompt.encode()
    except UnicodeEncodeError:
        raise UsageError("the prompt must be UTF-8 text", do="give it in UTF-8") from None


def answer(site: Site, instance: Running, prompt: str, max_tokens: int) -> Iterator[str]:
    """The pieces of one streamed answer. Raises HostError when the model can't be asked or breaks off."""
    import httpx

    from ..transport.http import http_client

    publish = instance.publish
    if not instance.running or publish is None:
        raise HostError(
            f"{instance.model} is not running", do=f"cpudeploy logs {instance.model}, then cpudeploy apply"
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
            if response.status_code != httpx.codes.OK:
                text = response.read().decode("utf-8", "replace")
                raise _refused(response.status_code, site.secrets.redact(text))
            yield from _pieces(response.iter_lines())
    except httpx.HTTPError as error:
        raise HostError(f"the connection to the model failed: {error}", do="cpudeploy status") from None


def _refused(status: int, text: str) -> HostError:
    if status in (401, 403):
        return HostError(
            f"the model does not take the key ({status})",
            do="cpudeploy apply, where the key in the manifest is not the one it was started with",
        )
    return HostError(f"the model answered {status}: {_printable(text[:_SHOWN])}", do="cpudeploy status")


def _pieces(lines: Iterator[str]) -> Iterator[str]:
    """Text from server-sent events of the chat completions API. Raises HostError for an error among them."""
    for line in lines:
        data = line.removeprefix("data:").strip()
        if not line.startswith("data:") or data == "[DONE]":
            continue
        try:
            event = json.loads(data)
            error = event.get("error")
            texts = [choice.get("delta", {}).get("content") for choice in event.get("choices") or ()]
        except (ValueError, AttributeError):
            raise HostError(f"the model sent what is no event: {_printable(data[:_SHOWN])}") from None
        if error is not None:
            message = error.get("message") if isinstance(error, dict) else None
            raise HostError(
                f"the model broke off: {_printable(str(message or error)[:_SHOWN])}", do="cpudeploy logs"
            )
        yield from (text for text in texts if text)


def _printable(text: str) -> str:
    """A model's words without the power to drive the terminal."""
    return "".join(char if char.isprintable() or char in "\n\t" else "�" for char in text)
