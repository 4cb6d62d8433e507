"""What registries and Hubs say about a deployment: digests, revisions, files, headers."""

from .resolving import resolve

__all__ = ["resolve"]
