"""The scratch plugins: whole disks, and their partitions. A disk is used one way at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from plugbay.errors import AllocationError, PathUnusable
from plugbay.kernel.loop import FileSlice, LoopDevices
from plugbay.model.assignments import Assignment
from plugbay.model.devices import Device
from plugbay.model.edits import ContainerEdits, DeviceNode, merge_devices
from plugbay.plugins.scratch.config import PARTITION, Layout
from plugbay.plugins.scratch.disks import Disks
from plugbay.sdk.author.modes import Modes
from plugbay.sdk.author.needs import HostDirectory, Need, Privileged
from plugbay.sdk.author.plugin import DevicePlugin
from plugbay.sdk.author.release_settings import ReleasePolicy

_DISK: Final = "disk"
_ID: Final = re.compile(r"(disk[0-9]+)(?:-p[0-9]+)?")


class ScratchPlugin(DevicePlugin):
    """A plugin whose devices are slices of disks.

    A container finds its devices in ``/dev/TYPE/``, and their paths in the variable ``TYPE_DEVICES``.

    Args:
        slices: by device ID.
    """

    release_policy = ReleasePolicy.STRICT

    def __init__(self, resource: str, disks: Disks, slices: Mapping[str, FileSlice], modes: Modes | None) -> None:
        self.resource_name = resource
        self.modes = modes
        self._disks = disks
        self._slices = slices
        self.needs: Sequence[Need] = (
            HostDirectory(str(disks.directory), f"the files of {resource}", writable=True),
            HostDirectory("/dev", "loop devices, which come as they are attached"),
            Privileged(f"{resource} attaches files to loop devices, and no lesser right opens those"),
        )

    def set_up(self) -> None:
        self._disks.check()

    def discover(self) -> Iterator[Device]:
        kind = self.resource_name.partition("/")[2]
        variable = re.sub(r"\W", "_", kind).upper() + "_DEVICES"
        for name, part in self._slices.items():
            path = f"/dev/{kind}/{name}"
            yield Device(
                name,
                env={variable: path},
                device_nodes=[DeviceNode(self._disks.node(name), container_path=path, permissions="rw")],
                attributes={_DISK: part.file.name},
                capacity={"storage": part.size},
            )

    def allocate(self, devices: Sequence[Device]) -> ContainerEdits:
        fresh: list[str] = []
        try:
            for device in devices:
                if self._disks.attach(device.id, self._slices[device.id]):
                    fresh.append(device.id)
        except (AllocationError, PathUnusable, OSError) as error:
            for name in fresh:  # a refused device has taken nothing
                self._release(name)
            raise AllocationError(f"scratch {device.id}: {error}") from error
        return merge_devices(device.edits for device in devices)

    def pre_start_container(self, devices: Sequence[Device]) -> None:
        for device in devices:
            self._disks.restore(device.id, self._slices[device.id])

    def release(self, assignment: Assignment) -> None:
        for name in assignment.device_ids:
            self._release(name)

    def _release(self, name: str) -> None:
        if match := _ID.fullmatch(name):  # perhaps from an earlier configuration, with more of them
            self._disks.release(name, self._disks.file(match[1]), self._slices.get(name))


def scratch_plugins(layout: Layout, directory: Path, loops: LoopDevices) -> list[ScratchPlugin]:
    """The plugin for whole disks, and the one for their partitions if there are any.

    Raises:
        PathUnusable: this process cannot make loop devices, or the directory is of no use; see `Disks.check`.
    """
    disks = Disks(directory, owner=layout.resource, size=layout.size, loops=loops)
    disks.check()
    names = [f"{_DISK}{number}" for number in range(layout.count)]
    whole = {name: FileSlice(disks.file(name), 0, layout.size) for name in names}
    if not layout.partitions:
        return [ScratchPlugin(layout.resource, disks, whole, None)]
    size = layout.partition_size
    parts = {
        f"{name}-p{number}": FileSlice(disks.file(name), number * size, size)
        for name in names
        for number in range(layout.partitions)
    }
    modes = Modes(hardware_of=lambda device: str(device.attributes[_DISK]))
    return [
        ScratchPlugin(layout.resource, disks, whole, modes),
        ScratchPlugin(layout.resource + PARTITION, disks, parts, modes),
    ]
