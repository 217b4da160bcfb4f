"""Calls of an author's hooks about devices: what goes wrong leaves one line in the plugin's own log.

A kubelet learns of it too, but shows it to the pod's owner, not to the plugin's operator.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from plugbay.errors import AllocationError, CannotRelease, HookFailed, RpcFailed
from plugbay.errors.wording import called
from plugbay.sdk.author.problems import definition_of, problem_of

logger = logging.getLogger(__name__)

_REMEMBERED: Final = 256


class HookReports:
    """Reports on the calls of one plugin's hooks."""

    def __init__(self, resource: str) -> None:
        self._resource = resource
        self._told: dict[tuple[str, tuple[str, ...]], str] = {}

    @contextmanager
    def about(self, name: str, devices: Sequence[str], *, then: str = "") -> Iterator[None]:
        """A call of the hook ``name`` about ``devices``, and what is done with its answer.

        Args:
            then: what happens after a failure, for the log.

        Raises:
            HookFailed: instead of any exception that the author did not raise on purpose.
        """
        key = name, tuple(devices)
        try:
            yield
        except (CannotRelease, RpcFailed):  # said on purpose, and logged where devices are released; or of ours
            raise
        except HookFailed as error:
            self._tell(key, logging.ERROR, f"{error}{then}")
            raise
        except AllocationError as error:  # said on purpose
            self._tell(key, logging.WARNING, f"{self._resource}: {called(name, devices)} refused: {error}")
            raise
        except Exception as error:  # an author's code may raise anything
            failed = HookFailed(self._resource, name, devices, f"failed: {problem_of(error)}")
            self._tell(key, logging.ERROR, f"{failed}{then}")
            raise failed from error
        else:
            self._told.pop(key, None)

    def nonsense(self, name: str, hook: Callable[..., Any], devices: Sequence[str], problem: str) -> HookFailed:
        """The error for an answer of ``hook`` that is of no use."""
        return HookFailed(self._resource, name, devices, f"gave {problem}{definition_of(hook)}")

    def _tell(self, key: tuple[str, tuple[str, ...]], level: int, sentence: str) -> None:
        if self._told.pop(key, "") == sentence:  # kubelets repeat calls: the same one over and over is one line
            level = logging.DEBUG
        self._told[key] = sentence
        if len(self._told) > _REMEMBERED:
            del self._told[next(iter(self._told))]
        logger.log(level, "%s", sentence)
