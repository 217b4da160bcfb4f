"""Choose the devices that ``plugbay who`` was asked about. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from plugbay.cli.see.who_rows import DeviceUse
from plugbay.observe.view import HealthWord, ObservedNode
from plugbay.values import dataclass

_POD: Final = re.compile("(?:pods?|po)/(?P<name>.+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class WhoChoice:
    """The uses that are wanted; empty or None where all are.

    Attributes:
        words: resources, devices, paths of devices on the host, ``RESOURCE=DEVICE``, or ``pod/NAME``.
        namespace: None for all.
    """

    words: tuple[str, ...] = ()
    resources: frozenset[str] = frozenset()
    pods: frozenset[str] = frozenset()
    namespace: str | None = None
    containers: frozenset[str] = frozenset()
    numa: int | None = None
    only_unhealthy: bool = False

    def uses(self, uses: Iterable[DeviceUse]) -> list[DeviceUse]:
        return [use for use in uses if self._takes(use)]

    def unknown(self, view: ObservedNode, uses: Iterable[DeviceUse]) -> list[str]:
        """The words, and the names of options, that stand for nothing on this node, or in the namespace."""
        listed = list(uses)
        resources = {resource.name for resource in view.resources}
        held = [use for use in listed if use.holder and self.namespace in (None, use.holder.namespace)]
        pods = {name for use in held if use.holder for name in (use.holder.pod, use.holder.uid)}
        containers = {use.holder.container for use in held if use.holder}

        def is_known(word: str) -> bool:
            pod = _POD.fullmatch(word)
            return pod["name"] in pods if pod else word in resources or any(_means(word, use) for use in listed)

        words = [word for word in self.words if not is_known(word)]
        names = (self.resources - resources, self.pods - pods, self.containers - containers)
        return list(dict.fromkeys([*words, *(name for each in names for name in sorted(each))]))

    @property
    def only_pod(self) -> tuple[str, str] | None:
        """Namespace and name of the pod that is wanted, if it is one and nothing else."""
        pods = {*self.pods, *(found["name"] for word in self.words if (found := _POD.fullmatch(word)))}
        if self.namespace is None or len(pods) != 1 or not all(map(_POD.fullmatch, self.words)):
            return None
        return self.namespace, pods.pop()

    def _takes(self, use: DeviceUse) -> bool:
        holder, device = use.holder, use.device
        if self.words and not any(_means(word, use) for word in self.words):
            return False
        if self.resources and use.resource.name not in self.resources:
            return False
        if self.pods and (holder is None or not self.pods & {holder.pod, holder.uid}):
            return False
        if self.namespace is not None and (holder is None or holder.namespace != self.namespace):
            return False
        if self.containers and (holder is None or holder.container not in self.containers):
            return False
        if self.numa is not None and self.numa not in (device.numa_nodes or ()):
            return False
        return not (self.only_unhealthy and device.health.word is HealthWord.HEALTHY)


def _means(word: str, use: DeviceUse) -> bool:
    """Whether ``word`` stands for this device or its resource, or for the pod that holds it."""
    device = use.device
    if word in (use.resource.name, device.id, f"{use.resource.name}={device.id}") or word in device.host_paths:
        return True
    found = _POD.fullmatch(word)
    return found is not None and use.holder is not None and found["name"] in (use.holder.pod, use.holder.uid)
