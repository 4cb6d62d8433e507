"""What a playbook needs of the processor. In: facts and a playbook. Out: nothing, a warning, or HostError.

An engine built for instructions the CPU lacks dies at its first one (exit code 132) after gigabytes were
fetched; the flags are known before.
"""

from __future__ import annotations

from ..errors import HostError
from ..types.base import Unknown
from ..types.playbook import Playbook
from .context import HostContext


def refuse_missing_flags(context: HostContext, playbook: Playbook) -> tuple[str, ...]:
    """Warnings: one where the host does not tell its flags. Raises HostError when one is missing."""
    cpu = context.facts.cpu
    if not playbook.cpu_flags:
        return ()
    if isinstance(cpu.flags, Unknown):
        needed = ", ".join(playbook.cpu_flags)
        return (
            f"playbook {playbook.name} needs the CPU flags {needed}, and this host does not tell its own "
            f"({cpu.flags.unknown})",
        )
    missing = ", ".join(flag for flag in playbook.cpu_flags if flag not in cpu.flags)
    if not missing:
        return ()
    model = "this CPU" if isinstance(cpu.model, Unknown) else cpu.model
    do = f"use a host whose CPU has {missing} (`cpudeploy facts` tells), or a backend that needs less"
    if "hypervisor" in cpu.flags:
        do += "; in a virtual machine like this one, let the hypervisor pass its own CPU through"
    raise HostError(
        f"playbook {playbook.name} needs the CPU flags {missing}, which {model} does not have",
        where=context.host.name,
        do=do,
    )
