"""The lab's model hub as a process: started on the gateway's address, stopped by its pid.

In: an address and the state folder. Out: a running hub with the lab's models, its log, and its faults.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PORT = 8000


@dataclass(frozen=True)
class Hub:
    """The hub of one lab."""

    address: str
    state: Path

    @property
    def url(self) -> str:
        """For HF_ENDPOINT."""
        return f"http://{self.address}:{PORT}"

    def start(self) -> None: ...

    def stop(self) -> None: ...
