"""The few programs of the distribution that our own scripts need on a host: curl, for fetching weights there.

Only what is missing, and only where something is to be fetched.
"""

from __future__ import annotations

from ..errors import HostError
from ..types.deployment import HostPath
from ..types.facts import Facts
from ..types.plan import Change, Fingerprint
from .context import HostContext, script

_DEBIAN_LIKE = frozenset({"debian", "ubuntu"})
_INSTALL_S = 600
# Without its recommended packages curl comes without any authority to trust.
_PACKAGES = ("curl", "ca-certificates")


def package_changes(context: HostContext) -> tuple[Change, ...]:
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
            id="packages",
            phase="provision",
            step="package",
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


def refuse_without_apt(facts: Facts, what: str, do: str) -> None:
    """Raise HostError unless `what` can be installed on this distribution."""
    if facts.os.id not in _DEBIAN_LIKE:
        raise HostError(
            f"installing {what} on {distribution(facts)} is not built yet (Debian and Ubuntu are)",
            where=facts.host,
            do=do,
        )
    if not facts.tools.get("apt-get", False):
        raise HostError(f"there is no apt-get on this host to install {what} with", where=facts.host, do=do)


def distribution(facts: Facts) -> str:
    """What the distribution calls itself."""
    return facts.os.name or "this distribution"
