"""Notices async hooks that keep the event loop from running, while they do.

The loop stands still between two waits of a hook, and nowhere else: each such step is noted when it begins and ends.
A thread that looks at the steps runs while there are any, once in `TOO_LONG_S`; otherwise it sleeps.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Generator
from time import monotonic
from typing import Any, Final

from plugbay.sdk.author.problems import code_of, is_authors

logger = logging.getLogger(__name__)

TOO_LONG_S: Final = 1.0
_MOST_PLACES: Final = 256


class Stepwise:
    """An awaitable as ``awaitable``, with its steps watched.

    Args:
        hook: the hook that it belongs to, for the log.
    """

    __slots__ = ("_awaitable", "_hook")

    def __init__(self, awaitable: Awaitable[Any], hook: Callable[..., Any]) -> None:
        self._awaitable = awaitable
        self._hook = hook

    def __await__(self) -> Generator[Any, Any, Any]:
        steps = self._awaitable.__await__()
        if not is_authors(self._hook):
            return (yield from steps)
        step: Callable[[Any], Any] = steps.send
        given: Any = None
        while True:
            _guard.begin(self._hook)
            try:
                waits_for = step(given)
            except StopIteration as end:
                return end.value
            finally:
                _guard.end()
            try:
                given, step = (yield waits_for), steps.send
            except BaseException as error:  # a cancellation, which the hook may catch
                given, step = error, steps.throw


def dismiss_guard() -> None:
    """End the thread that watches the steps, and wait until it has ended; the next step starts another."""
    _guard.dismiss()


class _Guard:
    """The watch over the steps of all event loops of the process."""

    def __init__(self) -> None:
        self._steps: dict[int, tuple[Callable[..., Any], float]] = {}
        self._begun = threading.Event()
        self._dismissed = threading.Event()
        self._told: dict[str, None] = {}
        self._thread: threading.Thread | None = None

    def begin(self, hook: Callable[..., Any]) -> None:
        self._steps[threading.get_ident()] = hook, monotonic()
        if not self._begun.is_set():
            self._begun.set()
            if self._thread is None or not self._thread.is_alive():  # the first one, or after a fork
                self._thread = threading.Thread(target=self._watch, name="blocking hooks", daemon=True)
                self._thread.start()

    def end(self) -> None:
        self._steps.pop(threading.get_ident(), None)

    def dismiss(self) -> None:
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._dismissed.set()
        self._begun.set()
        thread.join()
        self._begun.clear()
        self._dismissed.clear()

    def _watch(self) -> None:
        while True:
            self._begun.wait()
            if self._dismissed.wait(TOO_LONG_S):
                return
            for thread, (hook, since) in list(self._steps.items()):
                if monotonic() - since >= TOO_LONG_S:
                    self._tell(hook, thread)
            self._begun.clear()
            if self._steps:  # looked at after that: one that begins now sees that it has to say so
                self._begun.set()

    def _tell(self, hook: Callable[..., Any], thread: int) -> None:
        resource = getattr(getattr(hook, "__self__", None), "resource_name", "") or "plugin"
        sentence = (
            f"{resource}: {getattr(hook, '__name__', hook)}() keeps the event loop from running{_place(thread, hook)}"
        )
        if sentence not in self._told:  # once for each place
            self._told[sentence] = None
            if len(self._told) > _MOST_PLACES:
                del self._told[next(iter(self._told))]
            logger.warning(
                "%s: the plugin answers no kubelet meanwhile; make it a plain `def`, which runs in a thread", sentence
            )


def _place(thread: int, hook: Callable[..., Any]) -> str:
    """The line of the hook's file that ``thread`` is at now."""
    code = code_of(hook)
    frame = None if code is None else sys._current_frames().get(thread)
    while frame is not None:
        if code is not None and frame.f_code.co_filename == code.co_filename:
            return f" ({os.path.basename(code.co_filename)}:{frame.f_lineno})"
        frame = frame.f_back
    return ""


_guard: Final = _Guard()
