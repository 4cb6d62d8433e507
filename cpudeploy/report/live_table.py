"""Progress on a terminal: events in, a table that moves below lines that stay. From any thread.

A host takes one row while something is done to it; what finished and what needs saying scrolls above.
Text of hosts is escaped, never read as markup. Leaves the terminal as it was, whatever is raised inside.
What the terminal's encoding lacks is written otherwise, a terminal that went away is written to no more.
"""

from __future__ import annotations

import contextlib
import io
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, TextIO, cast

from ..types.event import ChangeFinished, Event, HostFinished, Note, StopAsked
from ..types.plan import Plan
from .board import Board, HostBoard
from .console import Console
from .live_text import END_SIGNS, END_STYLES, about, change_end, host_end, stop_asked
from .text import clean, pad, widest

if TYPE_CHECKING:
    from rich.console import OverflowMethod
    from rich.table import Table
    from rich.text import Text

_WIDEST_HOST = 24
_BAR = 10
_NARROW = 90
_FRAMES_PER_S = 8


class _Stream(io.TextIOBase):
    """What rich writes to: text becomes what the console can show, and nobody looking is no error."""

    def __init__(self, console: Console) -> None:
        self._console = console

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return getattr(self._console.stream, "encoding", None) or "utf-8"

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            self._console.stream.write(self._console.shown(text))
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._console.stream.flush()


class LiveTable:
    """Consumer of events. `clock` gives seconds, as time.monotonic does."""

    def __init__(self, console: Console, plan: Plan, *, clock: Callable[[], float] = time.monotonic) -> None:
        from rich.console import Console as RichConsole
        from rich.live import Live as RichLive

        self._width = console.width
        self._shown = console.shown
        self._clock = clock
        self._column = widest(plan.hosts, most=_WIDEST_HOST)
        self._board = Board(plan)
        self._lock = threading.Lock()
        self._rich = RichConsole(
            file=cast("TextIO", _Stream(console)),
            force_terminal=True,
            width=console.width,
            no_color=not console.colour,
            highlight=False,
            markup=False,
            emoji=False,
        )
        # Standard output may be another stream than ours: it is not to be drawn into.
        self._live = RichLive(
            console=self._rich,
            get_renderable=self._table,
            refresh_per_second=_FRAMES_PER_S,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def __enter__(self) -> LiveTable:
        self._live.start(refresh=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def tell(self, event: Event) -> None:
        """Account for `event`; ends and notes are also written above the table."""
        with self._lock:
            self._board.take(event, self._clock())
            line = self._lasting(event)
        # Not under our lock: rich draws the table, which takes it, while holding its own.
        if line is not None:
            self._rich.print(line, soft_wrap=True)

    def _lasting(self, event: Event) -> Text | None:
        from rich.text import Text

        match event:
            case ChangeFinished():
                sign, style, text = END_SIGNS[event.status], END_STYLES[event.status], change_end(event)
            case Note():
                sign, style = ("!", "yellow") if event.level == "warning" else ("·", "dim")
                text = f"{about(event, self._board)}{event.text}"
            case HostFinished():
                sign, style, text = " ", "", host_end(event)
            case StopAsked():
                return Text(self._shown(clean(stop_asked(event, self._board))), "yellow")
            case _:
                return None
        host = pad(self._shown(clean(event.host)), self._column)
        return Text.assemble((self._shown(sign), style), " ", (host, "bold"), "  ", self._shown(clean(text)))

    def _table(self) -> Table:
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), width=self._width)
        # Widths are right only for what is shown as it is: rich adds its `…` after we have chosen our signs.
        cut: OverflowMethod = "ellipsis" if self._shown("…") == "…" else "crop"
        for ratio in (None, None, 2, 3) if self._width >= _NARROW else (None, None, 1):
            table.add_column(no_wrap=True, overflow=cut, ratio=ratio)
        with self._lock:
            hosts = list(self._board.hosts.values())
            rows = [self._row(host) for host in hosts if host.active]
            ended = sum(bool(host.status) for host in hosts)
        for row in rows:
            table.add_row(*(Text(self._shown(cell), style) for cell, style in row[: len(table.columns)]))
        table.add_row("", Text(f"{ended} of {len(hosts)} hosts finished", "dim"))
        return table

    def _row(self, host: HostBoard) -> list[tuple[str, str]]:
        now = self._clock()
        moved = host.bytes_text(now)
        if moved and host.last_line:
            moved += f" · {clean(host.last_line)}"
        step = f"{min(host.finished + 1, host.changes)}/{host.changes} " if host.changes else ""
        moving = moved if self._width < _NARROW else _bar(host) + moved
        what = [(clean(host.operation), ""), (moving or clean(host.last_line), "" if moving else "dim")]
        if self._width < _NARROW:
            # One column for both: bytes say more than the name of the operation.
            what = [(moving or clean(host.last_line) or clean(host.operation), "")]
        return [
            (clean(host.host), "bold"),
            (f"{step}{clean(host.subject)} {self._waited(host, now)}", "cyan"),
            *what,
        ]

    def _waited(self, host: HostBoard, now: float) -> str:
        """Whole seconds: tenths would only flicker."""
        return host.waited(host.operation_started + max(1, int(now - host.operation_started)))


def _bar(host: HostBoard) -> str:
    if not host.total:
        return ""
    full = min(host.done, host.total) * _BAR // host.total
    return "━" * full + "╌" * (_BAR - full) + " "
