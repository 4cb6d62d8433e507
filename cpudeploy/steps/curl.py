"""curl on a host, for fetching weights there.

Installed only where a model asks for it (`fetch: host`): without it weights come through the controller.
"""

from __future__ import annotations

from ..types.deployment import HostPath, Upload
from ..types.plan import Change, Fingerprint
from .apt import distribution, refuse_without_apt
from .context import HostContext, script

_INSTALL_S = 600
# Without its recommended packages curl comes without any authority to trust.
_PACKAGES = ("curl", "ca-certificates")


def curl_changes(context: HostContext) -> tuple[Change, ...]:
    """Install curl where it is missed. Raises HostError where that can't be done."""
    facts = context.facts
    asked = any(
        placement.host == context.host.name
        and placement.fetch == "host"
        and not isinstance(placement.source, HostPath | Upload)
        for placement in context.deployment.placements
    )
    if not asked or facts.tools.get("curl", False):
        return ()
    refuse_without_apt(
        facts, "curl, which fetch: host needs,", "install curl there yourself, or write `fetch: auto`"
    )
    return (
        Change(
            id="curl",
            phase="provision",
            step="curl",
            subject="curl",
            action="create",
            why="fetch: host",
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
