"""Engine settings that have no other place: registries without TLS, and their own certificates.

Everything else goes on containers. The owner's keys in daemon.json are kept; what was there before is
recorded in `host.json`, with who asked for it.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from ..errors import HostError
from ..types.deployment import Deployment
from ..types.facts import File, Question
from ..types.names import STATE_DIR
from ..types.operation import Operation, Put
from ..types.plan import Change, FieldDiff, Fingerprint
from .context import HostContext, pointer, script

DAEMON_JSON = "/etc/docker/daemon.json"
HOST_RECORD = f"{STATE_DIR}/host.json"
_KEY = "docker.insecure-registries"


def daemon_questions(deployment: Deployment) -> tuple[Question, ...]:
    """What must be asked of a host: the certificate of every registry that has its own authority."""
    return tuple(Question(kind="file", key=_certificate(registry)) for registry in _authorities(deployment))


def _authorities(deployment: Deployment) -> dict[str, str]:
    """Registry → CA in PEM, as the manifest says."""
    return {
        entry.scope.partition("/")[0]: entry.ca for entry in deployment.registries if entry.ca is not None
    }


def daemon_changes(context: HostContext, insecure: tuple[str, ...]) -> tuple[Change, ...]:
    """Certificates, and permission for `insecure` registries, where the host lacks them."""
    changes = [
        _certificate_change(context, registry, pem)
        for registry, pem in _authorities(context.deployment).items()
        if not _same(context, registry, pem)
    ]
    missing = tuple(
        registry for registry in insecure if not context.facts.engine.insecure.get(registry, False)
    )
    if missing:
        changes.append(_insecure_change(context, missing))
    return tuple(changes)


def _certificate(registry: str) -> str:
    return f"/etc/docker/certs.d/{registry}/ca.crt"


def _same(context: HostContext, registry: str, pem: str) -> bool:
    found = context.facts.files.get(_certificate(registry))
    return isinstance(found, File) and found.sha256 == _sha256(pem)


def _certificate_change(context: HostContext, registry: str, pem: str) -> Change:
    path = _certificate(registry)
    found = context.facts.files.get(path)
    before: dict[str, Any] = {pointer("files", path): None}
    if isinstance(found, File):
        before = {pointer("files", path, "sha256"): found.sha256}
    return Change(
        id=f"certificate:{registry}",
        phase="provision",
        step="docker_daemon",
        subject="certificate",
        action="update" if isinstance(found, File) else "create",
        why=f"registries.{registry}.ca",
        summary=f"authority of {registry} for the engine",
        before=Fingerprint(equals=before),
        after=Fingerprint(equals={pointer("files", path, "sha256"): _sha256(pem)}),
        operations=(Put(id="put", deadline_s=30, path=path, mode="0644", content=pem),),
        revert=(),
    )


def _insecure_change(context: HostContext, missing: tuple[str, ...]) -> Change:
    facts = context.facts
    if context.host.engine == "existing":
        raise HostError(
            f"the engine does not allow plain HTTP to {', '.join(missing)} and engine: {{use: existing}} "
            "forbids to edit its settings",
            where=facts.host,
            do=f'add it to "insecure-registries" in {DAEMON_JSON} and reload the engine',
        )
    text = facts.engine.daemon_json
    settings = _read(text, facts.host)
    before = list(settings.get("insecure-registries", []))
    settings["insecure-registries"] = [*before, *(name for name in missing if name not in before)]
    wanted = json.dumps(settings, indent=2, ensure_ascii=False) + "\n"
    record = _record(context, before, settings["insecure-registries"])
    reload = script("reload-docker", {"expect": missing[-1]}, id="reload", deadline_s=60)
    operations: tuple[Operation, ...] = (
        Put(id="record", deadline_s=30, path=HOST_RECORD, mode="0600", content=record),
        Put(id="put", deadline_s=30, path=DAEMON_JSON, mode="0644", content=wanted),
        reload,
    )
    return Change(
        id="docker_daemon",
        phase="provision",
        step="docker_daemon",
        subject="daemon.json",
        action="update" if text is not None else "create",
        why="a mirror without TLS",
        summary=f"allow plain HTTP to {', '.join(missing)} · reload, nothing restarts",
        diff=(
            FieldDiff(
                field="insecure-registries",
                before=", ".join(before) or None,
                after=", ".join(settings["insecure-registries"]),
            ),
        ),
        before=Fingerprint(equals={pointer("engine", "insecure", name): None for name in missing}),
        after=Fingerprint(equals={pointer("engine", "insecure", name): True for name in missing}),
        operations=operations,
        revert=(Put(id="put back", deadline_s=30, path=DAEMON_JSON, mode="0644", content=text or "{}\n"),),
    )


def _read(text: str | None, host: str) -> dict[str, Any]:
    if text is None or not text.strip():
        return {}
    try:
        settings = json.loads(text)
    except ValueError as error:
        raise HostError(
            f"{DAEMON_JSON} is not valid JSON: {error}", where=host, do="repair the file"
        ) from None
    if not isinstance(settings, dict) or not isinstance(settings.get("insecure-registries", []), list):
        raise HostError(
            f"{DAEMON_JSON} does not have the shape the engine expects", where=host, do="repair the file"
        )
    return settings


def _record(context: HostContext, before: list[str], ours: list[str]) -> str:
    """host.json with our claim on the setting added; what stood there before us is never overwritten."""
    document = {"keys": dict(context.facts.host_record.get("keys", {}))}
    entry = dict(document["keys"].get(_KEY, {"before": before, "owners": []}))
    entry["ours"] = ours
    entry["owners"] = sorted({*entry["owners"], context.deployment.name})
    document["keys"][_KEY] = entry
    return json.dumps(document, indent=2, ensure_ascii=False, sort_keys=True) + "\n"


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
