"""Whether documents are as their published schemas say, for every test that makes one."""

from __future__ import annotations

import functools
import json
from typing import Any

import jsonschema

from cpudeploy.manifest.published import published


@functools.cache
def _validator(document: str) -> Any:
    return jsonschema.Draft202012Validator(published(document))


def check_document(document: str, data: Any) -> None:
    """Raises ValidationError for data that is not what `cpudeploy schema <document>` says."""
    _validator(document).validate(json.loads(json.dumps(data)))
