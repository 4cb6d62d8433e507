"""The leases of a whole fleet: on every host or on none, so that of two applies one wins, the other names it.

At once first, since mostly nobody else is there. Where somebody is, all are given back and taken anew one by
one in the order of their names, each a little waited for: two that collide can neither keep each other from
their hosts for ever, nor give up both.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from ..errors import Locked
from .change import Target

_PAUSE_S = 0.3


def lock_all(
    targets: Mapping[str, Target],
    plan: str,
    *,
    parallel: int,
    patience_s: float = 3.0,
) -> dict[str, Exception]:
    """Host → why it could not be locked. One that is Locked among them: none is held then. Any other error is
    that host's own, and the others are held. Raises nothing."""
    failed = _at_once(targets, plan, parallel)
    if not _locked(failed):
        return failed
    _give_back(targets, failed, parallel)
    if len(targets) == 1:
        return failed
    failed = {name: error for name, error in failed.items() if not isinstance(error, Locked)}
    held: dict[str, Target] = {}
    for name in sorted(targets.keys() - failed.keys()):
        error = _waited_for(targets[name], plan, patience_s)
        if error is None:
            held[name] = targets[name]
            continue
        failed[name] = error
        if isinstance(error, Locked):
            _give_back(held, {}, parallel)
            break
    return failed


def _at_once(targets: Mapping[str, Target], plan: str, parallel: int) -> dict[str, Exception]:
    with ThreadPoolExecutor(max_workers=max(1, parallel)) as pool:
        tried = {name: pool.submit(_try, target, plan) for name, target in targets.items()}
        return {name: error for name, future in tried.items() if (error := future.result()) is not None}


def _try(target: Target, plan: str) -> Exception | None:
    try:
        target.lock(plan)
    except Exception as error:  # whatever it is, it is one host's
        return error
    return None


def _waited_for(target: Target, plan: str, patience_s: float) -> Exception | None:
    end = time.monotonic() + patience_s
    while isinstance(error := _try(target, plan), Locked) and time.monotonic() < end:
        time.sleep(_PAUSE_S)
    return error


def _give_back(targets: Mapping[str, Target], failed: Mapping[str, Exception], parallel: int) -> None:
    held = [target for name, target in targets.items() if name not in failed]
    with ThreadPoolExecutor(max_workers=max(1, parallel)) as pool:
        list(pool.map(_unlock, held))


def _unlock(target: Target) -> None:
    with suppress(Exception):  # a lease that is gone needs no giving back
        target.unlock()


def _locked(failed: Mapping[str, Exception]) -> bool:
    return any(isinstance(error, Locked) for error in failed.values())
