"""The path of fields to a value in a document. Pure."""

from __future__ import annotations

import re
from typing import Final

FieldPath = tuple[str | int, ...]
"""The place of a value: mapping keys and list indices."""

_PLAIN_KEY: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*")


def field_text(path: FieldPath) -> str:
    """Write ``path`` as the API server does: ``spec.containers[0].resources.limits[example.com/gopher]``."""
    text = ""
    for step in path:
        if isinstance(step, str) and _PLAIN_KEY.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f"[{step}]"
    return text
