"""What differs between a plan and a host, in the words of the manifest. Pure.

In: a JSON pointer into the facts, what a plan says is there, and what is. Out: one clause about the thing
that people know: a container, an image, a file. Never a pointer, never a page of data.
"""

from __future__ import annotations

from typing import Any

_SHORT = 12
"""Characters of a digest that are shown."""
_IDENTITIES = ("id", "sha256", "inode", "verified")
"""Fields that say which one it is: another value is another thing."""
_SIZES = ("memory", "memory_swap", "size")
_STATES = {
    "running": ("running", "stopped"),
    "installed": ("installed", "missing"),
    "allowed": ("allowed", "not allowed"),
    "live_restore": ("on", "off"),
}
"""Fields that are true or false, with the word for either."""
_LABELS = {
    "owners": "owner",
    "restart_policy": "restart policy",
    "mark.release": "release",
    "live_restore": "live-restore",
    "memory_swap": "memory with swap",
    "cpuset_mems": "memory nodes",
}


def differs_from_before(pointer: str, wanted: Any, found: Any, *, least: bool) -> str:
    """For a host that is not as it was when the plan was made: `…: memory was 1 GiB, is 512 MiB`."""
    if is_another(pointer, least=least):
        thing = thing_of(pointer)
        if found is None:
            return f"{thing} is gone"
        if wanted is None:
            return f"{thing} was not there, is there now"
        return f"{thing} is {_told(found) if _unknown(found) else 'not the one that was there'}"
    return _differs(pointer, wanted, found, "was", least=least)


def differs_from_plan(pointer: str, wanted: Any, found: Any, *, least: bool) -> str:
    """For a host that is not as a plan meant to leave it: `…: memory should be 1 GiB, is 512 MiB`."""
    if is_another(pointer, least=least):
        thing = thing_of(pointer)
        if found is None:
            return f"{thing} is not there"
        if wanted is None:
            return f"{thing} should not be there"
        return f"{thing} is {_told(found) if _unknown(found) else 'another one'}"
    return _differs(pointer, wanted, found, "should be", least=least)


def _differs(pointer: str, wanted: Any, found: Any, verb: str, *, least: bool) -> str:
    thing, field = _named(pointer)
    if least:
        return f"{thing}: {_size(found)} {field}, {_size(wanted)} are needed"
    if field in _STATES and _truth(wanted, found):
        yes, no = _STATES[field]
        # What is only listed where it is so is not so where nothing is there.
        return f"{thing} {verb} {yes if wanted else no}, is {yes if found else no}"
    label = _LABELS.get(field, field.replace("_", " "))
    return f"{thing}: {label} {verb} {_value(field, wanted)}, is {_value(field, found)}"


def thing_of(pointer: str) -> str:
    """What a pointer is about: `container rag_x_0`."""
    return _named(pointer)[0]


def is_another(pointer: str, *, least: bool) -> str:
    """The thing of a statement about which one it is, empty for one about how it is."""
    thing, field = _named(pointer)
    # At least one byte of it: the facts of what is there have no better field to say that it is.
    there = not field or field in _IDENTITIES or (least and field == "size")
    return thing if there else ""


def _named(pointer: str) -> tuple[str, str]:
    """The thing a pointer is about, and which of its fields; no field is the thing itself."""
    match _tokens(pointer):
        case ["containers", name, *field]:
            return f"container {name}", ".".join(field)
        case ["networks", name, *field]:
            return f"network {name}", ".".join(field)
        case ["volumes", name, *field]:
            return f"volume {name}", ".".join(field)
        case ["images", digest, *field]:
            return f"image {_digest(digest)}", ".".join(field)
        case ["weights", "blobs", sha256, *field]:
            return f"model file sha256:{_digest(sha256)}", ".".join(field)
        case ["weights", "trees", tree]:
            return f"model folder {tree}", ""
        case ["weights", "trees", tree, *name]:
            return f"model file {'/'.join(name)} in {tree}", "inode"
        case ["weights", "refs", name]:
            return f"the list of models of {name}", ""
        case ["disks", folder, *field]:
            return f"disk of {folder}", ".".join(field)
        case ["files", path, *field]:
            return path, ".".join(field)
        case ["releases", deployment, release, *field]:
            return f"release {release} of {deployment}", ".".join(field)
        case ["releases", deployment]:
            return f"the releases of {deployment}", ""
        case ["tools", name]:
            return name, "installed"
        case ["engine", "insecure", registry]:
            return f"plain HTTP to {registry}", "allowed"
        case ["engine", "daemon", *field]:
            return "the engine's daemon.json", ".".join(field)
        case ["engine", *field]:
            return "the engine", ".".join(field)
        case ["host_record", "keys", key, "owners"]:
            return key, "owners"
        case [*others]:
            return others[0].replace("_", " ") if others else "the host", ".".join(others[1:])


def _tokens(pointer: str) -> list[str]:
    return [token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:]]


def _truth(*values: Any) -> bool:
    return all(value is None or isinstance(value, bool) for value in values)


def _value(field: str, value: Any) -> str:
    if field in _SIZES and isinstance(value, int):
        return _size(value) if value else "not limited"
    if field == "owners":
        return ", ".join(map(str, value)) if value else "nobody"
    return _told(value)


def _told(value: Any) -> str:
    if value is None:
        return "not there"
    if _unknown(value):
        return f"unknown ({value['unknown']})"
    if isinstance(value, dict):
        return "there"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value) or "none"


def _unknown(value: Any) -> bool:
    return isinstance(value, dict) and value.get("kind") == "unknown"


def _size(size: Any) -> str:
    """Bytes as limits are written: `1.5 GiB`."""
    if isinstance(size, bool) or not isinstance(size, int | float):
        return _told(size)
    value, units = float(size), ["B", "KiB", "MiB", "GiB", "TiB"]
    while len(units) > 1 and value >= 1024:
        value, units = value / 1024, units[1:]
    return f"{value:.1f}".removesuffix(".0") + f" {units[0]}"


def _digest(text: str) -> str:
    kind, separator, value = text.rpartition(":")
    return f"{kind}{separator}{value[:_SHORT]}…" if len(value) > _SHORT else text
