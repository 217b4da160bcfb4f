"""Values together with the place where they were given. Pure."""

from __future__ import annotations

from typing import Final, Generic, TypeVar

from plugbay.errors import InvalidNvidiaConfig
from plugbay.values import dataclass

T = TypeVar("T")

COMMAND_LINE: Final = "command line"
ENVIRONMENT: Final = "environment"
DEFAULTS: Final = "defaults"

_LOAD: Final = "error starting plugins: unable to load config: unable to finalize config: unable to parse config file"
OPENING: Final = f"{_LOAD}: error opening config file"
PARSING: Final = f"{_LOAD}: error parsing config file"
CONVERTING: Final = f"{PARSING}: unmarshal error: error converting YAML to JSON"
DECODING: Final = f"{PARSING}: unmarshal error: error unmarshaling JSON: while decoding JSON"
VALIDATING: Final = "error starting plugins: unable to validate flags"
SAVING: Final = (
    "error starting plugins: error getting plugins: unable to create cdi spec file: failed to save CDI spec: "
    "failed to write spec"
)
"""The words that NVIDIA's plugin puts in front of its errors, by the step that fails."""


@dataclass(frozen=True, slots=True)
class ConfigPlace:
    """The origin of a value.

    Attributes:
        source: a file, ``command line``, ``environment`` or ``defaults``.
        field: a path of fields, a flag, or a variable.
        line: 1-based, in a file.
    """

    source: str
    field: str = ""
    line: int | None = None

    def error(self, problem: str, *, step: str, allowed: str = "") -> InvalidNvidiaConfig:
        """The error that what is at this place makes."""
        return InvalidNvidiaConfig(problem, self.field, self.line, self.source, allowed=allowed, step=step)


@dataclass(frozen=True, slots=True)
class Given(Generic[T]):
    """A value and its place."""

    value: T
    place: ConfigPlace
