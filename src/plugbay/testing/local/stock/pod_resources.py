"""The methods of PodResources that a stock kubelet does not have, or has switched off.

Source: `versions.QUIRKS`; the texts are those of ``pkg/kubelet/apis/podresources/server_v1.go``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from plugbay.errors import RpcCode, RpcFailed
from plugbay.manager.serving.podresources import Method
from plugbay.testing.local.stock.versions import Quirk

_REFUSALS: Final[Mapping[Quirk, tuple[Method, RpcCode, str]]] = {
    Quirk.NO_ALLOCATABLE_RESOURCES: (
        Method.GET_ALLOCATABLE,
        RpcCode.UNIMPLEMENTED,
        "unknown method GetAllocatableResources for service v1.PodResourcesLister",
    ),
    Quirk.ALLOCATABLE_RESOURCES_ARE_OFF: (
        Method.GET_ALLOCATABLE,
        RpcCode.UNKNOWN,
        "Pod Resources API GetAllocatableResources disabled",
    ),
    Quirk.NO_POD_RESOURCES_GET: (
        Method.GET,
        RpcCode.UNIMPLEMENTED,
        "unknown method Get for service v1.PodResourcesLister",
    ),
    Quirk.POD_RESOURCES_GET_IS_OFF: (Method.GET, RpcCode.UNKNOWN, "PodResources API Get method disabled"),
}


def refusals_of(quirks: Collection[Quirk]) -> Mapping[Method, RpcFailed]:
    """The error with which each method is answered that a kubelet with ``quirks`` does not serve."""
    found = (refusal for quirk, refusal in _REFUSALS.items() if quirk in quirks)
    return {method: RpcFailed(code, text) for method, code, text in found}
