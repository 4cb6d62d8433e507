"""What can go wrong, one class per thing a user can act on.

Every error carries where it happened, what is wrong and what to do about it; the command line
prints those three and nothing else. Exit codes are those of docs/troubleshooting.md; `worst()` ranks several.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

OK = 0
ERROR = 1
CHANGES = 2
SOME_FAILED = 3
UNREACHABLE = 4
LOCKED = 5
STALE = 6
ROLLED_BACK = 7
USAGE = 64
INTERRUPTED = 130

_RANK = (INTERRUPTED, USAGE, LOCKED, STALE, SOME_FAILED, ROLLED_BACK, UNREACHABLE, ERROR, CHANGES, OK)


def worst(codes: Iterable[int]) -> int:
    """The one exit code that speaks for several (0 for none)."""
    present = set(codes)
    return next((code for code in _RANK if code in present), OK)


class CpudeployError(Exception):
    """Root of all errors a user sees.

    `what` is one sentence; `where` names the place (file:line:column, host, resource);
    `do` is the next step, or empty when there is none worth saying.
    """

    code = ERROR

    def __init__(self, what: str, *, where: str = "", do: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.do = do

    @property
    def sentence(self) -> str:
        """What and what to do on one line, for where the place is named beside it."""
        return f"{self.what}; do: {self.do}" if self.do else self.what

    @property
    def line(self) -> str:
        """Where, what and what to do on one line, whatever lines they have."""
        first, *rest = (line.strip() for line in self.what.splitlines() or [""])
        what = f"{first}: {'; '.join(rest)}" if rest else first
        parts = [f"{self.where}: {what}" if self.where else what]
        parts += [f"do: {' '.join(self.do.split())}"] if self.do else []
        return "; ".join(parts)

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        return f"{text}\n  do: {self.do}" if self.do else text


class UsageError(CpudeployError):
    """The command line itself is wrong."""

    code = USAGE


@dataclass(frozen=True)
class Problem:
    """One thing wrong in a file. `where` is file:line:column."""

    where: str
    what: str
    do: str = ""


class ManifestError(CpudeployError):
    """The inventory or a playbook is wrong; carries every problem found, in file order."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        lines = [f"{p.where}: {p.what}" + (f"\n  do: {p.do}" if p.do else "") for p in self.problems]
        super().__init__("\n".join(lines))

    def __str__(self) -> str:
        return self.what


class SecretError(CpudeployError):
    """A secret reference could not be resolved. Never carries the value."""


class ConnectError(CpudeployError):
    """A host could not be reached or refused us: network, host key, login."""

    code = UNREACHABLE


class ConnectionLost(ConnectError):
    """An open connection broke or went silent past its deadline."""


class SudoError(ConnectError):
    """Logged in, but root is not to be had."""


class HostError(CpudeployError):
    """A host is not fit for what is asked of it (engine missing, disk full, wrong platform)."""


class RegistryError(CpudeployError):
    """An image could not be resolved or pulled."""


class RecordError(CpudeployError):
    """A file of recorded facts can't be written, read or understood."""


class SavedPlanError(CpudeployError):
    """A file with a saved plan can't be written, read or understood."""


class HubError(CpudeployError):
    """Model files could not be resolved or fetched."""


class DoesNotFit(CpudeployError):
    """A model needs more than the host has. `do` names what would fit."""


class NoRoom(DoesNotFit):
    """The host is too full for it; another one may not be."""


class NotYet(CpudeployError):
    """Valid and understood, but not built yet."""


class EngineError(CpudeployError):
    """The container engine refused a request. `status` is its HTTP status."""

    def __init__(self, what: str, *, status: int = 0, where: str = "", do: str = "") -> None:
        super().__init__(what, where=where, do=do)
        self.status = status


class OperationFailed(CpudeployError):
    """An operation of a plan did not do what it says (script failed, checksum differs, timeout)."""

    code = SOME_FAILED


class GateFailed(CpudeployError):
    """A started model did not pass its health gate."""

    code = ROLLED_BACK


class StalePlan(CpudeployError):
    """The host is neither as it was when the plan was made nor as the plan would leave it."""

    code = STALE


class Locked(CpudeployError):
    """Another apply holds the host."""

    code = LOCKED
