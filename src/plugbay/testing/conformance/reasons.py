"""The reasons for which a scene shows nothing, or a rule says nothing."""

from __future__ import annotations


class NotApplicable(Exception):
    """Raised by a scene or a rule: it says nothing about this plugin, because of the reason that is given."""


class CannotJudge(Exception):
    """Raised by a scene or a rule: the plugin did not get so far that it could be judged; the text says how far."""
