"""What a pod asks of its network, for CNI and before anything is made: pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from plugbay.cni.capabilities import bandwidth, port_mappings
from plugbay.cni.documents import Json
from plugbay.model.bandwidth import bandwidth_of
from plugbay.model.ports import ContainerPort


def capabilities_of(annotations: Mapping[str, str], ports: Iterable[ContainerPort]) -> dict[str, Json]:
    """The capability arguments that a pod's annotations and host ports come to.

    Args:
        ports: of the regular containers, in order; those without a host port do not count.

    Raises:
        InvalidBandwidth: an annotation is of no use; the pod should be refused before a sandbox is made, as some
            engines cannot even remove one that they made for it.
    """
    return port_mappings(ports) | bandwidth(bandwidth_of(annotations))
