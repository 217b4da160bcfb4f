"""Health checks as an author writes them: functions that are marked, with the settings of their runs."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from enum import Enum, auto
from typing import Any, Final, Protocol, TypeVar, overload

from plugbay.errors import InvalidHealthCheck
from plugbay.model.health import Health
from plugbay.sdk.author.occasions import is_positive, seconds_of
from plugbay.values import dataclass

Verdict = Health | bool | None
"""A verdict on one device; None is for a check that cannot tell."""
Answer = Verdict | Mapping[Any, Verdict]

_MARK: Final = "__plugbay_health__"


class CheckFunction(Protocol):
    """Takes a device and gives a verdict on it, or takes nothing and gives the verdicts on all, by device ID."""

    def __call__(self, *arguments: Any, **named: Any) -> Answer | Awaitable[Answer]: ...


_Check = TypeVar("_Check", bound=CheckFunction)


class Isolation(Enum):
    """The place where a check runs."""

    NONE = auto()
    """The check runs in the plugin's process: in a thread if it is plain, on the event loop if it is async."""
    PROCESS = auto()
    """The check runs in a process of its own, which may hang or crash."""


class CheckScope(Enum):
    """The devices that one call of a check is about."""

    DEVICE = auto()
    ALL = auto()


@dataclass(frozen=True, slots=True)
class CheckSettings:
    """Settings of the runs of a check; see `health`."""

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
    scope: CheckScope
    settings: CheckSettings


@overload
def health(function: _Check, /) -> _Check: ...


@overload
def health(
    *, every: float | str = 10.0, fall: int = 3, rise: int = 1, timeout: float | str = 5.0, isolate: bool = False
) -> Callable[[_Check], _Check]: ...


def health(
    function: _Check | None = None,
    /,
    *,
    every: float | str = 10.0,
    fall: int = 3,
    rise: int = 1,
    timeout: float | str = 5.0,
    isolate: bool = False,
) -> _Check | Callable[[_Check], _Check]:
    """Mark a method of a plugin, or a function for ``@plugin(health=...)``, as a check of its devices' health.

    ``check(self, device)`` is called for each device and gives `Health`, True, False, or None when it does not know.
    ``check(self)`` is called once for all and gives a mapping of device IDs to such verdicts. A check that raises or
    takes too long makes the health unknown, which is not given out either. The first verdict on a device counts at
    once; before it the health is unknown.

    Args:
        every: seconds, or a text such as ``30s``, from the end of one round to the next.
        fall: so many verdicts in a row that are not healthy make a healthy device what the last of them says.
        rise: so many healthy verdicts in a row make the device healthy again.
        timeout: what one call may take, likewise.
        isolate: run it in a lean process of its own, which is killed and started again when it hangs or crashes. It
            works on a copy of the plugin as it was when that process started, after `set_up`, so the plugin has to be
            picklable.

    The defaults, which ``@health`` alone has, are those of Kubernetes' probes, but for the timeout.

    Raises:
        InvalidHealthCheck: a number out of range, or a function that takes something else.
    """

    def mark(function: _Check) -> _Check:
        name = getattr(function, "__qualname__", repr(function))
        if not (is_positive(every) and is_positive(timeout)):
            raise InvalidHealthCheck(name, "`every` and `timeout` have to be more than 0 seconds, such as 5 or '5s'")
        if fall < 1 or rise < 1:
            raise InvalidHealthCheck(name, "`fall` and `rise` have to be at least 1")
        if isolate and inspect.iscoroutinefunction(function):
            raise InvalidHealthCheck(name, "what runs in a process of its own cannot be async; make it plain")
        isolation = Isolation.PROCESS if isolate else Isolation.NONE
        setattr(function, _MARK, CheckSettings(seconds_of(every), fall, rise, seconds_of(timeout), isolation))
        return function

    return mark if function is None else mark(function)


def checks_of(plugin: object, functions: Iterable[Callable[..., Any]] = ()) -> tuple[HealthCheck, ...]:
    """The checks among a plugin's methods, by name, and those of ``functions``.

    Raises:
        InvalidHealthCheck: a check has the wrong parameters, or is not marked.
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
    return HealthCheck(name, function, CheckScope.DEVICE if required else CheckScope.ALL, settings)
