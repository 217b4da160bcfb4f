"""The root of the tree, which all parties share."""

from __future__ import annotations


class PlugbayError(Exception):
    """Root of the tree. ``str()`` is one sentence that says what is wrong and where."""
