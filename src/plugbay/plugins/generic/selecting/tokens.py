"""Units of what is not a file, such as licences."""

from __future__ import annotations

from plugbay.plugins.generic.machine.values import SysPath
from plugbay.plugins.generic.selecting.drafts import Draft, Drafts, Named


class TokenLook:
    """A group that always has the same units.

    Args:
        number: among the groups of tokens of its entry, from 0 on; the IDs of each have a word of their own.
    """

    def __init__(self, number: int) -> None:
        word = "token" if number == 0 else f"token{number + 1}"
        self._draft = Draft((word,), Named.BY_NUMBER, facts={"name": word}, physical=word)

    @property
    def directories(self) -> frozenset[str]:
        return frozenset()

    def is_touched(self, paths: frozenset[str], devices: frozenset[SysPath]) -> bool:
        return False

    def look(self, paths: frozenset[str], devices: frozenset[SysPath]) -> Drafts:
        return Drafts((self._draft,))
