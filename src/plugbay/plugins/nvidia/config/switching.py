"""The configuration that a running plugin has, and the change to another one. Pure.

A configuration that is broken changes nothing: the plugin goes on with the one before, and says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from plugbay.errors import OperatorError
from plugbay.plugins.nvidia.config.configuration import Configuration
from plugbay.values import dataclass


@dataclass(frozen=True, slots=True)
class Refusal:
    """A configuration that was not taken over.

    Attributes:
        name: its file's; None for the empty configuration.
        problem: a sentence.
    """

    name: str | None
    problem: str


@dataclass(frozen=True, slots=True)
class ActiveConfig:
    """The configuration in use.

    Attributes:
        name: its file's; None for the empty configuration.
        refusal: the newer configuration that is broken; None when this is the newest.
    """

    name: str | None
    configuration: Configuration
    refusal: Refusal | None = None

    def sentence(self) -> str:
        """A sentence for log and status: which configuration is used, and why not the newer one."""
        used = _called(self.name)
        if self.refusal is None:
            return f"{used} is used"
        return f"{_called(self.refusal.name)} is broken, so {used} stays in use: {self.refusal.problem}"


def switched(
    active: ActiveConfig | None, name: Callable[[], str | None], read: Callable[[str | None], Configuration]
) -> ActiveConfig:
    """The configuration after an attempt to use another one, or the same one anew.

    Equal configurations are the same object, so that ``is`` tells whether anything changes.

    Args:
        active: the one before; None at start.
        name: chooses the file, see `choose_config`.
        read: reads and checks it.

    Raises:
        OperatorError: it is broken, and there is none before.
    """
    chosen = None if active is None else active.name
    try:
        chosen = name()
        configuration = read(chosen)
    except OperatorError as error:
        if active is None:
            raise
        return replace(active, refusal=Refusal(chosen, str(error)))
    if active is not None and active.configuration == configuration:
        return ActiveConfig(chosen, active.configuration)
    return ActiveConfig(chosen, configuration)


def _called(name: str | None) -> str:
    return "the empty configuration" if name is None else f"configuration {name!r}"
