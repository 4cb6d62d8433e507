"""Endpoints as the `config.yaml` of a LiteLLM proxy. Usable in, YAML out.

Entries of one `model_name` are balanced by the proxy: instances of a model, and models of one served name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from ..types.endpoint import ModelEndpoint
from .endpoints_env import NO_KEY
from .endpoints_usable import Usable, head_lines, key_words
from .text import clean


def render_litellm(usable: Usable) -> str:
    """The file, without a line end at its end."""
    entries = [_entry(each) for each in usable.endpoints]
    body = yaml.safe_dump({"model_list": entries}, sort_keys=False).rstrip("\n")
    return "\n".join([*(f"# {clean(line)}" for line in _head(usable)), body])


def _head(usable: Usable) -> Iterator[str]:
    yield from head_lines(usable, "LiteLLM proxy configuration")
    for variable, key in usable.keys.items():
        told = "" if key.kind == "from_env" else f": what {key_words(key)} tells"
        yield f"the proxy's environment needs {variable}{told}"
    yield "and LITELLM_MASTER_KEY, a key of its own: whoever has it may ask all of these models"


def _entry(each: ModelEndpoint) -> dict[str, Any]:
    return {
        "model_name": each.served_name,
        "litellm_params": {
            "model": f"openai/{each.served_name}",
            "api_base": each.url,
            "api_key": f"os.environ/{each.key.variable}" if each.key else NO_KEY,
        },
    }
