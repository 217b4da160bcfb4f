"""The XIDs that make a device unhealthy, by NVIDIA's two environment variables. Pure.

Source: k8s-device-plugin 0.20 ``internal/rm/health.go``; spec 4.1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from plugbay.values import dataclass

DISABLE: Final = "DP_DISABLE_HEALTHCHECKS"
ENABLE: Final = "DP_ENABLE_HEALTHCHECKS"
APPLICATION_XIDS: Final = frozenset({13, 31, 43, 45, 68, 109})
"""Errors of the programs that use a GPU, which say nothing about the GPU; ignored unless they are enabled."""
_EVERYTHING: Final = frozenset({"all", "xids"})
_NUMBER: Final = re.compile(r"[0-9]{1,20}", re.ASCII)
_MOST: Final = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class XidList:
    """The value of one of the variables.

    Attributes:
        numbers: as listed; empty with ``is_all``.
        is_all: whether it stands for every XID.
        malformed: the elements that were left out.
    """

    numbers: frozenset[int] = frozenset()
    is_all: bool = False
    malformed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class XidPolicy:
    """Decides which XIDs count.

    Attributes:
        ignored: XIDs that do not count.
        ignores_others: whether those that neither variable names do not count either.
        counted: XIDs that count in any case.
        counts_all: whether every XID counts.
    """

    ignored: frozenset[int] = APPLICATION_XIDS
    ignores_others: bool = False
    counted: frozenset[int] = frozenset()
    counts_all: bool = False

    def is_ignored(self, xid: int) -> bool:
        """Whether the XID says nothing about the health of its device."""
        if self.counts_all or xid in self.counted:
            return False
        return self.ignores_others or xid in self.ignored

    @property
    def ignores_everything(self) -> bool:
        return self.ignores_others and not self.counts_all and not self.counted

    def sentence(self) -> str:
        """A sentence for the log."""
        if self.counts_all:
            return "every XID makes its device unhealthy"
        if self.ignores_everything:
            return f"not checked, as {DISABLE} says: XIDs are neither asked for nor counted, and GPUs are not probed"
        if self.ignores_others:
            return f"only the XIDs {_listed(self.counted)} make their device unhealthy"
        return f"every XID makes its device unhealthy, except {_listed(self.ignored - self.counted)}"


def xid_policy(environment: Mapping[str, str]) -> tuple[XidPolicy, tuple[str, ...]]:
    """The policy by the two variables, and warnings about elements that are not numbers.

    The reference checks nothing when everything is disabled and a few numbers are enabled; here these count, as its
    documentation says.
    """
    disabled, enabled = parse_xids(environment.get(DISABLE, "")), parse_xids(environment.get(ENABLE, ""))
    policy = XidPolicy(APPLICATION_XIDS | disabled.numbers, disabled.is_all, enabled.numbers, enabled.is_all)
    warnings = [
        f"Ignoring malformed Xid value {each}: {name} takes numbers, all and xids, with commas between them"
        for name, found in ((DISABLE, disabled), (ENABLE, enabled))
        for each in found.malformed
    ]
    return policy, tuple(warnings)


def parse_xids(text: str) -> XidList:
    """Read one variable: numbers with commas between them; ``all``, ``xids`` or ``0`` stand for every XID."""
    words = [word.strip() for word in text.lower().split(",")]
    if any(word in _EVERYTHING for word in words):
        return XidList(is_all=True)
    good = [word for word in words if _NUMBER.fullmatch(word) and int(word) <= _MOST]
    malformed = tuple(word for word in words if word and word not in good)
    numbers = frozenset(map(int, good))
    return XidList(is_all=True, malformed=malformed) if 0 in numbers else XidList(numbers, malformed=malformed)


def _listed(numbers: frozenset[int]) -> str:
    return ", ".join(map(str, sorted(numbers))) or "none"
