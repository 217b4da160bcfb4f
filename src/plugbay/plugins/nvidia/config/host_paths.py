"""Paths on the host, made of a root and what lies below it. Pure.

Source: Go 1.26 ``path/filepath/path.go``, ``Join`` and ``Clean``.
"""

from __future__ import annotations

import posixpath


def join_root(root: str, *parts: str) -> str:
    """The path of ``parts`` below ``root``, without repeated slashes, ``.`` and ``..``.

    An empty root is left out, and a relative one stays relative.
    """
    cleaned = posixpath.normpath("/".join(filter(None, (root, *parts))))
    return f"/{cleaned.lstrip('/')}" if cleaned.startswith("/") else cleaned
