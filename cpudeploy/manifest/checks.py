"""What a schema can't see about placements. In: merged settings, a playbook. Out: problems. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from ..types.deployment import Placement
from ..types.playbook import Playbook
from .document import Node
from .flags import cut_short, flag_conflict, holds_value, refused_flag
from .listen import is_loopback, listen_fault, meet
from .playbooks import check_text
from .problems import Problems, show
from .settings import Settings
from .templates import CONTEXT_NAMES, allowed_names


def check_listen(settings: Settings, problems: Problems) -> None:
    """The form of `listen`, and that nobody serves the network without a key by accident."""
    listen = settings.text("listen")
    if listen is None:
        return
    fault = listen_fault(listen)
    if fault is not None:
        problems.add(settings.place("listen"), f"`listen` is {show(listen)}: {fault[0]}", fault[1])
    elif not is_loopback(listen) and settings.missing("api_key"):
        problems.add(
            settings.place("listen"),
            f"listening on {show(listen)} lets others in, and there is no `api_key`",
            "give api_key: {from_file: …}, or say `api_key: none` aloud",
        )


def check_clashes(placed: Sequence[tuple[Placement, Settings]], problems: Problems) -> None:
    """Two models on one host can't answer on the same address and port.

    Only what the texts tell; what `host`, networks and interfaces stand for, and how many NUMA nodes there
    are, is known when the plan is made.
    """
    earlier_on: dict[str, list[Placement]] = defaultdict(list)
    for later, settings in placed:
        for earlier in earlier_on[later.host]:
            first = max(earlier.port, later.port)
            if first <= min(_last_port(earlier), _last_port(later)) and meet(earlier.listen, later.listen):
                problems.add(
                    settings.place("port"),
                    f"models {show(earlier.model)} and {show(later.model)} both listen on "
                    f"{later.listen}:{first} of host {show(later.host)}",
                    "give one of them another port",
                )
        earlier_on[later.host].append(later)


def _last_port(placement: Placement) -> int:
    """The last port it is said to need: one for each NUMA node may be more."""
    return placement.last_port or placement.port if placement.each == "numa" else placement.port


def check_texts(
    args: Sequence[Node], env: Mapping[str, Node], playbook: Playbook | None, problems: Problems
) -> None:
    """Templates in args and env, and args that fight what the playbook renders."""
    # Without its playbook the parameters are not known; every other name still is.
    allowed = allowed_names(playbook.params) if playbook is not None else CONTEXT_NAMES
    for node in (*args, *env.values()):
        if isinstance(node.value, str) and (playbook is not None or "param" not in node.value):
            check_text(node, allowed, problems)
    if playbook is None:
        return
    for name, node in env.items():
        why = next((each.why for each in playbook.refuses if name in each.env), None)
        if why is not None:
            problems.add(node.at, f"{show(name)} can't be set in `env`: {why}", "remove it")
    for node in args:
        fault = _argument_fault(str(node.value), playbook)
        if fault is not None:
            problems.add(node.place, *fault)


def _argument_fault(argument: str, playbook: Playbook) -> tuple[str, str] | None:
    """What is wrong with an argument, and what to do; None when nothing is."""
    if argument == "--":
        return "`--` ends the flags: what stands behind it is none", "remove it"
    conflict = flag_conflict(argument, playbook)
    if conflict is not None:
        flag, field = conflict
        do = f"set `{field}` instead" if field else "remove it"
        return f"{show(flag)} is already set by playbook {show(playbook.name)}", do
    refused = refused_flag(argument, playbook)
    if refused is not None:
        flag, why = refused
        return f"{show(flag)} can't be given in `args`: {why}", "remove it"
    if holds_value(argument):
        return (
            f"{show(argument)} is one argument with a space in it",
            "write flag and value as two, or with `=`",
        )
    whole = cut_short(argument, playbook)
    if whole is not None:
        return f"{show(argument)} is {show(whole)} cut short", "write the flag out"
    return None


def check_playbook_fit(settings: Settings, playbook: Playbook, problems: Problems) -> None:
    """That the engine can do what is asked: chat, a key, memory that can be worked out.

    Whether it has another task is for the plan: a playbook may learn it.
    """
    task = settings.text("task") or "chat"
    if playbook.health is not None and task == "chat" and task not in playbook.health.tasks:
        served = ", ".join(f"`{name}`" for name in playbook.health.tasks)
        problems.add(
            settings.place("task"),
            f"playbook {show(playbook.name)} has no task {show(task)}",
            f"it has {served}",
        )
    takes_key = playbook.container is not None and playbook.container.api_key_file is not None
    if settings.secret("api_key") is not None and not takes_key:
        problems.add(
            settings.place("api_key"),
            f"playbook {show(playbook.name)} can't give its engine a key as a file",
            "listen on 127.0.0.1 and remove `api_key`, or use a playbook with api_key_file",
        )
    memory = settings.get("memory")
    if (
        playbook.memory is None
        and not settings.missing("memory")
        and memory is not None
        and memory.value == "auto"
    ):
        problems.add(settings.place("memory"), "`auto` needs a playbook with a memory model", "give a size")
    elif playbook.memory is None and settings.missing("memory"):
        problems.add(
            settings.node.place,
            f"playbook {show(playbook.name)} can't work out memory",
            "give `memory`, such as 8GiB",
        )
