"""Whether, and from where, packages of the distribution can be installed on a host. Pure."""

from __future__ import annotations

from ..errors import HostError
from ..types.facts import Facts

_DEBIAN_LIKE = frozenset({"debian", "ubuntu"})


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
