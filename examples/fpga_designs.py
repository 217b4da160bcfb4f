"""FPGAs that hold a design only while a container runs, and draw power only while a pod has them.

Serve it with ``BOARDS=/srv/boards plugbay serve examples/fpga_designs.py``. Each board is a directory with two files,
as drivers have them in sysfs: ``design``, empty or the name of what is programmed, and ``power``, ``on`` or ``save``.

The order of a pod's life: `allocate`, then `pre_start_container` and `post_stop` for each start and end of a container,
then `release`. A hook may be called again for what was done before, so all of them say what is to be, and not what is
to change.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from plugbay import Assignment, ContainerEdits, Device, DevicePlugin, merge_devices

BOARDS = Path(os.environ.get("BOARDS", "/srv/boards"))
DESIGN = "blink"


class Fpgas(DevicePlugin):
    resource_name = "example.com/fpga-blink"
    watch = BOARDS

    def discover(self) -> Iterator[Device]:
        for board in sorted(BOARDS.iterdir()):
            yield Device(board.name, env={"FPGA": str(board)})

    def allocate(self, devices: Sequence[Device]) -> ContainerEdits:
        for device in devices:
            (BOARDS / device.id / "power").write_text("on")
        return merge_devices(device.edits for device in devices)

    def pre_start_container(self, devices: Sequence[Device]) -> None:
        for device in devices:
            (BOARDS / device.id / "design").write_text(DESIGN)

    def post_stop(self, assignment: Assignment) -> None:
        for board in plugged(assignment):
            (board / "design").write_text("")

    def release(self, assignment: Assignment) -> None:
        for board in plugged(assignment):
            (board / "design").write_text("")  # of a container that never started, perhaps
            (board / "power").write_text("save")


def plugged(assignment: Assignment) -> Iterator[Path]:
    """The boards of an assignment; one that somebody has pulled out needs nothing any more."""
    return (BOARDS / name for name in assignment.devices if (BOARDS / name).exists())
