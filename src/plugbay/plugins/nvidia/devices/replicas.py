"""Replicas: the devices that several containers share. Pure.

Source: k8s-device-plugin 0.20 ``internal/rm/device_map.go``, ``updateDeviceMapWithReplicas``; spec 1.4 and 3.5.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from plugbay.errors import InvalidDeviceId
from plugbay.model.ids import parse_device_id
from plugbay.plugins.nvidia.config.choices import Dialect, SharingStrategy
from plugbay.plugins.nvidia.config.selections import AllDevices, FirstDevices, ListedDevices
from plugbay.plugins.nvidia.config.sharing import SharedResource, SharingSettings, united
from plugbay.plugins.nvidia.devices.building import Found
from plugbay.plugins.nvidia.devices.devices import DeviceKind, NvidiaDevice, by_index
from plugbay.plugins.nvidia.devices.problems import NOT_SHARED, REPLICATING, SHARING, DeviceProblem


def share(
    found: Sequence[Found], sharing: SharingSettings, dialect: Dialect = Dialect.REFERENCE
) -> tuple[list[Found], list[DeviceProblem]]:
    """The devices, those that are shared with their replicas and under the name of these.

    A resource that the node does not have is skipped. Several entries of one resource share it out: each takes from the
    devices that no entry before it has taken. In the reference dialect one entry of each resource counts.

    Returns:
        All devices; and problems: references to no device, more devices wanted than there are, and MIG devices that
        MPS cannot share. These devices stay as they were.
    """
    problems: list[DeviceProblem] = []
    shared: dict[str, Found] = {}
    entries = sharing.active.resources if sharing.active is not None else ()
    for entry in united(entries) if dialect is Dialect.REFERENCE else entries:
        of_resource = [device for name, device in found if name == entry.name]
        left = sorted((device for device in of_resource if device.id not in shared), key=by_index)
        if not of_resource:
            continue
        for device in _selected(entry, left, problems):
            if problem := _problem_of(device, entry, sharing.strategy):
                problems.append(problem)
            else:
                shared[device.id] = entry.registered_name, replace(device, replicas=entry.replicas)
    return [shared.get(device.id, (name, device)) for name, device in found], problems


def _selected(
    entry: SharedResource, devices: Sequence[NvidiaDevice], problems: list[DeviceProblem]
) -> Iterator[NvidiaDevice]:
    match entry.devices:
        case AllDevices():
            yield from devices
        case FirstDevices(count):
            if count > len(devices):
                problems.append(_problem(entry, f"requested {count} devices to be replicated, found {len(devices)}"))
            yield from devices[:count]
        case ListedDevices(references):
            for reference in references:
                if not any(device.is_called(reference) for device in devices):
                    problems.append(
                        _problem(entry, f"no device of it that is not yet shared is called {reference.text}")
                    )
            yield from (device for device in devices if any(map(device.is_called, references)))


def _problem(entry: SharedResource, problem: str) -> DeviceProblem:
    return DeviceProblem(REPLICATING, f"unable to replicate devices of '{entry.name}': {problem}", cost=NOT_SHARED)


def _problem_of(device: NvidiaDevice, entry: SharedResource, strategy: SharingStrategy) -> DeviceProblem | None:
    if strategy is SharingStrategy.MPS and device.kind is DeviceKind.MIG:
        return DeviceProblem(SHARING, "sharing using MPS is not supported for MIG devices", cost=NOT_SHARED)
    try:
        parse_device_id(replace(device, replicas=entry.replicas).listed_ids()[-1])
    except InvalidDeviceId as error:
        return _problem(entry, str(error))
    return None
