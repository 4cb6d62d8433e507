"""What an image reference may look like. In: text. Out: nothing, or why it can't be one. Pure."""

from __future__ import annotations

import re

_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
# What stands before the first slash is a registry only with a dot or a port in it, or as localhost.
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_PORT = r":[0-9]{1,5}"
_DOMAIN = rf"(?:(?:localhost|{_LABEL}(?:\.{_LABEL})+|\[[0-9a-fA-F:]+\])(?:{_PORT})?|{_LABEL}{_PORT})"
_REFERENCE = re.compile(
    rf"(?P<repository>(?:{_DOMAIN}/)?{_COMPONENT}(?:/{_COMPONENT})*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?"
    r"(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)


def reference_fault(text: str) -> tuple[str, str] | None:
    """None for a usable reference with a tag or digest; else what is wrong and what to write."""
    if "://" in text:
        return "an image reference has no scheme", "leave out the part before ://"
    match = _REFERENCE.fullmatch(text) if len(text) <= 512 else None
    if match is None:
        if text.lower() != text and _REFERENCE.fullmatch(text.lower()):
            return "repository names are lower case", f"write {text.lower()} if that is what the registry has"
        return (
            "not an image reference",
            "write registry/repository:tag, such as ghcr.io/ggml-org/llama.cpp:server-b9000",
        )
    if match["tag"] is None and match["digest"] is None:
        return (
            "an image without a tag is whatever is newest that day",
            "pin a tag, such as :server-b9000, or a digest",
        )
    return None


def repository_of(reference: str) -> str:
    """A usable reference without its tag and digest."""
    match = _REFERENCE.fullmatch(reference)
    return match["repository"] if match else reference


def tag_of(reference: str) -> str:
    """The tag of a usable reference, or empty when it has only a digest."""
    match = _REFERENCE.fullmatch(reference)
    return (match["tag"] or "") if match else ""
