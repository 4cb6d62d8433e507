"""The process: runs the command line and turns every end into words and an exit code, never a traceback."""

from __future__ import annotations

import os
import sys
from contextlib import suppress


def main() -> None:
    """Entry point of `cpudeploy`. Exits with the codes of `errors`."""
    from .cli.output import close_output, open_output

    output = open_output()
    code = _run()
    if output.fault:
        _say(output.fault)
    close_output()
    sys.exit(code)


def _run() -> int:
    import click

    from .cli.main import cli
    from .cli.output import OutputFailed, ReaderGone
    from .errors import ERROR, INTERRUPTED, OK, USAGE, CpudeployError

    try:
        code = cli.main(standalone_mode=False)
    except click.ClickException as error:
        with suppress(OSError):  # also where nobody can be told, the code counts
            error.show()
        return USAGE if isinstance(error, click.UsageError) else ERROR
    except (click.Abort, KeyboardInterrupt):
        _say("interrupted")
        return INTERRUPTED
    except CpudeployError as error:
        from .cli.terminal import stderr
        from .report.errors_text import render_error

        console = stderr()
        console.try_write(render_error(error, console.colour))
        return error.code
    except ReaderGone:
        # Its business, not an error of ours. What changes hosts does not come here: it goes on unread.
        return OK
    except OutputFailed:
        return ERROR  # said at the end, once, also where it ended nothing
    except Exception as error:
        if os.environ.get("CPUDEPLOY_DEBUG"):
            raise
        _say(
            f"internal error: {type(error).__name__}: {error}\n"
            "  do: report it with the output of the same command under CPUDEPLOY_DEBUG=1"
        )
        return ERROR
    return code if isinstance(code, int) else OK


def _say(text: str) -> None:
    from .cli.terminal import stderr

    stderr().try_write(text)


if __name__ == "__main__":
    main()
