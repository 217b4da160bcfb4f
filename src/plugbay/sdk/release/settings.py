"""What the author of a plugin and its operator say about giving devices back."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

INTERVAL_S: Final = 30.0
DIRECTORY_NAME: Final = ".plugbay"
"""Below the kubelet's directory for plugins, which every plugin can write and every DaemonSet mounts. With a dot: a
kubelet counts the entries without one (spec 7.8)."""


class ReleasePolicy(Enum):
    """What to do with an Allocate for devices of which nobody can tell whether their last user is gone."""

    STRICT = "strict"
    """Refuse it: no container gets a device that was not released."""
    LAZY = "lazy"
    """Give the devices as they are, and say so in the log."""


class ReleaseSource(Enum):
    """Who says that a use of devices is over."""

    AUTO = "auto"
    """The kubelet if it promises to call PostStopContainer or Deallocate, or has done so; else its checkpoint."""
    KUBELET = "kubelet"
    """Only such calls."""
    SYNTHESISED = "synthesised"
    """Only the checkpoint; the kubelet is not asked for calls."""
    OFF = "off"
    """Nobody: the hooks are never called."""

    @property
    def takes_calls(self) -> bool:
        return self in (ReleaseSource.AUTO, ReleaseSource.KUBELET)

    @property
    def reads_checkpoints(self) -> bool:
        return self in (ReleaseSource.AUTO, ReleaseSource.SYNTHESISED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseSettings:
    """
    Attributes:
        interval_s: how often to look for uses that are over, while there are any. Each time the kubelet is asked for
            the list of its pods, which has a price: see `plugbay.kubelet.podresources`.
        directory: of the journals; None for `DIRECTORY_NAME` in the kubelet's directory for plugins.
    """

    source: ReleaseSource = ReleaseSource.AUTO
    interval_s: float = INTERVAL_S
    directory: Path | None = None


DEFAULT_RELEASE: Final = ReleaseSettings()
