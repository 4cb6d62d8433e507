"""Endpoints as lines for a POSIX shell: `eval "$(cpudeploy endpoints --format env)"`. Usable in, text out.

Never a key: a line that reads it where the shell can (a file, a variable), else a comment that names its
place. `export` keeps programs that read such files by themselves, and would not run `$(cat …)`, from taking
those words for the key.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import PurePath

from ..types.endpoint import EndpointKey, ModelEndpoint
from .endpoints_usable import Usable, head_lines, key_words
from .text import clean

NO_KEY = "none"
"""For models that ask for no key: clients refuse to start without any."""


def render_env(usable: Usable, *, prefixes: dict[str, str], base: str) -> str:
    """The lines. prefixes: model → what its variables begin with; base: the manifest's folder, absolute."""
    return "\n".join(_lines(usable, prefixes, base))


def _lines(usable: Usable, prefixes: dict[str, str], base: str) -> Iterator[str]:
    yield from (f"# {clean(line)}" for line in head_lines(usable, "Endpoints"))
    for variable, key in usable.keys.items():
        yield from _key_lines(variable, key, base)
    models = usable.models
    for model, instances in models.items():
        yield from _model_lines(prefixes[model], instances)
    if len(models) == 1:
        ((model, (first, *_)),) = models.items()
        yield _assigned("OPENAI_BASE_URL", first.url)
        key_variable = first.key.variable if first.key else ""
        if key_variable != "OPENAI_API_KEY":
            yield _copied("OPENAI_API_KEY", key_variable) if key_variable else _no_key("OPENAI_API_KEY")
    elif models:
        yield "# OPENAI_BASE_URL and OPENAI_API_KEY: of one model, with --model NAME"


def _model_lines(prefix: str, instances: list[ModelEndpoint]) -> Iterator[str]:
    first = instances[0]
    yield _assigned(f"{prefix}_MODEL", first.served_name)
    for number, each in enumerate(instances, 1):
        end = "" if number == 1 else f"_{number}"
        other = f"  # its key: ${each.key.variable}" if each.key and each.key != first.key else ""
        yield _assigned(f"{prefix}_BASE_URL{end}", each.url) + other
    if first.key is None:
        yield _no_key(f"{prefix}_API_KEY")
    elif first.key.variable != f"{prefix}_API_KEY":
        yield _copied(f"{prefix}_API_KEY", first.key.variable)


def _key_lines(variable: str, key: EndpointKey, base: str) -> Iterator[str]:
    if key.kind == "from_env":
        yield f': "${{{variable}:?is not set}}"'
    elif key.kind == "from_file" and (path := _path(key.name, base)):
        yield f'export {variable}="$(cat {path})"'
    else:
        yield f"# {variable}: set it to what {clean(key_words(key))} tells"


def _path(name: str, base: str) -> str:
    """The file as a shell's word; empty for one in somebody else's home."""
    if name.startswith("~/"):
        return f'"$HOME"/{shlex.quote(name[2:])}'
    return "" if name.startswith("~") else shlex.quote(str(PurePath(base) / name))


def _assigned(variable: str, value: str) -> str:
    return f"export {variable}={shlex.quote(value)}"


def _copied(variable: str, other: str) -> str:
    return f'export {variable}="${other}"'


def _no_key(variable: str) -> str:
    return f"export {variable}={NO_KEY}"
