"""Get an image from the first place that has it. The engine and places in; the image there, or RegistryError.

A place that fails is told and the next one is tried: a mirror hides a missing image behind any error.
What broke after bytes had arrived is tried again at the same place, where layers resume.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ..errors import EngineError, RegistryError
from ..types.operation import PullImage
from ..types.resolved import Place
from .engine import EngineClient, EngineLost, EngineSilent
from .engine_stream import PullProgress

_STALL_S = 120.0
_TRIES = 3
_TELL_EVERY_S = 0.5

Login = Callable[[Place], dict[str, str] | None]
Told = Callable[[int, int, str], None]


class _Stalled(Exception):
    """Messages came, bytes did not."""


def pull_image(
    engine: EngineClient,
    request: PullImage,
    login: Login,
    progress: Told,
    note: Callable[[str], None],
    *,
    stall_s: float = _STALL_S,
) -> None:
    """Pull unless one of the places' images is there. `progress(done, total, text)`: bytes, and what it does
    beside downloading; `note` a sentence."""
    if any(engine.image(place.reference) is not None for place in request.places):
        return
    refused: list[str] = []
    for place in request.places:
        reason = _from_place(engine, place, request, login, progress, note, stall_s)
        if not reason:
            _check(engine, place, request)
            progress(request.size, request.size, "")
            return
        refused.append(f"{place.registry}: {reason}")
        if place is not request.places[-1]:
            note(f"no image from {place.reference} ({reason}); trying the next place")
    raise RegistryError(
        "the image could not be pulled from " + "; ".join(refused),
        do="check that the host reaches the registry, or add a mirror under `mirrors: images:`",
    )


def _from_place(
    engine: EngineClient,
    place: Place,
    request: PullImage,
    login: Login,
    progress: Told,
    note: Callable[[str], None],
    stall_s: float,
) -> str:
    """Empty: pulled. Else why not."""
    reason = ""
    for attempt in range(1, _TRIES + 1):
        sums = PullProgress(expected=request.size)
        try:
            engine.pull(
                place.reference,
                platform=request.platform,
                auth=login(place),
                stall_s=stall_s,
                on_message=_watch(sums, progress, stall_s),
            )
            return ""
        except (EngineSilent, _Stalled):
            reason = f"nothing arrived for {stall_s:.0f} s"
        except EngineLost as error:
            reason = error.what
        except EngineError as error:
            reason = error.what
            if not sums.done:
                return reason
        if attempt < _TRIES:
            note(f"pull from {place.registry} broke off ({reason}); trying again")
    return reason


def _watch(sums: PullProgress, progress: Told, stall_s: float) -> Callable[[dict[str, Any]], None]:
    """Sums messages, tells now and then, and ends a pull whose messages are no progress."""
    moved = told = time.monotonic()

    def message(told_by_engine: dict[str, Any]) -> None:
        nonlocal moved, told
        now = time.monotonic()
        if sums.take(told_by_engine):
            moved = now
        elif now - moved > stall_s:
            raise _Stalled
        if now - told >= _TELL_EVERY_S:
            told = now
            progress(sums.done, sums.total, sums.unpacking)

    return message


def _check(engine: EngineClient, place: Place, request: PullImage) -> None:
    """The image is there under the name containers will be created from, for the right platform."""
    image = engine.image(place.reference)
    if image is None:
        raise RegistryError(f"the engine pulled {place.reference} but does not hold it under that name")
    found = f"{image.get('Os', '')}/{image.get('Architecture', '')}"
    if request.platform and not request.platform.startswith(found):
        raise RegistryError(
            f"{place.reference} is for {found}, this host needs {request.platform}",
            do="use an image (or a mirror) that has this platform",
        )
