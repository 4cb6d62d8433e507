"""What a playbook needs of the processor. In: facts, a backend and its playbook. Out: nothing, a warning, or
HostError.

An engine built for instructions the CPU lacks dies at its first one (exit code 132) after gigabytes were
fetched; the flags are known before.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import HostError
from ..manifest.templates import evaluate
from ..manifest.versions import backend_version
from ..types.base import Unknown
from ..types.deployment import Backend
from ..types.playbook import CpuNeed, Playbook
from .context import HostContext


def refuse_missing_flags(context: HostContext, backend: Backend, playbook: Playbook) -> tuple[str, ...]:
    """Warnings: one for each need the host does not tell enough for. Raises HostError when one is not met."""
    told = (_told(context, need, playbook) for need in playbook.cpu if _applies(need, backend, playbook))
    return tuple(warning for warning in told if warning)


def _applies(need: CpuNeed, backend: Backend, playbook: Playbook) -> bool:
    if need.when is None:
        return True
    values: dict[str, Mapping[str, object]] = {
        "image": {"version": backend_version(backend, playbook), "reference": backend.image},
        "param": playbook.params_with(backend.params),
    }
    return evaluate(need.when, values)


def _told(context: HostContext, need: CpuNeed, playbook: Playbook) -> str:
    """A warning where too little is known; empty when the need is met or of another architecture."""
    cpu, arch = context.facts.cpu, context.facts.os.arch
    needed = ", ".join(need.flags)
    unknown = next((value for value in (arch, cpu.flags) if isinstance(value, Unknown)), None)
    if isinstance(arch, str) and need.arch not in (None, arch):
        return ""
    if isinstance(cpu.flags, Unknown) or unknown is not None:
        on = f" on {need.arch}" if need.arch else ""
        why = unknown.unknown if unknown else ""
        return (
            f"playbook {playbook.name} needs the CPU flags {needed}{on}, and this host does not tell its own "
            f"({why})"
        )
    missing = ", ".join(flag for flag in need.flags if flag not in cpu.flags)
    if not missing:
        return ""
    model = "this CPU" if isinstance(cpu.model, Unknown) else cpu.model
    do = need.do or (
        f"use a host whose CPU has {missing} (`cpudeploy facts` tells), or a backend that needs less"
    )
    if "hypervisor" in cpu.flags:
        do += "; in a virtual machine like this one, let the hypervisor pass its own CPU through"
    raise HostError(
        f"playbook {playbook.name} needs the CPU flags {missing}, which {model} does not have",
        where=context.host.name,
        do=do,
    )
