"""Regular expressions of schemas, as an API server has them: in Go's syntax, matched in linear time. Pure.

Python's own engine reads other patterns, has ``$`` match before a last newline, and tries alternatives one after the
other: ``(a+)+$`` holds a node for hours with a text of fifty characters.

Source: https://github.com/google/re2/wiki/Syntax; Go's package ``regexp/syntax`` takes the same.
"""

from __future__ import annotations

from typing import Any, Final

from plugbay.documents import Json
from plugbay.objects.problems import FieldProblem, invalid
from plugbay.printers import v1

_MOST_STEPS: Final = 1 << 25
"""Instructions of a pattern times bytes of a text: about a second of matching where that is slowest."""


def pattern_problems(schema: Json, path: str) -> list[FieldProblem]:
    """The problem with the pattern of a schema, if there is one."""
    if not (pattern := v1.text(schema, "pattern")):
        return []
    import re2

    try:
        compiled(pattern)
    except re2.error as error:
        return [invalid(f"{path}.pattern", pattern, f"must be a valid regular expression, but isn't: {_words(error)}")]
    return []


def mismatch(value: str, schema: Json) -> str:
    """The rule of the pattern that ``value`` breaks; empty when it breaks none."""
    if not (pattern := v1.text(schema, "pattern")):
        return ""
    import re2

    try:
        expression = compiled(pattern)
    except re2.error:  # an older plugbay took the definition
        return f"should match '{pattern}', which is not a valid regular expression"
    if expression.programsize * len(value.encode()) > _MOST_STEPS:
        return f"should match '{pattern}', and is too long to be held against it"
    return "" if expression.search(value) else f"should match '{pattern}'"


def compiled(pattern: str) -> Any:
    """The expression of a pattern, which prints nothing when it matches in less memory, and slower.

    Raises:
        re2.error: it is not a regular expression.
    """
    import re2  # few schemas have patterns

    options = re2.Options()
    options.log_errors = False
    return re2.compile(pattern, options)  # which keeps the last ones


def _words(error: Exception) -> str:
    (words,) = error.args
    return words.decode(errors="replace") if isinstance(words, bytes) else str(words)
