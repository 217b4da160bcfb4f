"""The scenarios of Allocate, by their numbers in the specification of NVIDIA's plugin (section 10)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, combinations
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.errors import AllocationError
from plugbay.model.edits import ContainerEdits
from plugbay.plugins.nvidia.answers.answering import MOUNTED_DEVICES, VISIBLE_DEVICES, answer
from plugbay.plugins.nvidia.answers.features import NO_FEATURES, CdiClass, ImexChannel, NodeFeatures
from plugbay.plugins.nvidia.answers.requests import requested_devices
from plugbay.plugins.nvidia.config.choices import DeviceListStrategy
from plugbay.plugins.nvidia.config.resource_names import GPU
from plugbay.plugins.nvidia.config.sharing import SharedResource, SharedResources, SharingSettings
from plugbay.plugins.nvidia.devices.detection import GpuSource
from plugbay.plugins.nvidia.devices.devices import DeviceKind, NvidiaDevice, ResourceDevices
from plugbay.plugins.nvidia.devices.node import node_devices
from tests.unit.plugins.nvidia.golden_machines import configured, machine, minors

CONTROL: Final = ("/dev/nvidiactl", "/dev/nvidia-uvm")
EVERYTHING: Final = NodeFeatures(
    CONTROL, (ImexChannel(0),), frozenset({CdiClass.GDRCOPY, CdiClass.GDS, CdiClass.MOFED})
)
SLICED: Final = "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 3}]}}"
MPS: Final = "sharing: {mps: {renameByDefault: true, resources: [{name: gpu, replicas: 3}]}}"
SETS: Final = list(chain.from_iterable(combinations(DeviceListStrategy, size) for size in range(1, 5)))


def resource_of(*names: str, replicas: int = 1) -> ResourceDevices:
    devices = (
        NvidiaDevice(name, str(index), DeviceKind.GPU, name, paths=(f"/dev/nvidia{index}",), replicas=replicas)
        for index, name in enumerate(names)
    )
    return ResourceDevices(GPU, {device.id: device for device in devices})


def allocated(
    resource: ResourceDevices,
    ids: Sequence[str],
    *arguments: str,
    config: str | None = None,
    features: NodeFeatures = NO_FEATURES,
) -> ContainerEdits:
    configuration = configured(arguments, config=config)
    devices = requested_devices(resource, ids, configuration.sharing)
    return answer(resource.name, devices, configuration, features, unique="unique")


def node_of(name: str, *arguments: str, config: str | None = None) -> ResourceDevices:
    node = node_devices(configured(arguments, config=config), GpuSource.NVML, machine(name), minors())
    [resource] = node.resources.values()
    return resource


@pytest.mark.parametrize(
    ("ids", "value"), [(["foo"], "foo"), (["foo", "bar", "foo"], "foo,bar"), (["bar", "foo"], "bar,foo")]
)
def test_74_ids_in_the_order_of_the_request(ids: list[str], value: str) -> None:
    assert allocated(resource_of("foo", "bar"), ids) == ContainerEdits({VISIBLE_DEVICES: value})


def test_75_two_replicas_of_one_gpu() -> None:
    resource = node_of("two-a100", config=SLICED)
    uuid = machine("two-a100").gpus[0].uuid
    assert allocated(resource, [f"{uuid}::0", f"{uuid}::2"], config=SLICED).env == {VISIBLE_DEVICES: uuid}


@pytest.mark.parametrize("config", [None, SLICED])
@pytest.mark.parametrize("unknown", ["nope", "", "nope::0"])
def test_76_unknown_id(config: str | None, unknown: str) -> None:
    resource = node_of("two-a100", config=config)
    known = resource.listed_ids()[0]
    with pytest.raises(AllocationError) as raised:
        allocated(resource, [known, unknown], config=config)
    problem = f'invalid allocation request for "nvidia.com/gpu": invalid request: unknown device: {unknown}'
    assert str(raised.value) == problem


@pytest.mark.parametrize("way", ["time_slicing", "mps"])
@pytest.mark.parametrize("fails", [True, False, None])
def test_77_requests_over_one(way: str, fails: bool | None) -> None:
    shared = SharedResources((SharedResource(GPU, 2),), fails_requests_over_one=fails)
    sharing = SharingSettings(shared) if way == "time_slicing" else SharingSettings(mps=shared)
    resource = resource_of("foo", "bar", replicas=2)
    assert len(requested_devices(resource, ["foo::0"], sharing)) == 1
    if fails:
        with pytest.raises(AllocationError, match=r"maximum request size for shared resources is 1; found 2$"):
            requested_devices(resource, ["foo::0", "bar::1"], sharing)
    else:
        assert len(requested_devices(resource, ["foo::0", "bar::1"], sharing)) == 2
    assert len(requested_devices(resource_of("foo", "bar"), ["foo", "bar"], sharing)) == 2, "these are no replicas"


def test_78_no_ids() -> None:
    assert allocated(resource_of("foo"), []) == ContainerEdits({VISIBLE_DEVICES: ""})


def test_79_volume_mounts() -> None:
    strategy = "--device-list-strategy=volume-mounts"
    both = "--device-list-strategy=envvar,volume-mounts"
    for arguments in ([strategy], [both]):
        edits = allocated(resource_of("foo", "bar"), ["bar", "foo"], *arguments, features=EVERYTHING)
        assert edits.env[VISIBLE_DEVICES] == MOUNTED_DEVICES
        assert [(mount.host_path, mount.container_path) for mount in edits.mounts] == [
            ("/dev/null", f"{MOUNTED_DEVICES}/{name}") for name in ("bar", "foo", "imex/0")
        ]
        assert ("NVIDIA_IMEX_CHANNELS" in edits.env) == (arguments == [both])


def test_80_device_specs_below_a_dev_root() -> None:
    edits = allocated(resource_of("foo"), ["foo"], "--pass-device-specs", "--dev-root=/host", features=EVERYTHING)
    assert [(node.host_path, node.container_path, node.permissions) for node in edits.device_nodes] == [
        (f"/host{path}", path, "rw") for path in (*CONTROL, "/dev/nvidia0", "/dev/nvidia-caps-imex-channels/channel0")
    ]


@pytest.mark.parametrize(
    ("kind", "paths", "named"),
    [
        (DeviceKind.GPU, ("/dev/nvidia0",), [*CONTROL, "/dev/nvidia0"]),
        (DeviceKind.WSL, ("/dev/dxg",), ["/dev/dxg"]),
        (DeviceKind.TEGRA, (), []),
    ],
)
def test_80_control_nodes_are_for_gpus(kind: DeviceKind, paths: tuple[str, ...], named: list[str]) -> None:
    resource = ResourceDevices(GPU, {"all": NvidiaDevice("all", "all", kind, paths=paths)})
    edits = allocated(resource, ["all"], "--pass-device-specs", features=NodeFeatures(CONTROL))
    assert [node.container_path for node in edits.device_nodes] == named


def test_81_device_specs_of_two_replicas_name_the_node_once() -> None:
    """The reference names it twice."""
    resource = node_of("two-a100", config=SLICED)
    ids = resource.listed_ids()[:2]
    edits = allocated(resource, ids, "--pass-device-specs", config=SLICED)
    assert [node.container_path for node in edits.device_nodes] == ["/dev/nvidia0"]


def test_82_device_specs_of_three_mig_devices() -> None:
    resource = node_of("mig-3x1g", "--mig-strategy=single")
    edits = allocated(resource, resource.listed_ids(), "--mig-strategy=single", "--pass-device-specs")
    caps = [f"/dev/nvidia-caps/nvidia-cap{minor}" for gi in (66, 75, 84) for minor in (gi, gi + 1)]
    assert [node.host_path for node in edits.device_nodes] == ["/dev/nvidia0", *caps]


def test_83_dev_root_is_the_driver_root_by_default() -> None:
    edits = allocated(resource_of("foo"), ["foo"], "--pass-device-specs", "--driver-root=/run/nvidia/driver/")
    assert [node.host_path for node in edits.device_nodes] == ["/run/nvidia/driver/dev/nvidia0"]


@pytest.mark.parametrize(
    ("root", "on_host"),
    [
        ("/host/", "/host/dev/nvidia0"),
        ("/a/../b//", "/b/dev/nvidia0"),
        ("//host", "/host/dev/nvidia0"),
        ("rel/./x", "rel/x/dev/nvidia0"),
    ],
)
def test_paths_of_the_host_are_written_the_short_way(root: str, on_host: str) -> None:
    edits = allocated(resource_of("foo"), ["foo"], "--pass-device-specs", f"--dev-root={root}")
    assert [node.host_path for node in edits.device_nodes] == [on_host]


def test_paths_of_mps_are_written_the_short_way() -> None:
    edits = allocated(resource_of("foo", replicas=3), ["foo::0"], "--mps-root=/x//y/", config=MPS)
    assert [mount.host_path for mount in edits.mounts] == ["/x/y/nvidia.com/gpu/pipe", "/x/y/shm"]


@pytest.mark.parametrize(
    ("ids", "value"),
    [
        ([], None),
        (["foo"], "k8s.device-plugin.nvidia.com/gpu=foo"),
        (["foo", "bar"], "k8s.device-plugin.nvidia.com/gpu=foo,k8s.device-plugin.nvidia.com/gpu=bar"),
    ],
)
def test_84_annotations(ids: list[str], value: str | None) -> None:
    strategy = "--device-list-strategy=cdi-annotations"
    edits = allocated(resource_of("foo", "bar"), ids, strategy)
    assert edits == ContainerEdits(annotations={"cdi.k8s.io/nvidia-device-plugin_unique": value} if value else {})
    prefixed = allocated(resource_of("foo"), ["foo"], strategy, "--cdi-annotation-prefix=example.com/")
    assert list(prefixed.annotations) == ["example.com/nvidia-device-plugin_unique"]


def test_85_additional_devices() -> None:
    arguments = ("--device-list-strategy=cdi-cri", "--gds-enabled", "--mofed-enabled", "--gdrcopy-enabled")
    additional = ("imex-channel=0", "gdrcopy=all", "gds=all", "mofed=all")
    for ids in ([], ["bar", "foo"]):
        edits = allocated(resource_of("foo", "bar"), ids, *arguments, features=EVERYTHING)
        names = (*(f"gpu={each}" for each in ids), *additional)
        assert edits.cdi_devices == tuple(f"k8s.device-plugin.nvidia.com/{name}" for name in names)
    only_gds = replace(EVERYTHING, optional_classes=frozenset({CdiClass.GDS}), imex_channels=())
    assert allocated(resource_of("foo"), [], *arguments, features=only_gds).cdi_devices == (
        "k8s.device-plugin.nvidia.com/gds=all",
    )


def test_86_cdi_cri_with_device_specs_and_gds() -> None:
    arguments = ("--device-list-strategy=cdi-cri", "--pass-device-specs", "--gds-enabled")
    edits = allocated(resource_of("foo"), ["foo"], *arguments, features=NodeFeatures(CONTROL))
    assert edits == ContainerEdits({"NVIDIA_GDS": "enabled"}, cdi_devices=["k8s.device-plugin.nvidia.com/gpu=foo"])


def test_87_three_strategies_with_device_specs() -> None:
    arguments = ("--device-list-strategy=envvar,cdi-cri,cdi-annotations", "--pass-device-specs")
    edits = allocated(resource_of("foo"), ["foo"], *arguments)
    name = "k8s.device-plugin.nvidia.com/gpu=foo"
    assert edits.env == {VISIBLE_DEVICES: "foo"}
    assert edits.cdi_devices == (name,)
    assert list(edits.annotations.values()) == [name]
    assert len(edits.device_nodes) == 1


def test_88_index_strategy_with_cdi_and_mig() -> None:
    arguments = ("--mig-strategy=single", "--device-id-strategy=index", "--device-list-strategy=cdi-cri")
    resource = node_of("mig-3x1g", *arguments)
    edits = allocated(resource, tuple(reversed(resource.listed_ids())), *arguments)
    assert edits.cdi_devices == tuple(f"k8s.device-plugin.nvidia.com/gpu=0:{slot}" for slot in range(3))


def test_indices_are_in_their_own_order() -> None:
    resource = resource_of(*(f"gpu{number}" for number in range(12)))
    edits = allocated(resource, ["gpu10", "gpu2", "gpu9", "gpu2"], "--device-id-strategy=index")
    assert edits.env[VISIBLE_DEVICES] == "2,9,10"


def test_mps_gives_the_pipe_and_the_shared_memory_of_its_daemon() -> None:
    resource = node_of("two-a100", config=SLICED)
    shared = replace(resource, name="nvidia.com/gpu.shared")  # type: ignore[arg-type]
    edits = allocated(shared, [shared.listed_ids()[0]], "--mps-root=/run/nvidia/mps/", config=MPS)
    assert edits.env["CUDA_MPS_PIPE_DIRECTORY"] == "/mps/nvidia.com/gpu.shared/pipe"
    assert [(mount.host_path, mount.container_path) for mount in edits.mounts] == [
        ("/run/nvidia/mps/nvidia.com/gpu.shared/pipe", "/mps/nvidia.com/gpu.shared/pipe"),
        ("/run/nvidia/mps/shm", "/dev/shm"),
    ]
    whole = allocated(resource_of("foo"), ["foo"], "--mps-root=/run/nvidia/mps", config=MPS)
    assert whole == ContainerEdits({VISIBLE_DEVICES: "foo"})


def test_tegra_has_no_control_nodes() -> None:
    tegra = ResourceDevices(GPU, {"tegra": NvidiaDevice("tegra", "0", DeviceKind.TEGRA)})
    edits = allocated(tegra, ["tegra"], "--pass-device-specs", features=NodeFeatures(CONTROL))
    assert edits == ContainerEdits({VISIBLE_DEVICES: "tegra"})


@pytest.mark.parametrize("strategies", SETS, ids=lambda each: ",".join(strategy.value for strategy in each))
@given(
    ids=st.lists(st.sampled_from(["foo", "bar", "baz"]), max_size=4),
    passes=st.booleans(),
    by_index=st.booleans(),
    extras=st.booleans(),
)
def test_every_combination_of_strategies(
    strategies: tuple[DeviceListStrategy, ...], ids: list[str], passes: bool, by_index: bool, extras: bool
) -> None:
    """Each strategy adds its part, whatever the others are, and the order of the strategies does not count."""
    words = [strategy.value for strategy in strategies]
    arguments = [f"--pass-device-specs={passes}", f"--device-id-strategy={'index' if by_index else 'uuid'}"]
    features = EVERYTHING if extras else NO_FEATURES
    resource = resource_of("foo", "bar", "baz")
    edits, backwards = (
        allocated(resource, ids, f"--device-list-strategy={','.join(order)}", *arguments, features=features)
        for order in (words, words[::-1])
    )
    assert edits == backwards
    names = [str(each) for each in sorted({"foo": 0, "bar": 1, "baz": 2}[name] for name in set(ids))]
    names = names if by_index else list(dict.fromkeys(ids))
    cdi = [f"k8s.device-plugin.nvidia.com/gpu={name}" for name in names]
    cdi += ["k8s.device-plugin.nvidia.com/imex-channel=0"] if extras else []
    has = set(strategies).__contains__
    assert edits.cdi_devices == (tuple(cdi) if has(DeviceListStrategy.CDI_CRI) else ())
    assert list(edits.annotations.values()) == (
        [",".join(cdi)] if cdi and has(DeviceListStrategy.CDI_ANNOTATIONS) else []
    )
    mounted = names + (["imex/0"] if extras else []) if has(DeviceListStrategy.VOLUME_MOUNTS) else []
    assert [mount.container_path for mount in edits.mounts] == [f"{MOUNTED_DEVICES}/{name}" for name in mounted]
    if has(DeviceListStrategy.VOLUME_MOUNTS):
        assert edits.env[VISIBLE_DEVICES] == MOUNTED_DEVICES
    elif has(DeviceListStrategy.ENVVAR):
        assert edits.env[VISIBLE_DEVICES] == ",".join(names)
    else:
        assert edits.env == {}
    is_legacy = has(DeviceListStrategy.ENVVAR) or has(DeviceListStrategy.VOLUME_MOUNTS)
    nodes = [node.container_path for node in edits.device_nodes]
    assert len(set(nodes)) == len(nodes)
    assert bool(nodes) == (passes and is_legacy and (extras or bool(ids)))
