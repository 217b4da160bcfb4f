"""The settings that the plugin is started with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path

from plugbay.plugins.generic.config.rules import GenericConfig
from plugbay.values import dataclass


@dataclass(frozen=True, slots=True)
class GenericSettings:
    """The settings of a process.

    Attributes:
        load: reads the config that counts now, of file, flags and environment. It blocks, and raises OperatorError for
            one that is broken.
        file: the config file, whose changes are followed; None without one.
        root: of the machine's files, ``dev`` and ``sys`` among them.
        variables: the environment of commands.
        has_compat_metrics: whether the metrics of squat's plugin are shown too.
    """

    load: Callable[[], GenericConfig]
    file: Path | None = None
    root: Path = Path("/")
    variables: Mapping[str, str] = field(default_factory=dict)
    has_compat_metrics: bool = False
