"""Templates of playbooks, args and env over a closed context. In: text, and names or values. Out: problems,
or one string. Pure; also used by `plan/`. One template gives one string, never split.

`CONTEXT_NAMES` is the whole of what a template can know: lasting things only, nothing that drifts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import jinja2
from jinja2 import nodes

from ..errors import CpudeployError
from .problems import nearest
from .sandbox import Sandbox, TemplateFault

MAX_OUTPUT = 64 * 1024
_N = TypeVar("_N", bound=nodes.Node)

Allowed = Mapping[str, Collection[str]]
"""Names a template may use: `model` → `name`, `context`, …"""
Values = Mapping[str, Mapping[str, object]]
"""The same names with their values."""

CONTEXT_NAMES: Allowed = {
    # What the manifest says. api_key_file: the path in the container, empty when there is no key.
    "model": ("name", "task", "served_name", "context", "parallel", "api_key_file"),
    "host": ("name",),
    # The processor: amd64, arm64, …; the rest true or false, false also where the host does not tell.
    # bf16: arithmetic on bfloat16; amx: with tiles of it.
    "cpu": ("arch", "avx2", "avx512f", "bf16", "amx"),
    # What sizing worked out. Sizes in bytes; context is tokens a request, context_total those of all slots.
    # mems: NUMA nodes its memory comes from, empty for any. ranks: parts of the model, each on a NUMA node
    # of its own, at least 1; cpus_bind: a cpu list for each, joined by |, one CPU a thread; rank_threads:
    # threads of each. kv: bytes of the KV cache of each; kv_gib: the same in whole GiB, rounded up.
    "alloc": (
        "instance",
        "cpuset",
        "threads",
        "threads_batch",
        "context",
        "context_total",
        "parallel",
        "memory",
        "weights",
        "kv",
        "kv_gib",
        "cache",
        "mems",
        "ranks",
        "rank_threads",
        "cpus_bind",
    ),
    # version compares with build numbers and text: image.version >= 9000, image.version < "0.22".
    "image": ("reference", "version"),
    # Paths in the container: the folder of the weights, the file's name in it, and what an engine is
    # pointed at (the file, or the folder where there is no single one). projector: the path of what lets the
    # model see, empty without one.
    "files": ("dir", "entry", "path", "projector"),
}
NEED_NAMES = ("image", "param")
"""What a `when` of a playbook's needs can know: it is decided before anything is allotted."""


class Finding(NamedTuple):
    """One thing wrong with a template."""

    what: str
    do: str


class TemplateError(CpudeployError):
    """A template that passed validation could not be rendered with these values."""


def allowed_names(params: Iterable[str]) -> Allowed:
    """The context of a playbook with these parameters."""
    return {**CONTEXT_NAMES, "param": tuple(params)}


def check_template(text: str, allowed: Allowed) -> list[Finding]:
    """What is wrong with a template, unknown names included; empty when nothing is."""
    try:
        return _check_names(Sandbox().parse_template(text), allowed)
    except TemplateFault as fault:
        return [Finding(fault.what, fault.do)]


def check_condition(text: str, allowed: Allowed) -> list[Finding]:
    """The same for a `when`: one expression, without braces."""
    try:
        return _check_names(Sandbox().parse_condition(text), allowed)
    except TemplateFault as fault:
        return [Finding(fault.what, fault.do)]


def render(text: str, context: Values) -> str:
    """The string a template gives. Raises TemplateError; never longer than 64 KiB."""
    if "{" not in text:
        return text
    try:
        result = _template(text).render(context)
    except TemplateFault as fault:
        raise TemplateError(f"{fault.what} in a template", do=fault.do) from None
    except (jinja2.TemplateError, ArithmeticError, TypeError, ValueError) as error:
        raise TemplateError(f"a template can't be rendered: {str(error)[:200]}") from None
    if len(result) > MAX_OUTPUT:
        raise TemplateError("a template gives more than 64 KiB", do="put long text into a file")
    return result


def evaluate(condition: str, context: Values) -> bool:
    """Whether a `when` holds. Raises TemplateError."""
    try:
        return bool(_condition(condition)(context))
    except TemplateFault as fault:
        raise TemplateError(f"{fault.what} in a condition", do=fault.do) from None
    except (jinja2.TemplateError, ArithmeticError, TypeError, ValueError) as error:
        raise TemplateError(f"a condition can't be decided: {str(error)[:200]}") from None


@lru_cache(maxsize=1024)
def _template(text: str) -> jinja2.Template:
    """Checked and compiled once: a fleet renders the same few templates for every model and host."""
    sandbox = Sandbox()
    sandbox.parse_template(text)
    return sandbox.from_string(text)


@lru_cache(maxsize=1024)
def _condition(text: str) -> Callable[..., Any]:
    """The same for a `when`."""
    sandbox = Sandbox()
    sandbox.parse_condition(text)
    return sandbox.compile_expression(text, undefined_to_none=False)


def _check_names(tree: nodes.Node, allowed: Allowed) -> list[Finding]:
    """Every name must be `group.name` of the closed context."""
    found: list[Finding] = []
    complete: set[int] = set()
    for access in _of(tree, nodes.Getattr):
        if not isinstance(access.node, nodes.Name):
            found.append(
                Finding(f"nothing has `.{access.attr[:40]}` here", "names are two words: model.name")
            )
        elif access.node.name in allowed:
            complete.add(id(access.node))
            group = access.node.name
            if access.attr not in allowed[group]:
                close = nearest(access.attr, allowed[group])
                found.append(Finding(f"unknown name `{group}.{access.attr[:40]}` in a template", close))
    for name in _of(tree, nodes.Name):
        if id(name) in complete:
            continue
        if name.name in allowed:
            choices = ", ".join(f"{name.name}.{inner}" for inner in sorted(allowed[name.name]))
            found.append(Finding(f"`{name.name}` alone is no value", f"one of {choices}"))
        else:
            found.append(
                Finding(f"unknown name `{name.name[:40]}` in a template", nearest(name.name, allowed))
            )
    for comparison in _of(tree, nodes.Compare):
        if any(isinstance(constant.value, float) for constant in _of(comparison, nodes.Const)) and any(
            access.attr == "version" for access in _of(comparison, nodes.Getattr)
        ):
            found.append(
                Finding("a version compared with a decimal number", 'put the version in quotes: "0.22"')
            )
    return found


def _of(tree: nodes.Node, kind: type[_N]) -> list[_N]:
    """All nodes of a kind, the root included (`find_all` leaves it out)."""
    return [*([tree] if isinstance(tree, kind) else []), *tree.find_all(kind)]
