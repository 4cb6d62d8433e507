"""What a plain YAML scalar means: the core schema of YAML 1.2, without the surprises of 1.1.

In: the text of an unquoted scalar. Out: null, bool, int, float or str. `no`, `on`, `1:30` and dates are
strings. What is read differently by different YAML versions is refused, not guessed.
"""

from __future__ import annotations

import math
import re

Scalar = str | int | float | bool | None

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = frozenset({"true", "True", "TRUE"})
_FALSE = frozenset({"false", "False", "FALSE"})
_DECIMAL = re.compile(r"[-+]?[0-9]+")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9]+")
_OCTAL = re.compile(r"0o[0-7]+")
_HEX = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_INT_LIMIT = 2**63


class AmbiguousScalar(ValueError):
    """A scalar that can't be taken at its word. `what` and `do` never repeat it: it may be a secret."""

    def __init__(self, what: str, do: str) -> None:
        super().__init__(what)
        self.what = what
        self.do = do


def plain_value(text: str) -> Scalar:
    """The value of an unquoted scalar. Raises AmbiguousScalar."""
    if text in _NULL:
        return None
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    if _LEADING_ZERO.fullmatch(text):
        raise AmbiguousScalar(
            "a number with a leading zero is octal to some readers of YAML and decimal to others",
            "write it without the zero, as 0o… for octal, or in quotes for text",
        )
    if _DECIMAL.fullmatch(text):
        # Python refuses to convert very long digits; so do we, before it is asked to.
        return _bounded(int(text)) if len(text) <= 20 else _bounded(_INT_LIMIT)
    if _OCTAL.fullmatch(text):
        return _bounded(int(text[2:], 8))
    if _HEX.fullmatch(text):
        return _bounded(int(text[2:], 16))
    if _NOT_FINITE.fullmatch(text):
        raise AmbiguousScalar(
            "infinity and not-a-number are no usable values", "put it in quotes if text is meant"
        )
    if _FLOAT.fullmatch(text):
        number = float(text)
        if math.isinf(number):
            raise AmbiguousScalar("the number is too large", "put it in quotes if text is meant")
        return number
    return text


def _bounded(number: int) -> int:
    if not -_INT_LIMIT <= number < _INT_LIMIT:
        raise AmbiguousScalar("the number is too large", "put it in quotes if text is meant")
    return number
