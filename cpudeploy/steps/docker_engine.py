"""The container engine itself: there, running, and one we can work with.

Installs the distribution's own package; refuses what only looks like Docker. With
`engine: {use: existing}` nothing is ever installed or started.
"""

from __future__ import annotations

from ..errors import HostError
from ..types.facts import Facts
from ..types.plan import Change, Fingerprint
from .context import HostContext, script

_DEBIAN_LIKE = frozenset({"debian", "ubuntu"})
_INSTALL_S = 900
_START_S = 120
_RUNNING = Fingerprint(equals={"/engine/state": "running"})


def engine_changes(context: HostContext) -> tuple[Change, ...]:
    """Install or start the engine. Raises HostError when it must not or can't be done."""
    facts = context.facts
    engine = facts.engine
    if engine.state == "running":
        return ()
    if engine.state == "foreign":
        raise HostError(
            f"`docker` on this host is not a Docker engine we can use: {engine.detail}",
            where=facts.host,
            do="remove it, or install Docker from the distribution or docker.com",
        )
    if context.host.engine == "existing":
        raise HostError(
            f"the Docker engine is {engine.state} ({engine.detail or 'no detail'}) "
            "and engine: {use: existing} forbids to change that",
            where=facts.host,
            do="start it yourself, or say engine: {use: install}",
        )
    if engine.state == "stopped":
        return (
            _change(
                "update", "does not answer", "start the installed engine", "start-docker", _START_S, facts
            ),
        )
    _refuse_unknown_distribution(facts)
    summary = f"docker.io from {_name(facts)}"
    return (_change("create", "no engine found", summary, "install-docker-debian", _INSTALL_S, facts),)


def _change(action: str, why: str, summary: str, name: str, deadline_s: int, facts: Facts) -> Change:
    return Change(
        id="docker_engine",
        phase="provision",
        step="docker_engine",
        subject="docker",
        action="create" if action == "create" else "update",
        why=why,
        summary=summary,
        before=Fingerprint(equals={"/engine/state": facts.engine.state}),
        after=_RUNNING,
        operations=(script(name, {}, id=name, deadline_s=deadline_s),),
        revert=None,
    )


def _refuse_unknown_distribution(facts: Facts) -> None:
    if facts.os.id not in _DEBIAN_LIKE:
        raise HostError(
            f"installing Docker on {_name(facts)} is not built yet (Debian and Ubuntu are)",
            where=facts.host,
            do="install Docker yourself and say engine: {use: existing}",
        )
    if not facts.tools.get("apt-get", False):
        raise HostError("there is no apt-get on this host", where=facts.host, do="install Docker yourself")


def _name(facts: Facts) -> str:
    return facts.os.name or "this distribution"
