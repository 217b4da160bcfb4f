"""What an author writes about health: which functions are checks, and how they are to be run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final, TypeVar

from plugbay.errors import InvalidHealthCheck

if TYPE_CHECKING:
    from plugbay.sdk.plugin import DevicePlugin

_MARK: Final = "__plugbay_health__"
_Check = TypeVar("_Check", bound=Callable[..., Any])


class Isolation(Enum):
    """Where a check runs."""

    NONE = auto()
    """In the plugin's process: in a thread if it is plain, on the event loop if it is async."""
    PROCESS = auto()
    """In a process of its own, which may hang or crash."""


class Scope(Enum):
    """What one call of a check is about."""

    DEVICE = auto()
    ALL = auto()


@dataclass(frozen=True, slots=True)
class CheckSettings:
    """How a check is run; see `health`."""

    every_s: float
    fall: int
    rise: int
    timeout_s: float
    isolation: Isolation


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """A check of one plugin, ready to be called.

    Attributes:
        name: the function's, for logs.
        function: takes a device, or nothing if it is about all.
    """

    name: str
    function: Callable[..., Any]
    scope: Scope
    settings: CheckSettings


def health(
    *, every: float = 10.0, fall: int = 3, rise: int = 1, timeout: float = 5.0, isolate: bool = False
) -> Callable[[_Check], _Check]:
    """Mark a method of a plugin, or a function for ``@plugin(health=...)``, as a check of its devices' health.

    ``check(self, device)`` is called for each device and gives `Health`, True, False, or None when it cannot tell.
    ``check(self)`` is called once for all and gives a mapping of device IDs to such verdicts. A check that raises or
    takes too long makes the health unknown, which is not given out either. The first verdict on a device counts at
    once; before it the health is unknown.

    Args:
        every: seconds from the end of one round to the next.
        fall: so many verdicts in a row that are not healthy make a healthy device what the last of them says.
        rise: so many healthy verdicts in a row make the device healthy again.
        timeout: seconds that one call may take.
        isolate: run it in a lean process of its own, which is killed and started again when it hangs or crashes. It
            works on a copy of the plugin as it was when that process started, after `set_up`, so the plugin has to be
            picklable.

    The defaults are those of Kubernetes' probes, but for the timeout.

    Raises:
        InvalidHealthCheck: a number out of range, or a function that takes something else.
    """
    settings = CheckSettings(every, fall, rise, timeout, Isolation.PROCESS if isolate else Isolation.NONE)

    def mark(function: _Check) -> _Check:
        name = getattr(function, "__qualname__", repr(function))
        if not (every > 0 and timeout > 0):
            raise InvalidHealthCheck(name, "`every` and `timeout` have to be more than 0 seconds")
        if fall < 1 or rise < 1:
            raise InvalidHealthCheck(name, "`fall` and `rise` have to be at least 1")
        if isolate and inspect.iscoroutinefunction(function):
            raise InvalidHealthCheck(name, "what runs in a process of its own cannot be async; make it plain")
        setattr(function, _MARK, settings)
        return function

    return mark


def checks_of(plugin: DevicePlugin, functions: Iterable[Callable[..., Any]] = ()) -> tuple[HealthCheck, ...]:
    """The checks among a plugin's methods, by name, and those of ``functions``.

    Raises:
        InvalidHealthCheck: one takes other parameters than a check does, or is not marked.
    """
    methods = [getattr(plugin, name) for name in sorted(_names(type(plugin)))]
    return tuple(_check(function) for function in (*methods, *functions))


def _names(cls: type) -> set[str]:
    """Attributes that are marked functions; looked up without running properties."""
    names = {name for base in cls.__mro__ for name in vars(base)}
    return {name for name in names if hasattr(_function_of(inspect.getattr_static(cls, name)), _MARK)}


def _function_of(value: object) -> object:
    return value.__func__ if isinstance(value, staticmethod | classmethod) else value


def _check(function: Callable[..., Any]) -> HealthCheck:
    name = getattr(function, "__name__", repr(function))
    settings = getattr(function, _MARK, None)
    if not isinstance(settings, CheckSettings):
        raise InvalidHealthCheck(name, "is not marked with @health(...)")
    required = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
    ]
    if len(required) > 1 or any(parameter.kind is parameter.KEYWORD_ONLY for parameter in required):
        raise InvalidHealthCheck(name, "takes a device, or nothing when it checks all of them")
    return HealthCheck(name, function, Scope.DEVICE if required else Scope.ALL, settings)
