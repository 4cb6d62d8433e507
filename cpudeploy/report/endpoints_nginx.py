"""Endpoints as a file for nginx's `conf.d`: an upstream a model, one server. Usable in, text out.

OpenAI's API names the model in the request's body, where nginx does not look: each model has a path of its
own, `http://…/<model>/v1`. Keys are the client's; nginx passes them on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from ..errors import UsageError
from ..types.endpoint import ModelEndpoint
from .endpoints_usable import Usable, head_lines
from .text import clean

LISTEN = "127.0.0.1:8080"
"""Nobody else can connect before somebody has thought of keys and TLS."""


def render_nginx(usable: Usable) -> str:
    """The file. Raises UsageError where instances of a model differ in what a client has to send."""
    return "\n".join(_lines(usable))


def _lines(usable: Usable) -> Iterator[str]:
    yield from (f"# {clean(line)}" for line in head_lines(usable, "nginx configuration"))
    yield "# For /etc/nginx/conf.d. Listens on this machine only: before you open it, think of keys and TLS."
    models = usable.models
    for model, instances in models.items():
        _check_alike(model, instances)
        yield ""
        yield f"upstream {_upstream(usable, model)} {{"
        if len(instances) > 1:
            yield "    least_conn;"
        yield from (f"    server {urlsplit(each.url).netloc};" for each in instances)
        yield "    keepalive 16;"
        yield "}"
    yield ""
    yield "server {"
    yield f"    listen {LISTEN};"
    yield "    client_max_body_size 64m;        # long prompts, pictures"
    yield ""
    yield "    proxy_http_version 1.1;"
    yield '    proxy_set_header Connection "";  # connections to the models stay open'
    yield "    proxy_buffering off;             # tokens go out as they come"
    yield "    proxy_connect_timeout 5s;"
    yield "    proxy_read_timeout 1h;           # a long prompt takes minutes before its first token"
    yield "    proxy_send_timeout 1h;"
    for model in models:
        yield ""
        yield f"    # base URL: http://{LISTEN}/{model}/v1"
        yield f"    location /{model}/ {{"
        yield f"        proxy_pass http://{_upstream(usable, model)}/;"
        yield "    }"
    yield "}"


def _upstream(usable: Usable, model: str) -> str:
    return f"{usable.deployment}_{model}"


def _check_alike(model: str, instances: Sequence[ModelEndpoint]) -> None:
    for what, values in (
        ("their api_key", {each.key for each in instances}),
        ("their served_name", {each.served_name for each in instances}),
    ):
        if len(values) > 1:
            raise UsageError(
                f"instances of {model} differ in {what}, and nginx hands a request to any of them as it is",
                do="give them one, or take one host with --limit",
            )
