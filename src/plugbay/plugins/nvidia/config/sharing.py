"""Sharing of devices between containers, as the configuration says it. Pure.

Source: k8s-device-plugin 0.20 ``api/config/v1/{sharing,replicas}.go``; spec 1.4.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from plugbay.model.ids import ResourceName
from plugbay.model.sharing import MAX_REPLICAS
from plugbay.plugins.nvidia.config.choices import SharingStrategy
from plugbay.plugins.nvidia.config.fields import FieldValue, NameCase, Page, Section
from plugbay.plugins.nvidia.config.resource_names import parse_gpu_resource, shared_name
from plugbay.plugins.nvidia.config.selections import ALL_DEVICES, DeviceSelection, read_selection
from plugbay.values import dataclass

_SHARED_FIELDS: Final = ("renameByDefault", "failRequestsGreaterThanOne", "resources")
_RESOURCE_FIELDS: Final = ("name", "replicas", "rename", "devices")
_MIN_REPLICAS: Final = 2
_REPLICAS: Final = f"integers from {_MIN_REPLICAS} to {MAX_REPLICAS}"


@dataclass(frozen=True, slots=True)
class SharedResource:
    """A resource whose devices are replicated.

    Attributes:
        name: of the devices; a resource that the node does not have is skipped.
        replicas: of each device, from 2 on.
        rename: the resource of the replicas; None for ``name``.
        devices: those that are replicated; the others stay as they are.
    """

    name: ResourceName
    replicas: int
    rename: ResourceName | None = None
    devices: DeviceSelection = ALL_DEVICES

    @property
    def registered_name(self) -> ResourceName:
        return self.rename or self.name


@dataclass(frozen=True, slots=True)
class SharedResources:
    """The resources that are shared in one way.

    Attributes:
        fails_requests_over_one: whether Allocate refuses a container more than one replica; None when it is not said.
        resources: at least one.
    """

    resources: tuple[SharedResource, ...]
    rename_by_default: bool = False
    fails_requests_over_one: bool | None = None


@dataclass(frozen=True, slots=True)
class SharingSettings:
    """How devices are shared.

    Attributes:
        time_slicing, mps: None when the configuration does not name them; with both, MPS is used.
    """

    time_slicing: SharedResources | None = None
    mps: SharedResources | None = None

    @property
    def strategy(self) -> SharingStrategy:
        if self.mps is not None:
            return SharingStrategy.MPS
        return SharingStrategy.NONE if self.time_slicing is None else SharingStrategy.TIME_SLICING

    @property
    def active(self) -> SharedResources | None:
        """The resources that are shared, in the way that is used."""
        return self.mps or self.time_slicing

    @property
    def fails_requests_over_one(self) -> bool:
        """Whether Allocate refuses a container more than one replica."""
        return self.active is not None and bool(self.active.fails_requests_over_one)


def united(resources: Iterable[SharedResource]) -> tuple[SharedResource, ...]:
    """One entry of each name, as NVIDIA's plugin combines several: that with the most replicas."""
    by_name: dict[ResourceName, SharedResource] = {}
    for each in resources:
        before = by_name.get(each.name, each)
        by_name[each.name] = max(before, each, key=lambda entry: entry.replicas)
    return tuple(by_name.values())


NO_SHARING: Final = SharingSettings()


def read_sharing(node: FieldValue | None) -> SharingSettings:
    """Read the field ``sharing``.

    Raises:
        InvalidNvidiaConfig: at the first field that is wrong.
    """
    if node is None:
        return NO_SHARING
    section = node.section(("timeSlicing", "mps"))
    mps, time_slicing = _read_mps(section), _read_shared(section, "timeSlicing")
    if mps is not None and mps.fails_requests_over_one is None:
        mps = replace(mps, fails_requests_over_one=True)
    return SharingSettings(time_slicing, mps)


def _read_mps(section: Section) -> SharedResources | None:
    if section.page.is_lenient and section.has("mps") and section.get("mps") is None:
        section.page.warn((*section.path, "mps"), "null shares nothing by MPS")
        return None
    return _read_shared(section, "mps")


def _read_shared(section: Section, name: str) -> SharedResources | None:
    if not section.has(name):
        return None
    node = section.get(name)
    if node is None:  # null is an empty mapping
        raise section.error("no resources specified", name, "a mapping with a list of resources")
    shared = node.section(_SHARED_FIELDS, case=NameCase.EXACT)
    listed = shared.get("resources")
    items = listed.items() if listed is not None else []
    if not items:
        raise shared.error("no resources specified", "resources", "a list of at least one resource")
    resources = tuple(_read_resource(item) for item in items)
    renames, fails = shared.get("renameByDefault"), shared.get("failRequestsGreaterThanOne")
    read = SharedResources(
        resources, renames is not None and renames.boolean(), None if fails is None else fails.boolean()
    )
    return _customised(read, node.page, (*node.path, "resources"))


def _read_resource(node: FieldValue) -> SharedResource:
    section = node.section(_RESOURCE_FIELDS, case=NameCase.EXACT)
    name, replicas, rename = section.get("name"), section.get("replicas"), _get_or_empty(section, "rename")
    if name is None:
        raise section.error("no resource name specified", "name", "a resource name such as nvidia.com/gpu")
    parsed = name.parsed(parse_gpu_resource)
    if replicas is None:
        raise section.error("no replicas specified", "replicas", _REPLICAS)
    count = replicas.integer()
    if count < _MIN_REPLICAS:
        raise replicas.error(f"number of replicas must be >= {_MIN_REPLICAS}", _REPLICAS)
    if count > MAX_REPLICAS:
        problem = f"{count} replicas are more than a kubelet can be told of"
        if not node.page.is_lenient:
            raise replicas.error(problem, _REPLICAS)
        node.page.warn(replicas.path, f"{problem}: there are {MAX_REPLICAS}")
    selection = read_selection(_get_or_empty(section, "devices"))
    count = min(count, MAX_REPLICAS)
    return SharedResource(parsed, count, rename.parsed(parse_gpu_resource) if rename is not None else None, selection)


def _get_or_empty(section: Section, name: str) -> FieldValue | None:
    """The field, with the empty text for null, as NVIDIA's plugin reads it; None when it is missing."""
    if (found := section.get(name)) is not None or not section.has(name):
        return found
    return FieldValue("", (*section.path, name), section.page)


def _customised(shared: SharedResources, page: Page, path: tuple[str | int, ...]) -> SharedResources:
    """Settle ``rename`` and ``devices``, which NVIDIA's plugin reads and then ignores."""
    resources = []
    for index, each in enumerate(shared.resources):
        default = shared_name(each.name) if shared.rename_by_default else None
        if each.rename not in (None, default):
            page.warn_of_extension((*path, index, "rename"))
        if each.devices != ALL_DEVICES:
            page.warn_of_extension((*path, index, "devices"))
        if page.is_lenient:
            resources.append(replace(each, rename=default, devices=ALL_DEVICES))
        else:
            resources.append(replace(each, rename=each.rename or default))
    return replace(shared, resources=tuple(resources))
