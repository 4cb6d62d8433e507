"""Which image references a manifest may hold. In: text. Out: nothing, or why it can't be one. Pure."""

from __future__ import annotations

from ..types.references import BadReference, parse_reference


def reference_fault(text: str) -> tuple[str, str] | None:
    """None for a usable reference with a tag or digest; else what is wrong and what to write."""
    if not text.isprintable():
        return "not an image reference: it has characters that don't show", "write it anew"
    try:
        reference = parse_reference(text)
    except BadReference as error:
        return error.what, error.do
    if reference.tag is None and reference.digest is None:
        return (
            "an image without a tag is whatever is newest that day",
            "pin a tag, such as :server-b9000, or a digest",
        )
    return None


def tag_of(text: str) -> str:
    """The tag of a usable reference, or empty when it has only a digest."""
    try:
        return parse_reference(text).tag or ""
    except BadReference:
        return ""
