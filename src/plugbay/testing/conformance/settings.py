"""The settings of a run: what is judged, how long the plugin may take, and how devices are made to change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Final

from plugbay.testing.conformance.subject.command import SubjectCommand
from plugbay.values import dataclass

READY_S: Final = 20.0
RETRY_S: Final = 35.0
"""NVIDIA's plugin tries again after 30 s, the longest pause of those that are widely used."""
JOBS: Final = 4


@dataclass(frozen=True, slots=True)
class ConformanceSettings:
    """Attributes:
    ready_timeout_s: the time that the plugin has from its start to its first list with a healthy device.
    retry_timeout_s: the time that it has to register again after something went wrong, and to list a change.
    jobs: so many scenes are played at a time, each with a plugin of its own.
    provoke: a shell command that makes a device appear, disappear, fail or recover; empty if there is none.
    resources: the resources to wait for at the start; empty to take those that come.
    environ: the environment of the plugin.
    places: the directory in which the roots are made; its path has to be short.
    """

    command: SubjectCommand
    ready_timeout_s: float = READY_S
    retry_timeout_s: float = RETRY_S
    jobs: int = JOBS
    provoke: str = ""
    resources: tuple[str, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    cdi_directories: tuple[Path, ...] = ()
    places: Path = Path("/tmp")

    @property
    def start_again_s(self) -> float:
        """The time for a plugin that starts, and has to find a kubelet that was away."""
        return max(self.ready_timeout_s, self.retry_timeout_s)
