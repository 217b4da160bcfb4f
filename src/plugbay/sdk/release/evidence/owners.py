"""The owners of devices, by what PodResources tells. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from plugbay.model.assignments import Owner
from plugbay.model.podresources import PodResources
from plugbay.sdk.release.uses import Use


def with_owners(use: Use, pods: Sequence[PodResources], *, as_of: float) -> Use:
    """Return ``use`` with the containers that have its devices; unchanged if ``pods`` do not tell of them.

    Args:
        as_of: when ``pods`` were asked for: from before the use began they tell which pod had the devices before.
    """
    if as_of <= use.since:
        return use
    owners = tuple(_owners(use, pods))
    return replace(use, owners=owners) if owners else use


def _owners(use: Use, pods: Sequence[PodResources]) -> Iterable[Owner]:
    for pod in pods:
        for container in pod.containers:
            held = {
                unit for devices in container.devices if devices.resource == use.resource for unit in devices.device_ids
            }
            if held & use.units.keys():
                yield Owner(namespace=pod.namespace, pod=pod.name, container=container.name, uid=use.pod)
