"""Templates: what they give, what they refuse, and that nobody's template can run away."""

from __future__ import annotations

import pytest

from cpudeploy.manifest.templates import (
    TemplateError,
    allowed_names,
    check_condition,
    check_template,
    evaluate,
    render,
)
from cpudeploy.manifest.versions import Version

ALLOWED = allowed_names(["kv", "items"])
VALUES = {
    "model": {"name": "m", "served_name": 'a "b" <é>', "context": 8192, "task": "chat"},
    "alloc": {"parallel": 4, "threads": 7, "kv": 3 * 2**30 + 1},
    "param": {"kv": "q8_0", "items": "x", "on": True, "off": None},
    "image": {"version": Version("b9500")},
}


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("plain", "plain"),
        ("{{ model.context * alloc.parallel }}", "32768"),
        ("--kv={{ param.kv }}", "--kv=q8_0"),
        ('{"model": {{ model.served_name|tojson }}}', '{"model": "a \\"b\\" <é>"}'),
        ("{{ [alloc.threads, 4]|min }}", "4"),
        ("{{ (alloc.kv / 1073741824)|round(0, 'ceil')|int }}", "4"),
        ("{{ 'a' if model.task == 'chat' else 'b' }}", "a"),
        ("{% if alloc.threads > 4 %}many{% endif %}", "many"),
        ("{{ param.on }}", "true"),
        ("{{ param.items }}", "x"),
        ("{{ model.name ~ '-' ~ alloc.threads }}", "m-7"),
        ("two words\n", "two words\n"),
        ("{{ '{{' }}", "{{"),
        ("{{ image.version }}", "b9500"),
    ],
)
def test_a_template_gives_one_string(text: str, result: str) -> None:
    assert render(text, VALUES) == result


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("image.version >= 9000", True),
        ("image.version < 9000", False),
        ("image.version >= 9000 and model.task in ['embed', 'rerank']", False),
        ("not param.off", True),
        ("param.kv != 'f16'", True),
    ],
)
def test_a_condition_is_decided(condition: str, holds: bool) -> None:
    assert check_condition(condition, {**ALLOWED, "param": ("kv", "off")}) == []
    assert evaluate(condition, VALUES) is holds


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{{ modle.name }}", "`modle` did you mean `model`"),
        ("{{ model.contxt }}", "`model.contxt` did you mean `context`"),
        ("{{ param.kvv }}", "`param.kvv` did you mean `kv`"),
        ("{{ model }}", "`model` alone is no value"),
        ("{{ model.name.upper }}", "nothing has `.upper`"),
        ("{{ model.__class__ }}", "unknown name `model.__class__`"),
        ("{{ ''.__class__ }}", "nothing has `.__class__`"),
        ("{{ model['name'] }}", "square brackets"),
        ("{{ model.name.upper() }}", "`call`"),
        ("{{ range(9) }}", "`call`"),
        ("{{ self }}", "unknown name `self`"),
        ("{% for x in [1] %}{% endfor %}", "`for`"),
        ("{% set x = 1 %}", "not part of templates"),
        ("{% include 'x' %}", "`include`"),
        ("{% macro m() %}{% endmacro %}", "`macro`"),
        ("{{ 2 ** 9 }}", "`**`"),
        ("{{ 'x'|center(9) }}", "no filter `center`"),
        ("{{ 1 if model.name }}", "without `else`"),
        ("{{ model.name", "not a template"),
        ("{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}", "can't be compiled"),
        ("x" * 20_000, "longer than 16 KiB"),
    ],
    ids=lambda text: text[:30],
)
def test_what_is_not_in_the_language_is_told_at_validation(text: str, words: str) -> None:
    said = " ".join(f"{finding.what} {finding.do}" for finding in check_template(text, ALLOWED))
    position = 0
    for word in words.split():
        position = said.find(word, position)
        assert position >= 0, said


@pytest.mark.parametrize("condition", ["", "true }} {{ 1", "a; b", "{{ model.name }}", "image.version > 0.2"])
def test_a_condition_is_one_expression_over_known_names(condition: str) -> None:
    assert check_condition(condition, ALLOWED)


@pytest.mark.parametrize(
    "text",
    [
        "{{ 'a' * 9999999999 }}",
        "{{ '%9999999999d' % 1 }}",
        "{{ [1] * 9999999999 }}",
        "{{ 9" + "*9" * 7000 + " }}",
        "{{ 1 / 0 }}",
        "{{ model.missing }}",
        "{{ param.off }}",
        "{{ 2 ** 99999999 }}",
        "{{ model.items }}",
        "{{ image.version >= 0.22 }}",
        "{{ image.version.text }}",
    ],
    ids=lambda text: text[:30],
)
def test_what_can_only_fail_while_rendering_fails_in_words(text: str) -> None:
    with pytest.raises(TemplateError):
        render(text, VALUES)


def test_output_is_limited() -> None:
    with pytest.raises(TemplateError, match="64 KiB"):
        render("{{ model.name }}{{ model.name }}", {"model": {"name": "x" * 40_000}})
