"""Names and folders a manifest can't have, for what else is there on a host. In: text. Out: a fault. Pure."""

from __future__ import annotations

import posixpath

from ..types.names import GUARDS, KEPT, LEASE, STATE_DIR
from .problems import show

_TAKEN = frozenset({"weights", "host", *(posixpath.basename(path) for path in (LEASE, GUARDS, KEPT))})
"""What deployments of a host share lies in STATE_DIR under these names, beside a folder a deployment."""

_SYSTEM = (
    "/boot",
    "/dev",
    "/etc",
    "/proc",
    "/root",
    "/run",
    "/sys",
    "/var/lib/containerd",
    "/var/lib/docker",
    "/var/run",
)


def deployment_fault(name: str) -> tuple[str, str] | None:
    """None for a name whose folder is free; else what is wrong, and what to do."""
    if name not in _TAKEN:
        return None
    return f"a deployment can't be called {show(name)}", f"choose another: {STATE_DIR}/{name} is everybody's"


def weights_fault(path: str) -> tuple[str, str] | None:
    """None for an absolute path that may hold model files; else what is wrong with it, and what to do."""
    plain = posixpath.normpath(path)
    if plain != path:
        return f"the folder {show(path)} has a shorter name", f"write {show(plain)}"
    default = f"{STATE_DIR}/weights"
    if path != default and _inside(path, STATE_DIR):
        return f"the folder {show(path)} is where state is kept", f"write {default} or a folder elsewhere"
    system = next((folder for folder in _SYSTEM if _inside(path, folder)), None)
    if system is not None:
        return f"the folder {show(path)} is for {show(system)}, not models", "write one such as /data/models"
    return None


def model_fault(path: str) -> tuple[str, str] | None:
    """None for an absolute path of a model, whose folder its container will see; else what is wrong, and what
    to do."""
    plain = posixpath.normpath(path)
    if plain != path:
        return f"the path {show(path)} has a shorter name", f"write {show(plain)}"
    folder = posixpath.dirname(path)
    system = (*_SYSTEM, STATE_DIR)
    whole = folder in ("/", "/root") or any(_inside(folder, each) for each in system if each != "/root")
    if not whole:
        return None
    return (
        f"the model's container would see all of {show(folder)}, where {show(path)} is",
        "move the model to a folder for models, such as /data/models",
    )


def _inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")
