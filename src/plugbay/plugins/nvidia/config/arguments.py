"""Settings from a command line and from an environment, as NVIDIA's plugin reads them. Pure.

Source: urfave/cli 2.27.7 (``flag_bool.go``, ``flag_string_slice.go``, ``flag_int_slice.go``); Go 1.26 ``flag``,
``strconv``; spec 1.1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from plugbay.errors import UsageError, quote
from plugbay.plugins.nvidia.config.flags import PLUGIN_FLAGS, ConfigFlag, FlagKind, FlagValue
from plugbay.plugins.nvidia.config.places import COMMAND_LINE, ENVIRONMENT, ConfigPlace, Given

Layer = Mapping[str, Given[FlagValue]]
"""The settings of one origin, by `ConfigFlag.key`."""

_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_INTEGER: Final = re.compile(r"([+-]?)(0[xX][0-9a-fA-F_]+|0[bB][01_]+|0[oO][0-7_]+|0[0-7_]*|[1-9][0-9_]*)", re.ASCII)
_MAX_DIGITS: Final = 100
_BITS: Final = 63


def parse_flags(arguments: Sequence[str], environment: Mapping[str, str]) -> tuple[Layer, Layer]:
    """Read the command line and the environment; errors of the environment come first.

    Raises:
        UsageError: the first thing that is wrong.
    """
    variables = parse_environment(environment)
    return parse_arguments(arguments), variables


def parse_arguments(arguments: Sequence[str], flags: Sequence[ConfigFlag] = PLUGIN_FLAGS) -> Layer:
    """Read flags in Go's spelling: one or two dashes, ``--flag=value`` or ``--flag value``; a boolean without value
    is true. Reading ends at ``--``, and at the first word that is not a flag.

    Raises:
        UsageError: an unknown flag, a flag without its value, a value of the wrong kind, or two names of one flag.
    """
    by_name = {name: flag for flag in flags for name in flag.names}
    layer: dict[str, Given[FlagValue]] = {}
    used: dict[str, str] = {}
    words = iter(arguments)
    for word in words:
        if len(word) < 2 or not word.startswith("-") or word == "--":
            break
        name, has_value, value = word.removeprefix("-").removeprefix("-").partition("=")
        if name not in by_name:
            raise UsageError(f"flag provided but not defined: -{name}")
        flag = by_name[name]
        if not has_value:
            value = "true" if flag.kind is FlagKind.BOOLEAN else next(words, None)  # type: ignore[assignment]
            if value is None:
                raise UsageError(f"flag needs an argument: -{name}")
        if used.setdefault(flag.key, name) != name:
            raise UsageError(f"Cannot use two forms of the same flag: {used[flag.key]} {name}")
        layer[flag.key] = _with(
            layer.get(flag.key), _parse_argument(flag, name, value), ConfigPlace(COMMAND_LINE, f"--{name}")
        )
    return layer


def parse_environment(environment: Mapping[str, str], flags: Sequence[ConfigFlag] = PLUGIN_FLAGS) -> Layer:
    """Read the variables of the flags.

    An empty variable is an empty text, or false, or a list of one empty text; a list of numbers ignores it.

    Raises:
        UsageError: a value of the wrong kind.
    """
    layer: dict[str, Given[FlagValue]] = {}
    for flag in flags:
        variable = next((name for name in flag.variables if name in environment), None)
        if variable is None or (flag.kind is FlagKind.INTEGERS and not environment[variable]):
            continue
        layer[flag.key] = Given(
            _parse_variable(flag, variable, environment[variable]), ConfigPlace(ENVIRONMENT, variable)
        )
    return layer


def parse_boolean(text: str) -> bool:
    """Read a boolean as Go's ``strconv.ParseBool`` does.

    Raises:
        ValueError: none of its words.
    """
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError(f"strconv.ParseBool: parsing {quote(text)}: invalid syntax")


def parse_integers(text: str) -> tuple[int, ...]:
    """Read integers of 64 bits with commas between them, in the notations of Go.

    Raises:
        ValueError: one is not an integer.
    """
    return tuple(_integer(part.strip()) for part in text.split(","))


def split_texts(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(","))


def _with(before: Given[FlagValue] | None, value: FlagValue, place: ConfigPlace) -> Given[FlagValue]:
    """A repeated list grows; any other value is replaced."""
    if before is not None and isinstance(value, tuple) and isinstance(before.value, tuple):
        return Given((*before.value, *value), place)
    return Given(value, place)


def _parse_argument(flag: ConfigFlag, name: str, text: str) -> FlagValue:
    try:
        return _parse(flag.kind, text)
    except ValueError as error:
        if flag.kind is FlagKind.BOOLEAN:
            raise UsageError(f"invalid boolean value {quote(text)} for -{name}: parse error") from None
        raise UsageError(f"invalid value {quote(text)} for flag -{name}: {error}") from None


def _parse_variable(flag: ConfigFlag, variable: str, text: str) -> FlagValue:
    if flag.kind is FlagKind.BOOLEAN and not text:
        return False
    try:
        return _parse(flag.kind, text)
    except ValueError as error:
        kind = "bool" if flag.kind is FlagKind.BOOLEAN else "int slice"
        origin = f"environment variable {quote(variable)}"
        raise UsageError(
            f"could not parse {quote(text)} as {kind} value from {origin} for flag {flag.key}: {error}"
        ) from None


def _parse(kind: FlagKind, text: str) -> FlagValue:
    match kind:
        case FlagKind.BOOLEAN:
            return parse_boolean(text)
        case FlagKind.TEXTS:
            return split_texts(text)
        case FlagKind.INTEGERS:
            return parse_integers(text)
        case _:
            return text


def _integer(text: str) -> int:
    match = _INTEGER.fullmatch(text)
    if match is None or "__" in text or text.endswith("_"):
        raise ValueError(f"strconv.ParseInt: parsing {quote(text)}: invalid syntax")
    sign, digits = match.groups()
    is_octal = re.fullmatch("0[0-7_]+", digits)
    number = int(digits.replace("_", ""), 8 if is_octal else 0) if len(digits) <= _MAX_DIGITS else 1 << _BITS
    number = -number if sign == "-" else number
    if not -(1 << _BITS) <= number < 1 << _BITS:
        raise ValueError(f"strconv.ParseInt: parsing {quote(text)}: value out of range")
    return number
