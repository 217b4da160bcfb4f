"""Resources that come and go: an author's function that finds plugins, one for each resource."""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, overload

from plugbay.sdk.author.occasions import check_occasions, seconds_of
from plugbay.sdk.author.plugin import DevicePlugin, Watched, as_paths, call_with_paths

if TYPE_CHECKING:
    from pathlib import Path

    from plugbay.sdk.author.needs import Need

FoundPlugins = Iterable[DevicePlugin] | AsyncIterable[DevicePlugin] | Awaitable[Iterable[DevicePlugin]]
"""Plugins, however they come: a list, a generator, an async generator, or a coroutine that returns them."""


class PluginSource:
    """Finds the plugins of a process while it runs; made by `resources`.

    Attributes:
        name: the function's, for logs.
        every: seconds between looks when nothing changes; None for never.
        needs: the rights on its node that all its plugins need, found or not.
    """

    def __init__(
        self, function: Callable[..., Any], *, watch: Watched, every: float | str | None, needs: Sequence[Need] = ()
    ) -> None:
        self.name: str = getattr(function, "__qualname__", repr(function))
        check_occasions(self.name, watch=watch, every=every)
        self.every = None if every is None else seconds_of(every)
        if needs:
            from plugbay.sdk.author.needs import check_needs  # imported here: few declare any

            check_needs(self.name, needs)
        self.needs: Sequence[Need] = tuple(needs)
        self._function = function
        self._watch = watch
        self._ask_refresh: Callable[[], object] | None = None
        self.__doc__ = function.__doc__

    @property
    def watched_paths(self) -> tuple[Path, ...]:
        return as_paths(self._watch)

    def refresh(self) -> None:
        """Ask for another run of the function, from any thread; while the source is not served, nothing happens."""
        if self._ask_refresh is not None:
            self._ask_refresh()

    def bind_refresh(self, ask: Callable[[], object] | None) -> None:
        """Say what `refresh` does from now on; called by the server of the source."""
        self._ask_refresh = ask

    def find(self) -> FoundPlugins:
        """Find all plugins that there are to be now."""
        return call_with_paths(self._function, self.watched_paths)  # type: ignore[no-any-return]  # its caller checks it


@overload
def resources(function: Callable[..., Any], /) -> PluginSource: ...


@overload
def resources(
    *, watch: Watched = (), every: float | str | None = None, needs: Sequence[Need] = ()
) -> Callable[[Callable[..., Any]], PluginSource]: ...


def resources(
    function: Callable[..., Any] | None = None,
    /,
    *,
    watch: Watched = (),
    every: float | str | None = None,
    needs: Sequence[Need] = (),
) -> PluginSource | Callable[[Callable[..., Any]], PluginSource]:
    """Make a function that returns or yields plugins the source of all their resources.

    It is called at start, when a watched path changes, every so many seconds, and on SIGHUP; ``@resources`` alone sets
    neither. A resource that it gives for the first time is served from then on, one that it gives no longer is
    withdrawn, and others notice nothing of either. One that it gives again stays with the plugin that serves it
    already: new objects each time are fine, if making them is cheap, and hardware is opened in `set_up`.

    A function with a parameter is handed the watched path, or the list of them if there are several. If it raises, all
    stays as it was and it is called again later; a missing watched path means no resources.

    Raises:
        InvalidPlugin: ``watch``, ``every`` or ``needs`` is of no use.
    """

    def decorate(function: Callable[..., Any]) -> PluginSource:
        return PluginSource(function, watch=watch, every=every, needs=needs)

    return decorate if function is None else decorate(function)
