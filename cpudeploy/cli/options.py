"""Arguments and options that several commands share."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from ..errors import CpudeployError, UsageError

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_INVENTORY = "inventory.yaml"

_BY_OPTION = "cpudeploy.inventory"


def _named(context: click.Context, _: click.Parameter, given: Path | None) -> Path:
    """The manifest, by whichever of the two it was named."""
    option: Path | None = context.meta.get(_BY_OPTION)
    if given is not None and option is not None:
        raise UsageError(f"the manifest is named twice: {given} and -i {option}", do="leave one out")
    return given or option or Path(DEFAULT_INVENTORY)


def model_named(context: click.Context, _: click.Parameter, model: str | None) -> str | None:
    """The MODEL of a command; no name of one has a dot, and some commands take a manifest in its place."""
    if model is not None and model.endswith((".yaml", ".yml")):
        raise UsageError(
            f"{context.info_name} asks for a model, not {model}", do=f"give a manifest with -i {model}"
        )
    return model


def _keep(context: click.Context, _: click.Parameter, given: Path | None) -> None:
    context.meta[_BY_OPTION] = given


def _argument_or_option(name: str, metavar: str) -> Callable[[F], F]:
    """`FILE` or `-i FILE`, for commands that have nothing else to name."""
    argument = click.argument(
        name, metavar=metavar, required=False, type=click.Path(path_type=Path), callback=_named
    )
    option = click.option(
        "-i",
        "--inventory",
        "by_option",
        metavar="PATH",
        type=click.Path(path_type=Path),
        is_eager=True,
        expose_value=False,
        callback=_keep,
        help=f"The same as the argument.  [default: {DEFAULT_INVENTORY}]",
    )
    return lambda command: argument(option(command))


inventory_argument = _argument_or_option("inventory", "[INVENTORY]")
source_argument = _argument_or_option("source", "[INVENTORY|PLAN]")
inventory_option = click.option(
    "-i",
    "--inventory",
    default=DEFAULT_INVENTORY,
    show_default=True,
    type=click.Path(path_type=Path),
    help="The manifest.",
)
limit_option = click.option("--limit", multiple=True, metavar="HOST", help="Only this host (repeatable).")
sudo_option = click.option("--ask-sudo-pass", is_flag=True, help="Ask for sudo's password on the terminal.")
verbose_option = click.option("-v", "--verbose", is_flag=True, help="Show every field and id.")
repack_option = click.option(
    "--repack", is_flag=True, help="Deal cores and memory out anew, also to models that run."
)
retry_option = click.option("--retry", is_flag=True, help="Try again what failed its gate before.")
adopt_option = click.option(
    "--adopt", is_flag=True, help="Also remove what was applied from another place: it is ours now."
)
playbooks_option = click.option(
    "--playbooks",
    multiple=True,
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="A folder of your own playbooks, looked at first (repeatable).",
)


def facts_option(help: str) -> Callable[[F], F]:
    """`--facts DIR`, to work from what was recorded; `help` tells what is done then."""
    return click.option(
        "--facts",
        metavar="DIR",
        type=click.Path(path_type=Path, file_okay=False, exists=True),
        help=help,
    )


def exclude(option: str, others: Mapping[str, bool]) -> None:
    """Raises UsageError where one of `others` (option → whether it was given) can't go with `option`."""
    for other, given in others.items():
        if given:
            raise UsageError(f"{option} and {other} exclude each other", do="leave one out")


def format_option(*formats: str) -> Callable[[F], F]:
    """`--format`, the first of `formats` being the default. With `json` an error that ends the command is a
    document on stdout too, beside its words on stderr."""
    option = click.option(
        "--format",
        "output",
        type=click.Choice(formats),
        default=formats[0],
        show_default=True,
        help="How to print the result.",
    )

    def decorate(command: F) -> F:
        @functools.wraps(command)
        def telling(*arguments: Any, **values: Any) -> Any:
            try:
                return command(*arguments, **values)
            except CpudeployError as error:
                if values["output"] == "json":
                    _tell_error(error)
                raise

        return option(cast("F", telling))

    return decorate


def _tell_error(error: CpudeployError) -> None:
    from ..report.json_text import json_line
    from ..report.written import error_data
    from .terminal import stdout

    stdout().try_write(json_line(error_data(error)))
