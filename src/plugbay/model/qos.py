"""Quality of service classes of pods. Pure.

Source: kubelet 1.36 ``qos/qos.go``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from plugbay.model.pods import Container, Pod
from plugbay.model.quantity import Quantity

_RESOURCES: Final = ("cpu", "memory")


class QosClass(Enum):
    """The class of a pod by its requests and limits of ``cpu`` and ``memory``, spelled as in v1."""

    GUARANTEED = "Guaranteed"
    """Every container has limits for both, and requests equal to them."""
    BURSTABLE = "Burstable"
    BEST_EFFORT = "BestEffort"
    """No container requests or limits either."""


def qos_class(pod: Pod) -> QosClass:
    containers = pod.spec.all_containers
    if not any(_set_amounts(amounts) for each in containers for amounts in (each.requests, each.limits)):
        return QosClass.BEST_EFFORT
    return QosClass.GUARANTEED if all(map(_is_guaranteed, containers)) else QosClass.BURSTABLE


def _is_guaranteed(container: Container) -> bool:
    limits = _set_amounts(container.limits)
    return len(limits) == len(_RESOURCES) and limits == _set_amounts(container.requests)


def _set_amounts(amounts: Mapping[str, Quantity]) -> dict[str, Quantity]:
    return {name: amounts[name] for name in _RESOURCES if name in amounts and amounts[name].value > 0}
