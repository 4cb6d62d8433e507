"""Reading the machine's Debian mirror from apt's configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab.packages import Mirror, debian_mirror
from tests.lab.shell import LabError

DEB822 = """\
# a comment
Types: deb
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main

Types: deb
URIs: http://mirror.example/debian-security/
Suites: bookworm-security
Components: main

Enabled: no
Types: deb
URIs: http://off.example/debian
Suites: sid
"""
ONE_LINE = """\
deb [arch=amd64 signed-by=/etc/key] https://tools.example/apt tools main
deb [trusted=yes] http://mirror.example/debian trixie main contrib
# deb http://off.example/debian sid main
deb http://mirror.example/debian trixie-updates main
"""


def test_deb822_sources_are_read(tmp_path: Path) -> None:
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list.d" / "debian.sources").write_text(DEB822)
    assert debian_mirror(tmp_path) == Mirror(
        "http://mirror.example/debian", "http://mirror.example/debian-security"
    )


def test_one_line_sources_are_read_and_others_passed_over(tmp_path: Path) -> None:
    (tmp_path / "sources.list").write_text(ONE_LINE)
    mirror = debian_mirror(tmp_path)
    assert mirror == Mirror("http://mirror.example/debian", None)
    assert mirror.sources_list("bookworm").splitlines() == [
        "deb http://mirror.example/debian bookworm main",
        "deb http://mirror.example/debian bookworm-updates main",
    ]


def test_no_mirror_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="no Debian mirror"):
        debian_mirror(tmp_path)
