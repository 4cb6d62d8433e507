"""Networks and volumes of the engine, removed where they carry our mark. Looks again just before: what a plan
saw may be another's by now.
"""

from __future__ import annotations

import httpx

from ..errors import EngineError, OperationFailed
from ..types.names import DEPLOYMENT_LABEL
from ..types.operation import RemoveVolume
from .engine import EngineClient


def remove_network(engine: EngineClient, network: str, deployment: str) -> None:
    """Absent is done. Raises EngineError for one that is not of `deployment`."""
    found = engine.network(network)
    if found is not None and (found.get("Labels") or {}).get(DEPLOYMENT_LABEL) != deployment:
        raise EngineError(f"network {network} is not of this deployment; it is left alone")
    engine.remove_network(network)


def remove_volume(engine: EngineClient, request: RemoveVolume, deployment: str) -> None:
    """Absent is done. Raises EngineError for one that is not of `deployment`, OperationFailed naming who
    mounts it where somebody does."""
    name = request.volume
    found = engine.volume(name)
    if found is None:
        return
    label = (found.get("Labels") or {}).get(DEPLOYMENT_LABEL) or ""
    if label != deployment and not (request.unmarked and not label):
        raise EngineError(
            f"volume {name} is not of deployment {deployment}; it is left alone",
            do="plan again; if nobody needs it, remove it yourself (docker volume rm)",
        )
    try:
        engine.remove_volume(name)
    except EngineError as error:
        if error.status != httpx.codes.CONFLICT:
            raise
        users = ", ".join(engine.containers_with(name))
        raise OperationFailed(
            f"volume {name} is in use by {users}" if users else error.what,
            do="remove the containers that mount it (docker rm), then plan again",
        ) from None
