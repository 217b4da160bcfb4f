"""Any machine and any configuration: no device is lost without a word, and none is offered twice."""

from __future__ import annotations

from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from plugbay.plugins.nvidia.config.choices import Dialect, MigStrategy
from plugbay.plugins.nvidia.config.configuration import Configuration
from plugbay.plugins.nvidia.devices.detection import GpuSource
from plugbay.plugins.nvidia.devices.devices import DeviceKind, all_devices, physical_of
from plugbay.plugins.nvidia.devices.node import NodeDevices, node_devices
from plugbay.plugins.nvidia.survey import (
    Gpu,
    GpuUuid,
    MigAttributes,
    MigDevice,
    MigMinors,
    MigMode,
    MigProfile,
    MigUuid,
    Survey,
    UnreadableGpu,
)
from tests.unit.plugins.nvidia.golden_machines import configured

PROFILES = [MigProfile(1, 1, 5), MigProfile(1, 1, 5, "+me"), MigProfile(3, 3, 20), MigProfile(1, 3, 20)]


def mig_device(uuid: GpuUuid, index: int, slot: int, profile: MigProfile | None) -> MigDevice:
    """A MIG device whose attributes are those of its profile."""
    kind = -1 if profile is None else PROFILES.index(profile)
    return MigDevice(slot, MigUuid(f"MIG-{index}-{slot}"), uuid, slot, 0, profile, MigAttributes(kind, 14, 1, 1))


@st.composite
def gpus(draw: st.DrawFn, index: int) -> Gpu:
    uuid = GpuUuid(f"GPU-{index}")
    profiles = draw(st.lists(st.sampled_from([*PROFILES, None]), max_size=3))
    devices = tuple(mig_device(uuid, index, slot, profile) for slot, profile in enumerate(profiles))
    is_enabled = draw(st.booleans())
    return Gpu(
        index=index,
        minor=index,
        uuid=uuid,
        name=draw(st.sampled_from(["NVIDIA A100-SXM4-40GB", "Tesla T4", "DGX Display"])),
        pci_bus_id=f"0000:{index:02x}:00.0",
        memory_bytes=40 << 30,
        compute_capability=(8, 0),
        mig=MigMode(is_enabled, is_enabled) if draw(st.booleans()) else None,
        mig_devices=devices,
        mig_profiles=tuple(PROFILES[:3]),
    )


@st.composite
def surveys(draw: st.DrawFn) -> Survey:
    number = draw(st.integers(0, 4))
    lost = tuple(UnreadableGpu(number + index, "GPU is lost", 15) for index in range(draw(st.integers(0, 1))))
    return Survey("550.54.15", (12, 4), tuple(draw(gpus(index)) for index in range(number)), lost)


@st.composite
def configurations(draw: st.DrawFn) -> Configuration:
    strategy = draw(st.sampled_from(MigStrategy)).value
    entries = draw(
        st.lists(
            st.tuples(
                st.sampled_from(["gpu", "mig-1g.5gb", "mig-3g.20gb", "a100"]),
                st.integers(2, 5),
                st.sampled_from(["all", "1", "2", "[0]", "[1, '0:1']"]),
                st.sampled_from(["", ", rename: slice"]),
            ),
            max_size=3,
        )
    )
    listed = ", ".join(f"{{name: {n}, replicas: {r}, devices: {d}{rename}}}" for n, r, d, rename in entries)
    config = f"sharing: {{timeSlicing: {{resources: [{listed}]}}}}\n" if entries else ""
    if draw(st.booleans()):
        config += "resources: {gpus: [{pattern: '*A100*', name: a100}], mig: [{pattern: '1c.*', name: half}]}\n"
    return configured([f"--mig-strategy={strategy}"], config=config, dialect=draw(st.sampled_from(Dialect)))


@st.composite
def minors_of(draw: st.DrawFn) -> MigMinors:
    known = [(gpu, instance) for gpu in range(5) for instance in range(4) if draw(st.booleans()) or gpu % 2]
    return MigMinors(dict.fromkeys(known, 3), {(*key, 0): 4 for key in known})


@given(surveys(), configurations(), minors_of())
def test_every_device_is_offered_once_or_a_problem_or_warning_tells(
    survey: Survey, configuration: Configuration, minors: MigMinors
) -> None:
    node = node_devices(configuration, GpuSource.NVML, survey, minors)
    offered = [device.id for _, device in all_devices(node.resources)]
    assert len(set(offered)) == len(offered)
    expected = set(offerable(survey, configuration.mig_strategy))
    assert set(offered) <= expected
    if expected - set(offered) or survey.unreadable:
        assert node.problems
    check_lists(node)


def offerable(survey: Survey, strategy: MigStrategy) -> list[str]:
    """The devices of a machine that is in order."""
    found: list[str] = []
    for gpu in survey.gpus:
        if gpu.is_display:
            continue
        if strategy is MigStrategy.NONE or not gpu.is_mig_enabled:
            found.append(gpu.uuid)
        else:
            found += [device.uuid for device in gpu.mig_devices]
    return found


def check_lists(node: NodeDevices) -> None:
    listed = list(chain.from_iterable(resource.listed_ids() for resource in node.resources.values()))
    assert len(set(listed)) == len(listed)
    assert sorted(node.resources) == list(node.resources)
    for name, resource in node.resources.items():
        assert resource.name == name
        assert resource.devices
        assert all(resource.device(each) is resource.devices[physical_of(each)] for each in resource.listed_ids())
        for device in resource.devices.values():
            assert len(device.paths) == (3 if device.kind is DeviceKind.MIG else 1)


@given(surveys(), configurations(), minors_of())
def test_order_of_gpus_does_not_count(survey: Survey, configuration: Configuration, minors: MigMinors) -> None:
    backwards = Survey(survey.driver_version, survey.cuda_driver_version, survey.gpus[::-1], survey.unreadable)
    one = node_devices(configuration, GpuSource.NVML, survey, minors)
    other = node_devices(configuration, GpuSource.NVML, backwards, minors)
    assert one.resources == other.resources
    assert set(one.problems) == set(other.problems)
    assert [list(each.devices) for each in one.resources.values()] == [
        list(each.devices) for each in other.resources.values()
    ]
