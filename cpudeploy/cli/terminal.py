"""The two streams of this process, as consoles."""

from __future__ import annotations

import os
import sys

from ..report.console import Console, console_for


def stdout() -> Console:
    return console_for(sys.stdout, os.environ)


def stderr() -> Console:
    return console_for(sys.stderr, os.environ)
