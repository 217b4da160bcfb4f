"""Settings about giving devices back: a plugin author's, and its operator's."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from plugbay.values import dataclass

if TYPE_CHECKING:
    from pathlib import Path

INTERVAL_S: Final = 30.0
DIRECTORY_NAME: Final = ".plugbay"
"""The directory of journals, in the kubelet's directory for plugins: every plugin can write there and every DaemonSet
mounts it. Its name has a dot, since a kubelet counts the entries without one (spec 7.8).
"""


class ReleasePolicy(Enum):
    """The answer to an Allocate for devices while nothing shows that they are released.

    With either policy, a use that is known to be over is released before its devices are given again, an Allocate that
    cannot be written down is refused, and a container starts after `post_stop` of the one before it in its pod.
    """

    STRICT = "strict"
    """Refuse it: no pod gets a device that was not released. Its pod fails, and a controller makes another one."""
    LAZY = "lazy"
    """Give the devices as they are, and say so in the log. They are released once all pods that got them have ended.

    It also gives devices whose `release` failed, and those of a pod that is still being stopped. A container that
    starts with them after another one of its pod waits until it shows that no other pod has them, or never will.
    """


class ReleaseSource(Enum):
    """The source that says when a use of devices is over."""

    AUTO = "auto"
    """The kubelet if it promises to call PostStopContainer or Deallocate, or has done so; else its checkpoint."""
    KUBELET = "kubelet"
    """Calls of the kubelet only."""
    SYNTHESISED = "synthesised"
    """The checkpoint only; the kubelet is not asked for calls."""
    OFF = "off"
    """Ends are not looked for: the hooks are never called."""

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
        interval_s: how often to look for uses that are over, while there are any.
        asks: whether to ask any kubelet for the list of its pods each time: without it, a stock kubelet notices that a
            pod has ended when the next one with devices comes, and does not tell the names of pods. It has a price: the
            kubelet may give a device to two pods, of any plugin, see `plugbay.kubelet.podresources`.
        directory: of the journals; None for `DIRECTORY_NAME` in the kubelet's directory for plugins.
    """

    source: ReleaseSource = ReleaseSource.AUTO
    interval_s: float = INTERVAL_S
    asks: bool = False
    directory: Path | None = None


DEFAULT_RELEASE: Final = ReleaseSettings()
