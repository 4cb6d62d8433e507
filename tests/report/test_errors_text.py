from cpudeploy.errors import ConnectError, ManifestError, Problem
from cpudeploy.report.errors_text import render_error

from .samples import HOSTILE


def test_an_error_says_where_what_and_what_to_do() -> None:
    error = ConnectError("the host key is not known", where="genoa-1", do="run `cpudeploy trust genoa-1`")
    assert render_error(error, False) == (
        "✗ genoa-1: the host key is not known\n  do  run `cpudeploy trust genoa-1`"
    )


def test_what_is_not_known_leaves_no_empty_line() -> None:
    assert render_error(ConnectError("no route"), False) == "✗ no route"


def test_a_manifest_error_lists_every_problem_as_editors_read_them() -> None:
    error = ManifestError(
        [
            Problem("inventory.yaml:3:5", "unknown key `modle`", "use `model`"),
            Problem("inventory.yaml:9:1", "duplicate key `hosts`"),
        ]
    )
    assert render_error(error, False).splitlines() == [
        "inventory.yaml:3:5: unknown key `modle`",
        "  do  use `model`",
        "inventory.yaml:9:1: duplicate key `hosts`",
        "2 problems",
    ]


def test_further_lines_of_a_message_are_indented() -> None:
    error = ConnectError("several files match:\na.gguf\nb.gguf", where="models.x", do="say\nwhich")
    assert render_error(error, False).splitlines() == [
        "✗ models.x: several files match:",
        "    a.gguf",
        "    b.gguf",
        "  do  say",
        "      which",
    ]


def test_errors_that_quote_a_host_are_harmless() -> None:
    rendered = render_error(ConnectError(HOSTILE, where=HOSTILE, do=HOSTILE), False)
    assert not set(rendered) & set("\x1b\x07\x9b\u202e\r")
    coloured = render_error(ConnectError(HOSTILE), True)
    assert "\x1b[2J" not in coloured
