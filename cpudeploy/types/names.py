"""What our things are called on a host: folders, containers, labels. One place, so that all rooms agree."""

from __future__ import annotations

STATE_DIR = "/var/lib/cpudeploy"
"""Always here, so that deployments meet in one lease and one host record."""

HOST_RECORD = f"{STATE_DIR}/host.json"
"""Who claims what deployments share on a host; `types.shared.HostRecord`."""

KEPT = f"{STATE_DIR}/kept"
"""A folder a file that is being edited: what it was, so that a script can put it back."""

BEFORE = f"{STATE_DIR}/before.json"
"""By shared key, the value before any of ours where only the host may know it; 0600, in no facts."""

LEASE = f"{STATE_DIR}/lease"
"""A folder that exists while somebody holds the host; `types.safety.Lease`."""

IN_FLIGHT = f"{STATE_DIR}/inflight.json"
"""The change under way; `types.safety.InFlight`."""

GUARDS = f"{STATE_DIR}/guard"
"""A folder a guard; `types.safety.Guard`."""

AUDIT = f"{STATE_DIR}/audit.jsonl"
"""Who changed what when: a line an event, oldest first."""

LABEL = "io.cpudeploy"
DEPLOYMENT_LABEL = f"{LABEL}.deployment"
RELEASE_LABEL = f"{LABEL}.release"


def container_name(deployment: str, model: str, instance: int) -> str:
    """`rag_qwen3-4b_0`; deployment and model names can't hold an underscore."""
    return f"{deployment}_{model}_{instance}"


def old_name(container: str) -> str:
    """What `container` is called while another one takes its place."""
    return f"{container}_old"


def next_name(container: str) -> str:
    """What a new one is called until it takes the place of `container`."""
    return f"{container}_next"


def base_name(container: str) -> str:
    """The name that a container has or had or was to have: without `_old` and `_next`."""
    return container.removesuffix("_old").removesuffix("_next")


def volume_name(deployment: str, model: str, name: str) -> str:
    """`rag_qwen3-4b_cache`: a volume of one model, kept from container to container."""
    return f"{deployment}_{model}_{name}"


def model_of_volume(deployment: str, volume: str) -> str:
    """The model that a volume is of; empty for one of another name than we give."""
    theirs, _, rest = volume.partition("_")
    model, _, name = rest.partition("_")
    return model if theirs == deployment and name else ""


def secret_path(deployment: str, container: str, name: str) -> str:
    """The file on the host that holds a container's secret, 0600."""
    return f"{STATE_DIR}/{deployment}/secrets/{container}/{name}"
