"""A plugin class with every hook: whiteboards, which are directories that containers write into.

Serve it: ``WHITEBOARDS=/tmp/whiteboards plugbay serve examples/hooks/whiteboards.py``.
"""

import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from plugbay import ContainerEdits, Device, DevicePlugin, Mount, unhealthy

log = logging.getLogger(__name__)


class Whiteboards(DevicePlugin):
    resource_name = "example.com/whiteboard"
    every = 60  # seconds: look again even if nothing seems to change

    def __init__(self, root: Path) -> None:
        self.root = root
        self.watch = root  # and whenever a board comes or goes

    def discover(self) -> Iterator[Device]:
        for board in sorted(self.root.iterdir()):
            if board.is_dir():
                yield Device(board.name)
            else:
                yield Device(board.name, health=unhealthy("Broken", f"{board} is no directory"))

    def preferred_allocation(
        self, available: Sequence[Device], must_include: Sequence[Device], size: int
    ) -> Sequence[Device]:
        """The emptiest ones: they are wiped sooner."""
        others = sorted((each for each in available if each not in must_include), key=self._notes)
        return [*must_include, *others][:size]

    def allocate(self, devices: Sequence[Device]) -> ContainerEdits:
        boards = [str(self.root / device.id) for device in devices]
        return ContainerEdits(env={"WHITEBOARDS": ":".join(boards)}, mounts=tuple(Mount(each) for each in boards))

    def pre_start_container(self, devices: Sequence[Device]) -> None:
        """Wipe them before each start, a restart included: nobody reads what another one wrote."""
        for device in devices:
            for note in (self.root / device.id).iterdir():
                note.unlink()
            log.info("wiped %s", device.id)

    def _notes(self, device: Device) -> int:
        return len(list((self.root / device.id).iterdir()))


whiteboards = Whiteboards(Path(os.environ.get("WHITEBOARDS", "/tmp/whiteboards")))
