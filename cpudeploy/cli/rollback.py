"""`cpudeploy rollback`: back to what an earlier release says, with what the hosts still hold."""

from __future__ import annotations

from pathlib import Path

import click

from ..errors import ERROR, OK, worst
from .options import (
    adopt_option,
    format_option,
    inventory_option,
    limit_option,
    playbooks_option,
    sudo_option,
    verbose_option,
)


@click.command("rollback")
@click.argument("release", required=False)
@inventory_option
@limit_option
@playbooks_option
@sudo_option
@verbose_option
@adopt_option
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@format_option("text", "json")
def command(
    release: str | None,
    inventory: Path,
    limit: tuple[str, ...],
    playbooks: tuple[Path, ...],
    ask_sudo_pass: bool,
    verbose: bool,
    adopt: bool,
    dry_run: bool,
    output: str,
) -> int:
    """Bring the hosts back to RELEASE (see `history`), or to the last one before that served whole.

    Asks no registry and no Hub: image and weights must still be on the host. The manifest stays as it is, so
    the next apply brings back what that says.
    """
    from ..errors import UsageError
    from ..plan import rollback_plan
    from ..resolve.secret_marks import key_errors, secret_states
    from .carrying_out import carry_out
    from .deciding import origin_of
    from .settling import put_right
    from .shown import show_plan
    from .site import site
    from .terminal import stdout

    if release is not None and not release.strip():
        # Of a variable that was never set, most likely: not the wish to go back to whatever was before.
        raise UsageError("the release to go back to is empty", do="name one, or leave the argument out")
    with site(inventory, playbooks=playbooks, limit=limit, ask_sudo=ask_sudo_pass) as found:
        if not dry_run:
            put_right(found, origin_of(inventory))
        keyless = key_errors(found.deployment, found.facts, found.secrets)
        plan = rollback_plan(
            found.deployment,
            found.manifest.playbooks,
            found.facts,
            release=release or "",
            origin=origin_of(inventory),
            secrets=secret_states(found.deployment, found.facts, found.secrets),
            keyless={key: error.line for key, error in keyless.items()},
            unreachable=found.unreachable,
            unknown=found.unknown,
            adopt=adopt,
        )
        if dry_run:
            show_plan(plan, output=output, verbose=verbose, facts_s=found.facts_s)
            impossible = any(host.unknown or host.left_out for host in plan.hosts.values())
            return worst([ERROR if impossible else OK, found.code])
        ended = carry_out(
            plan, found.connection, found.secrets, output=output, verbose=verbose, facts_s=found.facts_s
        )
        if output == "text" and not plan.empty:
            stdout().try_write("the manifest is as it was: the next apply brings back what it says")
        return ended.code
