"""How names, values and places are written in an error's sentence."""

from __future__ import annotations

import re
from typing import Final

_CONTROL: Final = re.compile(r"\\u00([0-9a-f]{2})")
_SHOWN_CHARACTERS: Final = 100


def quote(text: str) -> str:
    """``text`` in double quotes, escaped as Go's ``%q`` does for what occurs in names."""
    # Imported here: every worker process has this module, and hardly one has anything to quote.
    import json

    quoted = json.dumps(text, ensure_ascii=False)
    return _CONTROL.sub(lambda match: f"\\x{int(match.group(1), 16):02x}", quoted)


def located(problem: str, *, field: str, line: int | None, source: str) -> str:
    """``problem`` behind its place: ``pod.yaml:3: spec.containers[0]: is wrong``."""
    where = source if line is None else f"{source}:{line}"
    return f"{where}: {field}: {problem}" if field else f"{where}: {problem}"


def shown(value: object) -> str:
    """``value`` as it is written in Python, or its beginning: authors may hand us whole files."""
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 1]}…"
