"""Requests and limits of a container as numbers in text: v1's ``resourceFieldRef``. Pure.

Source: Kubernetes 1.36 ``pkg/api/v1/resource/helpers.go``, ``ExtractContainerResourceValue``,
``MergeContainerResourceLimits``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from plugbay.model.pods import Container
from plugbay.model.projections import ResourceReference
from plugbay.model.quantity import Quantity

_CPU: Final = "cpu"
_NOTHING: Final = Quantity(Fraction(0))


def resource_text(reference: ResourceReference, container: Container, *, capacity: Mapping[str, int]) -> str:
    """The amount that ``reference`` names, in units of its divisor, rounded up.

    Args:
        capacity: of the node, which stands in for a limit that is missing: cpu in thousandths.
    """
    side, _, name = reference.resource.partition(".")
    amount = (container.limits if side == "limits" else container.requests).get(name, _NOTHING)
    value = amount.value
    if side == "limits" and not value and name in capacity:
        value = Fraction(capacity[name], 1000 if name == _CPU else 1)
    return str(math.ceil(value / reference.divisor.value))
