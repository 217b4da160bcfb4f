"""What a view of a node concludes from its own values."""

from datetime import UTC, datetime

from plugbay.observe.view import (
    DeviceHealth,
    DeviceHolder,
    DeviceView,
    ExclusiveUse,
    ExclusiveView,
    HealthWord,
    ObservedNode,
    ReadingProblem,
    ResourceView,
    Witness,
)

HEALTHY = DeviceHealth(word=HealthWord.HEALTHY)
HOLDER = DeviceHolder(container="main", pod="web", namespace="default", uid="u1")


def test_held_and_releasing_devices_are_not_free() -> None:
    devices = (
        DeviceView(id="a", health=HEALTHY, holders=(HOLDER,)),
        DeviceView(id="b", health=HEALTHY, is_releasing=True),
        DeviceView(id="c", health=HEALTHY),
        DeviceView(id="d", health=DeviceHealth(word=HealthWord.UNHEALTHY), holders=(HOLDER,)),
    )
    resource = ResourceView(name="example.com/gpu", allocatable=3, devices=devices)
    assert (resource.allocated, resource.free) == (2, 1)
    assert ResourceView(name="example.com/gpu", devices=devices).free is None


def test_shared_pool_is_what_no_container_has_to_itself() -> None:
    uses = (ExclusiveUse(holder=HOLDER, cpus=(3, 2)),)
    assert ExclusiveView(allocatable_cpus=(0, 1, 2, 3), uses=uses).shared_cpus == (0, 1)
    assert ExclusiveView(allocatable_cpus=(0, 1)).shared_cpus is None


def test_a_view_is_partial_without_a_source_of_holders_only() -> None:
    view = ObservedNode(
        taken=datetime(2026, 1, 1, tzinfo=UTC), root="/k", problems=(ReadingProblem(Witness.PODS, "no pods"),)
    )
    assert not view.is_partial
    late = ReadingProblem(Witness.POD_RESOURCES, "no answer")
    assert ObservedNode(taken=view.taken, root="/k", problems=(late,)).is_partial


def test_a_pod_without_name_is_shown_by_its_uid() -> None:
    assert str(HOLDER) == "default/web/main"
    assert str(DeviceHolder(container="main", uid="u1")) == "u1/main"
