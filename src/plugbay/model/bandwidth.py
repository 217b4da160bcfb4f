"""Limits of a pod's network bandwidth, from its annotations. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from plugbay.errors import InvalidBandwidth, InvalidQuantity
from plugbay.model.quantity import Quantity
from plugbay.values import dataclass

INGRESS: Final = "kubernetes.io/ingress-bandwidth"
"""Annotation for traffic into the pod."""
EGRESS: Final = "kubernetes.io/egress-bandwidth"

MIN_RATE: Final = 10**3
MAX_RATE: Final = 10**15


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """Rates in whole bits per second; 0 means no limit. ``ingress`` is traffic into the pod."""

    ingress: int = 0
    egress: int = 0


def bandwidth_of(annotations: Mapping[str, str]) -> Bandwidth | None:
    """Read the limits from a pod's annotations; None when there are none.

    A fraction of a bit is rounded up.

    Raises:
        InvalidBandwidth: the value is not a quantity, or outside of the range that engines take: 1k to 1P.

    Source: Kubernetes 1.36 ``util/bandwidth``, containerd 1.7 ``cri/sbserver/helpers.go``.
    """
    if INGRESS not in annotations and EGRESS not in annotations:
        return None
    return Bandwidth(*(_rate(name, annotations[name]) if name in annotations else 0 for name in (INGRESS, EGRESS)))


def _rate(annotation: str, text: str) -> int:
    try:
        amount = Quantity.parse(text)
    except InvalidQuantity as error:
        raise InvalidBandwidth(annotation, text, error.problem) from error
    rate = amount.to_int_ceil()
    if rate < MIN_RATE:
        raise InvalidBandwidth(annotation, text, "is unreasonably small (< 1kbit)")
    if rate > MAX_RATE:
        raise InvalidBandwidth(annotation, text, "is unreasonably large (> 1Pbit)")
    return rate
