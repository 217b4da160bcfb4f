"""Names as DNS and the API server take them: labels, domains, and the names of labels and resources. Pure.

The patterns are texts, and are compiled when they are first used: every plugin process and every worker imports them.

Source: Kubernetes 1.36 ``apimachinery/pkg/util/validation/validation.go``.
"""

from __future__ import annotations

import re
from typing import Final

LABEL: Final = "[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
"""An RFC 1123 label of any length."""
SUBDOMAIN: Final = rf"{LABEL}(?:\.{LABEL})*"
"""RFC 1123 labels with dots between them."""
NAME: Final = "[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?"
"""The part after the domain in the name of a resource or a label; also the value of a label."""
MAX_LABEL: Final = 63
MAX_SUBDOMAIN: Final = 253


def is_label(text: str) -> bool:
    """Whether ``text`` is an RFC 1123 label of at most 63 characters."""
    return len(text) <= MAX_LABEL and re.fullmatch(LABEL, text) is not None


def is_subdomain(text: str) -> bool:
    """Whether ``text`` is an RFC 1123 subdomain of at most 253 characters, as a node or a pod may be named."""
    return len(text) <= MAX_SUBDOMAIN and re.fullmatch(SUBDOMAIN, text) is not None


def is_name(text: str) -> bool:
    """Whether ``text`` may follow the domain in the name of a resource or a label: at most 63 characters."""
    return len(text) <= MAX_LABEL and re.fullmatch(NAME, text) is not None
