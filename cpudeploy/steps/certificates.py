"""Certificates of registries' own authorities, for the engine: a file of this deployment beside the owner's.

The engine trusts every `*.crt` in a registry's folder, so nobody's file is ever written over. Claimed in
`host.json`, so that what an earlier manifest asked for is found when the deployment is taken away.
No guard waits on them: the engine reads the folder at each pull, and a wrong file spoils only its registry.
"""

from __future__ import annotations

import hashlib

from ..errors import HostError
from ..types.base import Unknown
from ..types.deployment import Deployment
from ..types.facts import File, Question
from ..types.operation import Claim, Disclaim, Put
from ..types.plan import Change, Fingerprint
from .context import HostContext, pointer, script
from .shared import claim, claimed, host_record, owners, unclaimed

_FOLDER = "/etc/docker/certs.d/"


def certificate_questions(deployment: Deployment) -> tuple[Question, ...]:
    """Our certificate file of every registry that has its own authority."""
    return tuple(
        Question(kind="file", key=_path(deployment, registry)) for registry in _authorities(deployment)
    )


def certificate_changes(context: HostContext) -> tuple[Change, ...]:
    """Certificates the host lacks. An engine that is not ours to set up must have its own already."""
    if context.host.engine == "existing":
        return ()
    changes = [_change(context, *wanted) for wanted in _authorities(context.deployment).items()]
    return tuple(change for change in changes if change is not None)


def certificate_removal_changes(context: HostContext, why: str) -> tuple[Change, ...]:
    """Every certificate this deployment has put on the host, away again."""
    record = host_record(context)
    paths = tuple(claimed(context, _FOLDER))
    if not paths:
        return ()
    remove = script("remove-files", {"paths": "\n".join(paths)}, id="remove", deadline_s=30)
    disclaim = Disclaim(id="give up", deadline_s=30, deployment=context.deployment.name, keys=paths)
    left = record.released(context.deployment.name, paths)
    return (
        Change(
            id="certificates",
            phase="replace",
            step="docker_daemon",
            subject="certificates",
            action="remove",
            why=why,
            summary=" · ".join(path.removeprefix(_FOLDER).partition("/")[0] for path in paths),
            before=Fingerprint(equals=owners(record, paths)),
            after=Fingerprint(equals=owners(left, paths)),
            operations=(remove, disclaim),
            revert=None,
        ),
    )


def _authorities(deployment: Deployment) -> dict[str, str]:
    """Registry → CA in PEM, as the manifest says."""
    return {
        entry.scope.partition("/")[0]: entry.ca for entry in deployment.registries if entry.ca is not None
    }


def _path(deployment: Deployment, registry: str) -> str:
    return f"{_FOLDER}{registry}/cpudeploy-{deployment.name}.crt"


def _change(context: HostContext, registry: str, pem: str) -> Change | None:
    path = _path(context.deployment, registry)
    found = context.facts.files.get(path)
    if isinstance(found, Unknown):
        raise HostError(f"{path} can't be read: {found.unknown}", where=context.facts.host, do="remove it")
    sha256 = hashlib.sha256(pem.encode()).hexdigest()
    is_new = found is None
    new_claims = unclaimed(context, (path,))
    if isinstance(found, File) and found.sha256 == sha256 and not new_claims:
        return None
    record = host_record(context)
    claims = {path: claim(context, before=None, ours=sha256)}
    at = pointer("files", path, "sha256")
    undo = script("remove-files", {"paths": path}, id="remove", deadline_s=30)
    disclaim = Disclaim(id="give up", deadline_s=30, deployment=context.deployment.name, keys=new_claims)
    return Change(
        id=f"certificate:{registry}",
        phase="provision",
        step="docker_daemon",
        subject="certificate",
        action="create" if is_new else "update",
        why=f"registries.{registry}.ca",
        summary=f"authority of {registry} for the engine",
        before=Fingerprint(
            equals={at: found.sha256 if found is not None else None, **owners(record, claims)}
        ),
        after=Fingerprint(equals={at: sha256, **owners(record.claimed(claims), claims)}),
        operations=(
            Claim(id="claim", deadline_s=30, keys=claims),
            Put(id="put", deadline_s=30, path=path, mode="0644", content=pem),
        ),
        # Written last and in one go: an update that failed has not happened.
        revert=(undo, disclaim) if is_new else (),
    )
