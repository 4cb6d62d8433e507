"""The two ways to a plan that is carried out: decided now from a manifest, or saved before.

In: what the command line says. Out: an exit code. A saved plan reaches its own hosts and no other, needs no
manifest, and has every secret at hand before anything is done.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from ..errors import ERROR, OK, SecretError, UsageError, worst
from ..secrets import Secrets
from ..transport import Connection, Starts, connect
from ..types.base import SecretRef
from ..types.deployment import Sudo
from ..types.plan import HostPlan
from .carrying_out import Carried, carry_out
from .deciding import cache_folder, decide, origin_of
from .saved import PARTIAL, read_plan, refuse_changed_uploads, secrets_of
from .settling import put_right
from .site import ask_sudo_password, site
from .troubles import note


def apply_manifest(
    inventory: Path,
    *,
    limit: Sequence[str],
    playbooks: Sequence[Path],
    ask_sudo: bool,
    repack: bool,
    retry: bool,
    adopt: bool,
    output: str,
    verbose: bool,
) -> int:
    """Plan and apply; a second time where something can be seen only then, never a third. Returns the exit
    code."""

    def once(limit: Sequence[str], besides: Carried | None = None) -> Carried:
        with site(inventory, playbooks=playbooks, limit=limit, ask_sudo=ask_sudo) as found:
            put_right(found, origin_of(inventory))
            plan = decide(found, inventory, repack=repack, retry=retry, adopt=adopt)
            return carry_out(
                plan,
                found.connection,
                found.secrets,
                output=output,
                verbose=verbose,
                facts_s=found.facts_s,
                besides=besides,
            )

    first = once(limit)
    again = first.to_be_seen_again
    return once(again, first.without(again)).code if again else first.code


def apply_saved(
    path: Path,
    *,
    limit: Sequence[str],
    ask_sudo: bool,
    secrets_dir: Path | None,
    retry: bool,
    output: str,
    verbose: bool,
) -> int:
    """Carry out the plan in a file, on all of its hosts or on those of `limit`."""
    plan = read_plan(path)
    hosts = _limited(plan.hosts, limit)
    secrets = Secrets(secrets_dir or Path(plan.base))
    asked = ask_sudo_password(secrets) if ask_sudo else None
    _have_all(secrets, secrets_of(plan, _with_sudo(hosts, asked)), secrets_dir)
    folder = cache_folder()
    refuse_changed_uploads(hosts.values(), None if folder is None else folder / "resolve")
    starts = Starts()
    reached: list[Connection] = []
    adding = threading.Lock()

    def reach(host_plan: HostPlan) -> Connection:
        host = host_plan.host
        if asked is not None:
            host = msgspec.structs.replace(host, sudo=Sudo(use=host.sudo.use, password=asked))
        connection = connect(host, secrets, starts)
        with adding:
            reached.append(connection)
        return connection

    try:
        ended = carry_out(
            plan,
            reach,
            secrets,
            output=output,
            verbose=verbose,
            only=hosts if limit else None,
            retry=retry,
        )
    finally:
        for connection in reached:
            connection.close()
            for text in connection.notes:
                note(connection.host.name, text)
    partial = [name for name, host in hosts.items() if host.partial]
    for name in partial:
        note(name, PARTIAL)
    return worst([ended.code, ERROR if partial else OK])


def _limited(hosts: Mapping[str, HostPlan], limit: Sequence[str]) -> dict[str, HostPlan]:
    unknown = [name for name in limit if name not in hosts]
    if unknown:
        raise UsageError(
            f"--limit {unknown[0]}: no such host in the plan", do=f"choose from {', '.join(hosts)}"
        )
    return {name: host for name, host in hosts.items() if not limit or name in limit}


def _with_sudo(hosts: Mapping[str, HostPlan], password: SecretRef | None) -> dict[str, HostPlan]:
    """The hosts as they are reached: with the password that was asked for, if one was."""
    if password is None:
        return dict(hosts)
    return {
        name: msgspec.structs.replace(
            plan,
            host=msgspec.structs.replace(plan.host, sudo=Sudo(use=plan.host.sudo.use, password=password)),
        )
        for name, plan in hosts.items()
    }


def _have_all(secrets: Secrets, wanted: Sequence[SecretRef], secrets_dir: Path | None) -> None:
    """Raises SecretError for one that can't be had, before anything is done."""
    for ref in wanted:
        try:
            secrets.get(ref)
        except SecretError as error:
            if ref.kind == "asked":
                raise UsageError(
                    "this plan was made with --ask-sudo-pass", do="give it here too: apply --ask-sudo-pass"
                ) from None
            if ref.kind == "from_file" and secrets_dir is None:
                do = f"{error.do}; or name the folder that has it: --secrets-dir DIR"
                raise SecretError(error.what, do=do) from None
            raise
