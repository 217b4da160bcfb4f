"""Values that Kubernetes takes for labels. Pure."""

from __future__ import annotations

import re
from typing import Final

_UNUSUAL: Final = re.compile(r"[^A-Za-z0-9\-_. ]")
_MOST: Final = 63
_ENDS: Final = "-_."


def sanitised(text: str) -> str:
    """``text`` without the characters that labels may not hold, words joined by ``-``.

    Source: gpu-feature-discovery 0.20 ``internal/lm/resource.go``, ``sanitise``.
    """
    return "-".join(_UNUSUAL.sub("", text).split())


def label_value(text: str) -> str:
    """``text`` as a valid value: at most 63 characters, first and last a letter or a digit.

    The reference gives longer ones, and Node Feature Discovery drops them (issues 731 to 733).
    """
    return text.strip(_ENDS)[:_MOST].rstrip(_ENDS)
