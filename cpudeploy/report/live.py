"""Which way progress is shown: a moving table on a terminal, plain lines elsewhere, JSON where asked."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, Self

from ..types.event import Event
from ..types.plan import Plan
from .console import Console
from .json_text import JsonLines
from .live_lines import LiveLines


class Live(Protocol):
    """Consumes events while it is open. `tell` may be called from several threads."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def tell(self, event: Event) -> None: ...


def live(console: Console, plan: Plan, *, json: bool = False) -> Live:
    """The consumer that suits `console`."""
    if json:
        return JsonLines(console)
    if console.terminal:
        # Here, not above: rich is only worth its import on a terminal.
        from .live_table import LiveTable

        return LiveTable(console, plan)
    return LiveLines(console, plan)
