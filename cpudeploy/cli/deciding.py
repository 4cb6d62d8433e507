"""From a reached site to a plan: resolve, size, plan. Shared by `plan` and `apply`."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from ..manifest import Manifest
from ..plan import make_plan, plannable
from ..plan.recorded import resolved_from
from ..resolve import resolve
from ..types.deployment import Deployment
from ..types.plan import Plan
from ..types.resolved import Resolved
from ..who import who
from .records import read_facts, read_records
from .site import Site, narrowed, read_manifest, tell_awaited


def decide(
    site: Site, inventory: Path, *, repack: bool = False, retry: bool = False, adopt: bool = False
) -> Plan:
    """The plan for the hosts that told their facts; the others stand in it with why, and so do models whose
    image, files or key can't be had."""
    resolved, missing = resolve_for(site)
    return make_plan(
        site.deployment,
        site.manifest.playbooks,
        site.facts,
        resolved,
        origin=origin_of(inventory),
        unreachable=site.unreachable,
        unknown=site.unknown,
        unplanned=missing,
        repack=repack,
        retry=retry,
        adopt=adopt,
    )


def resolve_for(site: Site) -> tuple[Resolved, dict[str, str]]:
    """What registries and Hubs say of all that can be carried out, and `model@host` → why something of it
    can't be had. What nobody can be given need not be looked up: a plan of unreachable hosts asks nobody."""
    playbooks = site.manifest.playbooks
    told = plannable(narrowed(site.deployment, site.facts))
    folder = cache_folder()
    cache = None if folder is None else folder / "resolve"
    return resolve(told, site.facts, playbooks, site.secrets, cache=cache, waiting=_still_asking)


def _still_asking(awaited: Sequence[str]) -> None:
    tell_awaited([f"for {name}" for name in awaited])


def decide_recorded(
    inventory: Path,
    folder: Path,
    *,
    playbooks: Sequence[Path] = (),
    limit: Sequence[str] = (),
    repack: bool = False,
    retry: bool = False,
    adopt: bool = False,
) -> Plan:
    """The plan from what was recorded in `folder`: asks nobody, reads no secret. Hosts and models without a
    record stand in it with why. Raises RecordError for a file that can't be understood."""
    manifest, deployment, _ = read_manifest(inventory, playbooks, limit, ask_sudo=False)
    return plan_of_records(manifest, deployment, inventory, folder, repack=repack, retry=retry, adopt=adopt)


def plan_of_records(
    manifest: Manifest,
    deployment: Deployment,
    inventory: Path,
    folder: Path,
    *,
    repack: bool = False,
    retry: bool = False,
    adopt: bool = False,
) -> Plan:
    """The same for a manifest that was read already, narrowed to `deployment`."""
    read = {name: read_facts(folder, name) for name in deployment.hosts}
    facts = {name: each for name, each in read.items() if each is not None}
    wanted = plannable(narrowed(deployment, facts))
    resolved, missing = resolved_from(wanted, manifest.playbooks, read_records(folder))
    return make_plan(
        deployment,
        manifest.playbooks,
        facts,
        resolved,
        origin=origin_of(inventory),
        unknown=dict.fromkeys(read.keys() - facts.keys(), f"no facts of it are recorded in {folder}"),
        unplanned=missing,
        recorded=str(folder),
        repack=repack,
        retry=retry,
        adopt=adopt,
    )


def cache_folder() -> Path | None:
    """Where immutable look-ups are kept between runs; None for a user without a home."""
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "cpudeploy"
    except RuntimeError:
        return None


def origin_of(inventory: Path) -> str:
    """Where a manifest comes from: git remote and path, or user@machine:path."""
    folder = inventory.resolve().parent
    remote = _git(folder, "config", "--get", "remote.origin.url")
    inside = _git(folder, "rev-parse", "--show-prefix")
    if remote and inside is not None:
        return f"{_without_login(remote)} {inside}{inventory.name}"
    return f"{who()}:{inventory.resolve()}"


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=5, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _without_login(remote: str) -> str:
    """A remote's address without user and password."""
    scheme, separator, rest = remote.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}" if separator else remote
