"""What the probe must be asked so that a deployment can be planned: the steps' questions, together."""

from __future__ import annotations

from ..steps.context import ENGINE_ROOT
from ..steps.docker_daemon import daemon_questions
from ..steps.weights import weights_questions
from ..types.deployment import Deployment, Host
from ..types.facts import Question


def questions(deployment: Deployment, host: Host) -> tuple[Question, ...]:
    """Every question for one host, in a fixed order."""
    return (
        Question(kind="disk", key=host.weights_dir),
        Question(kind="disk", key=ENGINE_ROOT),
        *weights_questions(placement for placement in deployment.placements if placement.host == host.name),
        *daemon_questions(deployment, host),
    )
