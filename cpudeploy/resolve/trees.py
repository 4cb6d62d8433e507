"""The name of a model's folder on hosts. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable


def tree_id(name: str, files: Iterable[tuple[str, str]]) -> str:
    """`<slug>-<12 hex>` for files as (name, sha256): safe as a file name, the same for the same content.

    The hex is of `sha256sum`-like lines sorted by name, so it can be recomputed by hand.
    """
    lines = "".join(f"{sha256}  {file}\n" for file, sha256 in sorted(files))
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:80].strip("-") or "model"
    return f"{slug}-{hashlib.sha256(lines.encode()).hexdigest()[:12]}"
