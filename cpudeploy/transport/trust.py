"""Host keys that nobody knows yet: found by connecting as a deployment would, recorded where ssh would.

In: hosts of a manifest. Out: the next unknown key on the way to each, or that all are known. Logs in to jumps
only; never records anything by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..types.deployment import Host
from .hostkeys import fingerprint, record
from .settings import resolve
from .ssh import NewKey, unknown_key
from .starts import Starts

_ALGORITHMS = {"ssh-ed25519": "ED25519", "ssh-rsa": "RSA", "ssh-dss": "DSA"}


@dataclass(frozen=True)
class Shown:
    """A key that a hop on the way to a host showed. `hop`: the host's name, or that of a jump on its way."""

    hop: str
    known_name: str
    algorithm: str
    fingerprint: str
    file: Path | None
    new: NewKey

    def record(self) -> Path:
        """Add it to known_hosts. Raises ConnectError where there is no such file, or it can't be written."""
        return record(self.new.hop, self.new.kind, self.new.key)


def next_unknown(host: Host, starts: Starts) -> Shown | None:
    """The first key on the way to `host` that is not known; None: all are, or the host is this machine.

    Raises ConnectError for a key that changed or is revoked, and where the host can't be reached.
    """
    if host.connection == "local":
        return None
    new = unknown_key(resolve(host.name, host.ssh), starts)
    if new is None:
        return None
    return Shown(
        hop=new.hop.name,
        known_name=new.hop.known_name,
        algorithm=_ALGORITHMS.get(new.kind, "ECDSA" if new.kind.startswith("ecdsa-") else new.kind),
        fingerprint=fingerprint(new.key),
        file=new.hop.record_in,
        new=new,
    )
