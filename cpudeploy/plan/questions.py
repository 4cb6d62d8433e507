"""What the probe must be asked so that a deployment can be planned: the steps' questions, together."""

from __future__ import annotations

from ..steps.docker_daemon import daemon_questions
from ..types.deployment import Deployment, Host
from ..types.facts import Question

_ENGINE_ROOT = "/var/lib/docker"


def questions(deployment: Deployment, host: Host) -> tuple[Question, ...]:
    """Every question for one host, in a fixed order."""
    return (
        Question(kind="disk", key=host.weights_dir),
        Question(kind="disk", key=_ENGINE_ROOT),
        *daemon_questions(deployment),
    )
