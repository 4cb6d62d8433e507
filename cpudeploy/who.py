"""Who works here, for people who will read it on a host."""

from __future__ import annotations

import getpass
import os
import socket


def user() -> str:
    """Whose process this is, by name; somebody without one (a container's arbitrary uid) as `uid-1234`."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid-{os.getuid()}"


def who() -> str:
    """`ops@laptop`."""
    return f"{user()}@{socket.gethostname()}"
