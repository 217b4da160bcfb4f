"""The choice of what a trace shows."""

from __future__ import annotations

import pytest

from plugbay.errors import UsageError
from plugbay.testing.tracing.selection import selection_of
from plugbay.traffic.records import Party, TrafficEvent, TrafficRecord

GOPHER, OTHER = "example.com/gopher", "example.com/other"
ALLOCATE = "/v1beta1.DevicePlugin/Allocate"


def record(method: str = ALLOCATE, resource: str = GOPHER) -> TrafficRecord:
    return TrafficRecord(0.0, TrafficEvent.REQUEST, Party.KUBELET, 1, 1, resource, method)


@pytest.mark.parametrize(
    ("methods", "resources", "wanted"),
    [
        ([], [], [True, True, True]),
        (["allocate"], [], [True, True, False]),
        (["ListAndWatch"], [], [False, False, False]),
        ([], [GOPHER], [True, False, True]),
        (["Allocate", "Register"], [OTHER], [False, True, False]),
    ],
)
def test_methods_and_resources_are_chosen(methods: list[str], resources: list[str], wanted: list[bool]) -> None:
    selection = selection_of(methods, resources)
    connection = TrafficRecord(0.0, TrafficEvent.CONNECTED, Party.KUBELET, 1, resource=GOPHER)
    assert [selection.has(each) for each in (record(), record(resource=OTHER), connection)] == wanted


def test_unknown_method_is_told() -> None:
    with pytest.raises(UsageError, match='there is no method "Alocate"; choose from Register, '):
        selection_of(["Alocate"], [])
