"""The command group. A command's module is imported when the command is called, not before."""

from __future__ import annotations

import importlib

import click

from .. import __version__

COMMANDS = (
    "validate",
    "trust",
    "facts",
    "explain",
    "recommend",
    "plan",
    "apply",
    "status",
    "endpoints",
    "logs",
    "chat",
    "history",
    "rollback",
    "prune",
    "destroy",
    "unlock",
    "schema",
)


class LazyGroup(click.Group):
    """Finds the command `x` as `cli.x.command`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f".{cmd_name}", __package__)
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            import difflib

            near = difflib.get_close_matches(args[0], COMMANDS, 1)
            hint = f" Did you mean {near[0]}?" if near else f" Commands: {', '.join(COMMANDS)}."
            raise click.UsageError(f"No such command: {args[0]}.{hint}", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="cpudeploy")
def cli() -> None:
    """Turn CPU servers into an LLM service: one manifest, planned and applied over SSH."""
