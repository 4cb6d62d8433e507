"""Carrying plans out: the only room that interprets operations, and the client of the container engine.

A plan and a way to open hosts in; events while it happens and an outcome at the end. Decides nothing
about what is wanted.
"""

from __future__ import annotations

from .change import Target
from .engine import EngineClient
from .runner import execute
from .settling import settle, unsettled
from .target import HostTarget

__all__ = ["EngineClient", "HostTarget", "Target", "execute", "settle", "unsettled"]
