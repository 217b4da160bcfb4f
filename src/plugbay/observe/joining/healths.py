"""Join what the kubelet and a plugin say about a device's health. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from plugbay.observe.joining.claims import DeviceKey
from plugbay.observe.joining.offers import Offers
from plugbay.observe.view import DeviceHealth, HealthWord, Witness

_NOT_COUNTED: Final = "the kubelet does not count it among the healthy devices"


def joined_health(offers: Offers, key: DeviceKey) -> tuple[DeviceHealth, str]:
    """The health of a device, and what its plugin says against the kubelet; empty if nothing.

    The kubelet's word counts, since it decides what pods get; if the plugin agrees, its reason is known as well. To a
    kubelet a device of unknown health is unhealthy.
    """
    told, page = _of_kubelet(offers, key), offers.plugins.get(key)
    if page is None:
        return told or DeviceHealth(), ""
    if told is None or told.word is HealthWord.UNKNOWN:
        return page, ""
    if (told.word is HealthWord.HEALTHY) == (page.word is HealthWord.HEALTHY):
        return replace(page, reason=page.reason or told.reason), ""
    return told, f"its plugin says that it is {page}"


def _of_kubelet(offers: Offers, key: DeviceKey) -> DeviceHealth | None:
    if (told := offers.node.get(key)) is not None:
        return told
    resource, device = key
    healthy = offers.healthy.get(resource)
    if healthy is None:
        return None
    witness = Witness.CHECKPOINT if offers.by_checkpoint else Witness.POD_RESOURCES
    if device in healthy:
        return DeviceHealth(word=HealthWord.HEALTHY, witness=witness)
    return DeviceHealth(word=HealthWord.UNHEALTHY, message=_NOT_COUNTED, witness=witness)
