"""A host that an apply left in the middle, put right before anybody plans from what it looks like.

While a guard is armed what stands there is about to change, so a plan of it would be stale before it is read.
"""

from __future__ import annotations

from ..types.facts import Facts
from .change import Target


def unsettled(found: Facts) -> bool:
    """Whether something on the host waits to be put back, was under way, or is held by one who is no more.
    The first two also where the lease is held: who holds it may be nobody but the guards of a controller
    that is gone, and then `settle` waits for them."""
    left_held = found.lease is not None and found.lease.expired
    return found.in_flight is not None or bool(found.guards) or left_held


def settle(target: Target) -> Facts:
    """The host's facts afterwards. Raises Locked when somebody is at work there after all."""
    target.lock("settle")
    try:
        target.settle()
        return target.facts()
    finally:
        target.unlock()
