"""Where the files that ship with the package are: playbooks and schemas.

In: the kind of data. Out: its folder, in the wheel or beside the package in a checkout. Reads nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

_PACKAGE = Path(__file__).parent


def data_dir(kind: Literal["playbooks", "schemas"]) -> Path:
    """The folder of shipped `kind`. It may be missing only in a damaged installation."""
    in_wheel = _PACKAGE / "data" / kind
    return in_wheel if in_wheel.is_dir() else _PACKAGE.parent / kind
