"""`cpudeploy apply`: plan, then make it so; or make so what a saved plan says."""

from __future__ import annotations

from pathlib import Path

import click

from .options import (
    adopt_option,
    exclude,
    format_option,
    limit_option,
    playbooks_option,
    repack_option,
    retry_option,
    source_argument,
    sudo_option,
    verbose_option,
)


@click.command("apply")
@source_argument
@limit_option
@playbooks_option
@sudo_option
@verbose_option
@repack_option
@retry_option
@adopt_option
@click.option(
    "--secrets-dir",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Where a saved plan's secret files are, instead of the folder it was made in.",
)
@format_option("text", "json", "markdown")
def command(
    source: Path,
    limit: tuple[str, ...],
    playbooks: tuple[Path, ...],
    ask_sudo_pass: bool,
    verbose: bool,
    repack: bool,
    retry: bool,
    adopt: bool,
    secrets_dir: Path | None,
    output: str,
) -> int:
    """Bring the hosts to what the manifest says; done only when each model has answered.

    With a plan that `plan -o FILE` saved: exactly that, once, on hosts that are as they were then. It needs
    neither the manifest nor its folder.
    """
    from .saved import holds_plan

    if holds_plan(source):
        from .applying import apply_saved

        exclude("a saved plan", {"--repack": repack, "--adopt": adopt, "--playbooks": bool(playbooks)})
        return apply_saved(
            source,
            limit=limit,
            ask_sudo=ask_sudo_pass,
            secrets_dir=secrets_dir,
            retry=retry,
            output=output,
            verbose=verbose,
        )
    from .applying import apply_manifest

    exclude("a manifest", {"--secrets-dir": secrets_dir is not None})

    return apply_manifest(
        source,
        limit=limit,
        playbooks=playbooks,
        ask_sudo=ask_sudo_pass,
        repack=repack,
        retry=retry,
        adopt=adopt,
        output=output,
        verbose=verbose,
    )
