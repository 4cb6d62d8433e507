"""The process: runs the command line and turns every end into words and an exit code, never a traceback."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Entry point of `cpudeploy`. Exits with the codes of `errors`."""
    import click

    from .cli.main import cli
    from .errors import ERROR, INTERRUPTED, USAGE, CpudeployError

    try:
        code = cli.main(standalone_mode=False)
    except click.UsageError as error:
        error.show()
        code = USAGE
    except click.ClickException as error:
        error.show()
        code = ERROR
    except (click.Abort, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)
        code = INTERRUPTED
    except CpudeployError as error:
        from .report.console import console_for
        from .report.errors_text import render_error

        console = console_for(sys.stderr, os.environ)
        console.write(render_error(error, console.colour))
        code = error.code
    except BrokenPipeError:
        # The reader of our output has gone; that is its business, not an error of ours.
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123
        code = 0
    except Exception as error:
        if os.environ.get("CPUDEPLOY_DEBUG"):
            raise
        print(
            f"internal error: {type(error).__name__}: {error}\n"
            "  do: report it with the output of the same command under CPUDEPLOY_DEBUG=1",
            file=sys.stderr,
        )
        code = ERROR
    sys.exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    main()
