"""A plan as a file: written by `plan -o FILE`, carried out by `apply FILE` from wherever that is.

In: a plan and a path, or a path. Out: the file, or the plan in it. A file is known for a plan by what it
says, whatever its name; one that is not whole, or not as it was written, is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from ..errors import SavedPlanError, StalePlan
from ..report.json_text import plan_document
from ..types.base import SecretRef, Struct, digest, from_data
from ..types.facts import Facts
from ..types.operation import Engine, Fetch, PullImage
from ..types.plan import HostPlan, Plan
from .documents import read_bounded, refuse_newer, write_whole

_OURS = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"schema"\s*:\s*"cpudeploy\.plan/')
_JSON = re.compile(rb'\s*\{\s*"')
_BEGINNING = 4096
_MOST_BYTES = 256 << 20
"""A plan of a thousand hosts has some 30 MiB."""
PARTIAL = "more is wanted than could be seen when this was planned: once it is applied, plan again"
_UNPLANNED = "what could not be planned is not in this plan, and stays as it is: once it can be, plan again"
_MIDDLE = (
    "a change is under way here, or was cut off in the middle; this plan is stale once that is over or put "
    "right: apply, then save anew"
)


def cautions(plan: Plan, facts: Mapping[str, Facts]) -> Iterator[tuple[str, str]]:
    """Host → what keeps a plan, now saved, from being all there is to do there."""
    from ..execute import unsettled

    lacking = [name for name, host in plan.hosts.items() if host.unplanned]
    if lacking:
        yield lacking[0] if len(lacking) == 1 else f"{len(lacking)} hosts", _UNPLANNED
    for name, host in plan.hosts.items():
        if host.partial:
            yield name, PARTIAL
        if host.changes and name in facts and unsettled(facts[name]):
            yield name, _MIDDLE


def write_plan(path: Path, plan: Plan) -> Plan:
    """Save `plan`, for its owner's eyes (0600). Returns it as saved: it can be carried out once.

    A file that is there and is no plan stays: a slip of the hand must not cost a manifest.
    """
    if path.exists() and not holds_plan(path):
        raise SavedPlanError(
            "is there, and is no plan", where=str(path), do="remove it, or choose another file for -o"
        )
    now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    saved = msgspec.structs.replace(plan, saved=now)
    text = plan_document(saved)
    write_whole(path, text, mode=0o600, wrong=SavedPlanError, do="choose another file for -o")
    return saved


def holds_plan(path: Path) -> bool:
    """Whether a file says it is a plan, be it whole or damaged. What can't be read is none."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            beginning = file.read(_BEGINNING)
            if _OURS.match(beginning):
                return True
            if not _JSON.match(beginning):
                return False
            # Rewritten by another program: still one document, its keys in another order.
            data = json.loads(beginning + file.read(_MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(data, dict) and str(data.get("schema")).startswith("cpudeploy.plan/")


def read_plan(path: Path) -> Plan:
    """The plan in a file that holds one. Raises SavedPlanError."""
    again = f"plan again: cpudeploy plan -o {path}"
    try:
        data: Any = msgspec.json.decode(
            read_bounded(path, _MOST_BYTES, wrong=SavedPlanError, what="plan", do=again)
        )
        refuse_newer(
            path, data, Plan.__struct_defaults__[0], wrong=SavedPlanError, do="apply it with that version"
        )
        told = data.pop("id", None)
        plan = from_data(data, Plan)
    except OSError as error:
        raise SavedPlanError(f"can't be read: {error.strerror or error}", where=str(path)) from None
    except (ValueError, RecursionError) as error:
        detail = f": {str(error)[:200]}" if isinstance(error, msgspec.ValidationError) else ""
        raise SavedPlanError(f"this plan is damaged{detail}", where=str(path), do=again) from None
    # Of what the file says: an older version's plan lacks what there is today.
    if told != digest(data):
        raise SavedPlanError("this plan was edited after it was written", where=str(path), do=again)
    return plan


def secrets_of(plan: Plan, hosts: dict[str, HostPlan]) -> tuple[SecretRef, ...]:
    """Every secret that carrying the plan out on `hosts` may need, each once."""
    found = dict.fromkeys(ref for host in hosts.values() for ref in _references(host))
    logins = {
        place.login
        for host in hosts.values()
        for change in host.changes
        for operation in change.operations
        if isinstance(operation, Engine) and isinstance(operation.request, PullImage)
        for place in operation.request.places
    }
    for registry in plan.registries:
        if registry.scope in logins and registry.password is not None:
            found[registry.password] = None
    return tuple(found)


def refuse_changed_uploads(hosts: Iterable[HostPlan], cache: Path | None) -> None:
    """Raises StalePlan for a file to be sent that is not what it was when the plan was made."""
    from ..resolve.uploads import changed

    files = {
        operation.file.upload: operation.file
        for host in hosts
        for change in host.changes
        for operation in change.operations
        if isinstance(operation, Fetch) and operation.file.upload
    }
    for file in files.values():
        if why := changed(file, cache):
            raise StalePlan(f"{file.upload}: {why}", do="plan again")


def _references(value: Any) -> Iterator[SecretRef]:
    """Secret references anywhere in plain data."""
    if isinstance(value, SecretRef):
        yield value
    elif isinstance(value, Struct):
        for name in value.__struct_fields__:
            yield from _references(getattr(value, name))
    elif isinstance(value, dict):
        for each in value.values():
            yield from _references(each)
    elif isinstance(value, tuple | list):
        for each in value:
            yield from _references(each)
