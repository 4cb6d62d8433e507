"""The container engine itself: there, running, and one we can work with.

Installs the distribution's own package; refuses what only looks like Docker. With
`engine: {use: existing}` nothing is ever installed or started.
"""

from __future__ import annotations

from typing import Literal

from ..errors import HostError
from ..types.facts import Facts
from ..types.operation import Script
from ..types.plan import Change, Fingerprint
from .apt import distribution, refuse_without_apt
from .context import HostContext, script

_INSTALL_S = 900
_START_S = 120
_RUNNING = Fingerprint(equals={"/engine/state": "running"})


def engine_changes(context: HostContext) -> tuple[Change, ...]:
    """Install or start the engine. Raises HostError when it must not or can't be done.

    While the engine is stopped nothing else can be planned: what it holds is unknown. Where nobody looked for
    an engine there is nothing to say about it.
    """
    facts = context.facts
    engine = facts.engine
    if engine.state in ("running", "unknown"):
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
        # No guard: stopped and started are both whole, and to stop it again would bring nothing back.
        start = script("start-docker", {}, id="start-docker", deadline_s=_START_S)
        return (_change("update", "not running", "start the installed engine", start, facts),)
    refuse_without_apt(facts, "Docker", "install Docker yourself and say engine: {use: existing}")
    install = script(
        "install-docker-debian",
        {},
        id="install-docker-debian",
        deadline_s=_INSTALL_S,
        begins_with=("apt",),
    )
    summary = f"docker.io from {distribution(facts)}"
    return (_change("create", "no engine found", summary, install, facts),)


def _change(
    action: Literal["create", "update"], why: str, summary: str, operation: Script, facts: Facts
) -> Change:
    return Change(
        id="docker_engine",
        phase="provision",
        step="docker_engine",
        subject="docker",
        action=action,
        why=why,
        summary=summary,
        before=Fingerprint(equals={"/engine/state": facts.engine.state}),
        after=_RUNNING,
        operations=(operation,),
        revert=None,
    )
