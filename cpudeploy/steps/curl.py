"""curl on a host: the one program beside coreutils that our own scripts need there, for fetching weights.

Installed only where it is missing and something is to be fetched.
"""

from __future__ import annotations

from ..types.deployment import HostPath
from ..types.plan import Change, Fingerprint
from .apt import distribution, refuse_without_apt
from .context import HostContext, script

_INSTALL_S = 600
# Without its recommended packages curl comes without any authority to trust.
_PACKAGES = ("curl", "ca-certificates")


def curl_changes(context: HostContext) -> tuple[Change, ...]:
    """Install curl where it is missed. Raises HostError where that can't be done."""
    facts = context.facts
    fetches = any(
        placement.host == context.host.name and not isinstance(placement.source, HostPath)
        for placement in context.deployment.placements
    )
    if not fetches or facts.tools.get("curl", False):
        return ()
    refuse_without_apt(facts, "curl, which fetches the weights,", "install curl there yourself")
    return (
        Change(
            id="curl",
            phase="provision",
            step="curl",
            subject="curl",
            action="create",
            why="weights are fetched with it",
            summary=f"{', '.join(_PACKAGES)} from {distribution(facts)}",
            before=Fingerprint(equals={"/tools/curl": False}),
            after=Fingerprint(equals={"/tools/curl": True}),
            operations=(
                script(
                    "install-packages-debian",
                    {"packages": " ".join(_PACKAGES)},
                    id="install-packages-debian",
                    deadline_s=_INSTALL_S,
                    begins_with=("apt",),
                ),
            ),
            revert=None,
        ),
    )
