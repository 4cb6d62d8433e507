"""The template language: the little of Jinja2 that renders arguments, and nothing that can run away.

In: text of a template or a condition. Out: its syntax tree, checked; an environment that renders it.
No loops, calls, assignments, includes or attributes of Python objects; arithmetic is on numbers only. So
the work is bounded by the length of the text, whoever wrote it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

MAX_TEMPLATE = 16 * 1024
_FILTERS = ("abs", "int", "join", "lower", "max", "min", "round", "string", "trim", "upper")
_TESTS = ("none", "in")
_ARITHMETIC = frozenset({"+", "-", "*", "/", "//", "%"})
_ALLOWED = (
    nodes.Template,
    nodes.Output,
    nodes.TemplateData,
    nodes.If,
    nodes.CondExpr,
    nodes.Name,
    nodes.Getattr,
    nodes.Const,
    nodes.List,
    nodes.Tuple,
    nodes.Compare,
    nodes.Operand,
    nodes.And,
    nodes.Or,
    nodes.Not,
    nodes.Add,
    nodes.Sub,
    nodes.Mul,
    nodes.Div,
    nodes.FloorDiv,
    nodes.Mod,
    nodes.Neg,
    nodes.Pos,
    nodes.Concat,
    nodes.Filter,
    nodes.Test,
    nodes.Keyword,
)
_LITERALLY = "to write braces literally: {{ '{{' }}"


class TemplateFault(Exception):
    """A template that can't be taken: `what` is wrong, what to `do`."""

    def __init__(self, what: str, do: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.do = do


class Sandbox(ImmutableSandboxedEnvironment):
    """Jinja2 without globals, loaders or attributes: a dot reads a name of the context, nothing else."""

    intercepted_binops = _ARITHMETIC

    def __init__(self) -> None:
        super().__init__(
            undefined=jinja2.StrictUndefined, autoescape=False, keep_trailing_newline=True, finalize=_finalize
        )
        self.globals.clear()
        self.filters = {name: self.filters[name] for name in _FILTERS} | {"tojson": _to_json}
        self.tests = {name: self.tests[name] for name in _TESTS}

    def getattr(self, obj: Any, attribute: str) -> Any:
        if isinstance(obj, Mapping) and attribute in obj:
            return obj[attribute]
        return self.undefined(obj=obj, name=attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        return self.undefined(obj=obj, name=str(argument))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        texts = operator == "+" and isinstance(left, str) and isinstance(right, str)
        if not texts and not (_is_number(left) and _is_number(right)):
            raise TemplateFault(f"`{operator}` takes two numbers", "join text with ~")
        return super().call_binop(context, operator, left, right)

    def parse_template(self, text: str) -> nodes.Node:
        """The tree of a template. Raises TemplateFault."""
        return self._parsed(text, condition=False)

    def parse_condition(self, text: str) -> nodes.Node:
        """The tree of one expression, as `when` has it. Raises TemplateFault."""
        return self._parsed(text, condition=True)

    def _parsed(self, text: str, *, condition: bool) -> nodes.Node:
        if len(text) > MAX_TEMPLATE:
            raise TemplateFault("a template longer than 16 KiB", "put long text into a file")
        try:
            tree = _parse_expression(self, text) if condition else self.parse(text)
            for node in (tree, *tree.find_all(nodes.Node)):
                _check_node(node)
            if condition:
                self.compile_expression(text, undefined_to_none=False)
            else:
                self.from_string(text)
        except jinja2.TemplateSyntaxError as error:
            raise TemplateFault(
                f"not a template: {(error.message or 'unreadable')[:120]}", _LITERALLY
            ) from None
        except (RecursionError, MemoryError, SyntaxError, ValueError, ArithmeticError, TypeError):
            raise TemplateFault("a template that can't be compiled", "make it simpler") from None
        return tree


def _parse_expression(environment: jinja2.Environment, text: str) -> nodes.Node:
    parser = Parser(environment, text, state="variable")
    tree = parser.parse_expression()
    if not parser.stream.eos:
        raise TemplateFault("more than one expression", "join conditions with `and`")
    tree.set_environment(environment)
    return tree


def _check_node(node: nodes.Node) -> None:
    """Raises TemplateFault for what the language leaves out."""
    if isinstance(node, nodes.Getitem):
        raise TemplateFault(
            "square brackets are not part of templates here", "write names with dots: param.name"
        )
    if isinstance(node, nodes.Pow):
        raise TemplateFault("`**` is not part of templates here", "multiply")
    if not isinstance(node, _ALLOWED):
        kind = type(node).__name__.lower()
        raise TemplateFault(
            f"`{kind}` is not part of templates here", "use names, arithmetic, comparisons, `if` and filters"
        )
    if isinstance(node, nodes.Filter) and (node.node is None or node.name not in (*_FILTERS, "tojson")):
        raise TemplateFault(
            f"there is no filter `{node.name[:40]}`", f"filters: {', '.join((*_FILTERS, 'tojson'))}"
        )
    if isinstance(node, nodes.Test) and node.name not in _TESTS:
        raise TemplateFault(f"there is no test `is {node.name[:40]}`", "compare with == or use `is none`")
    if isinstance(node, nodes.CondExpr) and node.expr2 is None:
        raise TemplateFault("an `if` without `else`", "say what else to write, such as else ''")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _finalize(value: object) -> object:
    """How values look in text: booleans as engines read them; nothing is never text."""
    if value is None:
        raise TemplateFault("a value that is not set", "test it first: {% if … is not none %}")
    return ("true" if value else "false") if isinstance(value, bool) else value


def _to_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
