"""Problems of a config: all of them are collected, each with its place. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from plugbay.errors import InvalidGenericConfig
from plugbay.model.field_path import FieldPath, field_text
from plugbay.plugins.generic.config.spots import NOWHERE, Spot
from plugbay.values import dataclass

_LIKE: Final = 0.7
_MAX_SHOWN: Final = 60


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """Something in a config that is wrong, or that is ignored.

    Attributes:
        source: the name of the file, or what else the text comes from.
        field: a path such as ``devices[0].name``; empty for the text as a whole.
        text: says what is wrong and what to write, without the place.
    """

    source: str
    spot: Spot
    field: str
    text: str

    @property
    def sentence(self) -> str:
        """The problem behind its place: ``file.yaml:3:9: devices[0].name: …``."""
        where = self.source if self.spot == NOWHERE else f"{self.source}:{self.spot.line}:{self.spot.column}"
        return f"{where}: {self.field}: {self.text}" if self.field else f"{where}: {self.text}"


class ConfigFindings:
    """The problems of one text, as they are found.

    Args:
        is_lenient: whether what squat's plugin ignores is a warning only.
    """

    def __init__(self, source: str, *, is_lenient: bool) -> None:
        self.source = source
        self.is_lenient = is_lenient
        self.errors: list[ConfigProblem] = []
        self.warnings: list[ConfigProblem] = []

    def error(self, spot: Spot, path: FieldPath, text: str) -> None:
        """Note what makes the config unusable."""
        self.errors.append(ConfigProblem(self.source, spot, field_text(path), text))

    def warn(self, spot: Spot, path: FieldPath, text: str) -> None:
        """Note what the operator should know."""
        self.warnings.append(ConfigProblem(self.source, spot, field_text(path), text))

    def forgivable(self, spot: Spot, path: FieldPath, text: str, *, instead: str) -> None:
        """Note an error that is a warning to the lenient; ``instead`` says what happens then."""
        if self.is_lenient:
            self.warn(spot, path, f"{text}; {instead}")
        else:
            self.error(spot, path, text)

    def raise_errors(self) -> None:
        """Say all that is wrong, in the order of the text.

        Raises:
            InvalidGenericConfig: something is.
        """
        if self.errors:
            raise InvalidGenericConfig([each.sentence for each in in_order(self.errors)])


def in_order(problems: Iterable[ConfigProblem]) -> tuple[ConfigProblem, ...]:
    """The problems in the order of the text, each one once."""
    return tuple(sorted(dict.fromkeys(problems), key=lambda each: (each.spot, each.field, each.text)))


def suggestion(given: str, known: Iterable[str]) -> str:
    """The end of a sentence that names the word most like ``given``; empty if none is."""
    from difflib import get_close_matches  # a config without mistakes does without it

    folded = {_fold(each): each for each in known}
    close = get_close_matches(_fold(given), folded, n=1, cutoff=_LIKE)
    return f'; did you mean "{folded[close[0]]}"?' if close else ""


def _fold(word: str) -> str:
    return word.lower().replace("-", "").replace("_", "")


def short(text: str) -> str:
    """``text`` in quotes, or its beginning."""
    return repr(text) if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]!r}…"
