"""The context in which all parts of this room work, for one resource."""

from __future__ import annotations

import asyncio

from plugbay.model.ids import ResourceName
from plugbay.sdk.author.plugin import DevicePlugin, offers
from plugbay.sdk.author.release_settings import ReleasePolicy
from plugbay.sdk.release.evidence.evidence import Evidence
from plugbay.sdk.release.evidence.pod_lists import Shared
from plugbay.sdk.release.ledger.ledger import Ledger
from plugbay.values import dataclass


class NextLook:
    """Calls for a look at what is in use before its interval is over.

    Attributes:
        stirred: is set when a use may have begun or ended, or when a look is urgent.
        is_urgent: whether to look soon: a kubelet has restarted, or a reading did not count.
    """

    def __init__(self) -> None:
        self.stirred = asyncio.Event()
        self.is_urgent = False

    def make_urgent(self) -> None:
        self.is_urgent = True
        self.stirred.set()


@dataclass(frozen=True, slots=True)
class Context:
    """The ledger of one resource and the evidence about its uses.

    Attributes:
        shared: what the plugins of this process share.
    """

    plugin: DevicePlugin
    resource: ResourceName
    ledger: Ledger
    evidence: Evidence
    shared: Shared
    next_look: NextLook

    @property
    def releases(self) -> bool:
        """Whether the author wrote ``release()``; without it there is nothing to do before a device is given again."""
        return offers(self.plugin, "release")

    @property
    def hears_stops(self) -> bool:
        """Whether the plugin is told when a container ends."""
        return offers(self.plugin, "post_stop")

    @property
    def is_strict(self) -> bool:
        """Whether no device may be given before its release."""
        return is_strict(self.plugin)


def is_strict(plugin: DevicePlugin) -> bool:
    """Whether ``plugin`` insists on the release of a device before the device is given again."""
    return plugin.release_policy is ReleasePolicy.STRICT and offers(plugin, "release")
