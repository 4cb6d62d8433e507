"""What each model gets on its host: cores, threads, memory, each number with its reason. Pure."""

from .allocate import allocate

__all__ = ["allocate"]
