"""Text as Markdown that shows exactly it, and what may be folded away. Text in, Markdown out.

What hosts said can't become a link, a mention or HTML. Comments on forges are of a bounded length.
"""

from __future__ import annotations

import re
from html import escape

from .text import clean

LIMIT = 60_000
"""Characters: below what GitHub (65,536) and GitLab (1,000,000) accept for one comment."""
_SPECIAL = re.compile(r"([\\`*_\[\]<>#!|~$&])")
_AT_START = re.compile(r"^(\d*)([-+=.)])")
_LINKING = re.compile(r"(?<=@)|(?<=:)(?=//)|(?<=www)(?=\.)", re.IGNORECASE)


def plain(text: str) -> str:
    """`text` without markup, links or mentions, on one line."""
    escaped = _AT_START.sub(r"\1\\\2", _SPECIAL.sub(r"\\\1", clean(text)))
    # An empty comment keeps a forge from seeing an address or a name to notify.
    return _LINKING.sub("<!-- -->", escaped)


def code(text: str) -> str:
    """`text` as code within a line: it can be copied, and nothing in it acts."""
    shown = clean(text)
    ticks = max((len(run) for run in re.findall("`+", shown)), default=0)
    fence = "`" * (ticks + 1)
    edge = " " if ticks else ""
    return f"{fence}{edge}{shown}{edge}{fence}"


def folded(title: str, text: str) -> str:
    """`text` (clean lines) word for word, behind a title that opens it."""
    ticks = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, ticks + 1)
    summary = f"<summary>{escape(clean(title))}</summary>"
    return f"<details>{summary}\n\n{fence}text\n{text}\n{fence}\n\n</details>"
