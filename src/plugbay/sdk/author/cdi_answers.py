"""The way Allocate answers for devices that have a CDI kind."""

from __future__ import annotations

from enum import Flag, auto


class CdiAnswer(Flag):
    """The way Allocate tells which devices a container gets; ``CdiAnswer.NAMES | CdiAnswer.EDITS`` is both at once.

    An engine that gets more than one of these injects each device once.
    """

    NAMES = auto()
    """Qualified CDI names, passed on by kubelets since 1.28 (by default 1.29); older ones drop them in silence."""
    EDITS = auto()
    """The edits themselves, for engines without CDI."""
    ANNOTATIONS = auto()
    """Names in a ``cdi.k8s.io/`` annotation, for kubelets before 1.28 with an engine that knows CDI."""
