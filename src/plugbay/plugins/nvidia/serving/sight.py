"""One look at a machine: what the driver said, and the devices that follow from it and from what was seen before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from typing import Final

from plugbay.errors import DriverUnusable, PlugbayError
from plugbay.model.ids import ResourceName
from plugbay.plugins.nvidia.config.choices import DiscoveryStrategy
from plugbay.plugins.nvidia.config.configuration import Configuration
from plugbay.plugins.nvidia.devices.detection import GpuSource, Platform, PlatformSigns, SourceChoice, source_of
from plugbay.plugins.nvidia.devices.devices import NvidiaDevice, ResourceDevices, all_devices, device_map
from plugbay.plugins.nvidia.devices.node import NodeDevices, node_devices
from plugbay.plugins.nvidia.survey import MigMinors, Survey
from plugbay.values import dataclass

_AUTO: Final = DiscoveryStrategy.AUTO


@dataclass(frozen=True, slots=True)
class Sight:
    """A machine as it was seen.

    Attributes:
        survey: the driver's last answer; None if it never gave one.
        trouble: why the driver cannot be asked now.
        resources: the devices, those of lost GPUs included.
        lost: the problems of GPUs that the driver counts and does not describe any more, by UUID.
        without_nodes: the problems of devices whose device nodes are missing, by ID: no container can have them.
        places: the UUID that each index of a GPU had last: a lost GPU does not tell its UUID.
        gone: IDs of devices that do not exist any more, and are in ``resources`` because pods hold them.
        setback: the reason why nothing new can be offered now; None when it can.
    """

    choice: SourceChoice
    survey: Survey | None
    trouble: DriverUnusable | None
    minors: MigMinors
    node: NodeDevices
    resources: Mapping[ResourceName, ResourceDevices] = field(default_factory=dict)
    lost: Mapping[str, str] = field(default_factory=dict)
    places: Mapping[int, str] = field(default_factory=dict)
    without_nodes: Mapping[str, str] = field(default_factory=dict)
    gone: frozenset[str] = frozenset()
    setback: PlugbayError | None = None

    def devices(self) -> Iterator[NvidiaDevice]:
        for _, device in all_devices(self.resources):
            yield device

    @property
    def gpu_uuids(self) -> frozenset[str]:
        """The GPUs that the driver describes."""
        return frozenset(gpu.uuid for gpu in self.survey.gpus) if self.survey is not None else frozenset()

    def with_gone(self, devices: Iterable[tuple[ResourceName, NvidiaDevice]]) -> Sight:
        """The same, with devices that do not exist any more."""
        pairs = tuple(devices)
        resources = device_map((*all_devices(self.resources), *pairs)) if pairs else self.resources
        return replace(self, resources=resources, gone=frozenset(device.id for _, device in pairs))


def seen(
    configuration: Configuration,
    signs: PlatformSigns,
    answer: Survey | DriverUnusable,
    minors: MigMinors,
    before: Sight | None,
) -> Sight:
    """The machine after a look at it.

    While the driver cannot be asked, the devices stay those that were seen last. A GPU that the driver does not
    describe any more keeps its devices; one that it does not count any more is gone.

    Args:
        answer: the driver's, or why there is none.
        before: the look before this one, with the same configuration or another.
    """
    last = before.survey if before is not None else None
    survey = answer if isinstance(answer, Survey) else None
    trouble = answer if isinstance(answer, DriverUnusable) else None
    shown = survey if survey is not None else last
    choice = source_of(configuration.discovery_strategy, signs, shown)
    if before is not None and _hides_the_platform(survey, before) and configuration.discovery_strategy is _AUTO:
        choice = before.choice
    node = node_devices(configuration, choice.source, shown, minors)
    known = before.places if before is not None else {}
    lost = dict(_lost(survey, known)) if survey is not None else dict(before.lost if before is not None else {})
    pairs = list(all_devices(node.resources))
    names = {device.id for _, device in pairs}
    if before is not None:
        kept = ((name, each) for name, each in all_devices(before.resources) if each.gpu_uuid in lost)
        pairs += [(name, each) for name, each in kept if each.id not in names]
    if choice.source is GpuSource.TEGRA:
        trouble = None
    places = {**(before.places if before is not None else {}), **_places(survey)}
    return Sight(choice, shown, trouble, minors, node, device_map(pairs), lost, places)


def _hides_the_platform(survey: Survey | None, before: Sight) -> bool:
    """Whether a GPU is lost whose name may be what told the platform: a Tegra stays one without its GPU."""
    return survey is not None and bool(survey.unreadable) and before.choice.platform is Platform.TEGRA


def _places(survey: Survey | None) -> dict[int, str]:
    return {gpu.index: gpu.uuid for gpu in survey.gpus} if survey is not None else {}


def _lost(survey: Survey, places: Mapping[int, str]) -> Iterator[tuple[str, str]]:
    """The UUIDs of GPUs that cannot be described, as far as they are known, each with the problem."""
    present = {gpu.uuid for gpu in survey.gpus}
    for gpu in survey.unreadable:
        uuid = gpu.uuid or places.get(gpu.index, "")
        if uuid and uuid not in present:
            yield uuid, gpu.problem
