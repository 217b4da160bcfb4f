"""FPGAs that hold a design only while a container runs, and draw power only while a pod has them.

Serve it with ``BOARDS=/srv/boards plugbay serve examples/fpga_designs.py``. Each board is a directory with three files,
as drivers have them in sysfs: ``design``, empty or the name of what is programmed, ``memory``, what the design has
kept, and ``power``, ``on`` or ``save``.

The order of a pod's life: `allocate`, then `pre_start_container` and `post_stop` for each start and end of a container,
then `release`. So a container finds nothing on a board of what an earlier one of its pod had there. On kubelets, which
never call PostStopContainer, `post_stop` comes right before the next start; a kubelet that has just been restarted
starts containers without it until this plugin has registered again.

Of other pods a container finds nothing either, as long as somebody can tell that they have ended: the policy is LAZY,
which gives a board as it is rather than not at all. ``release_policy = ReleasePolicy.STRICT`` would refuse it.

A hook may be called again for what was done before, so all of them say what is to be, and not what is to change.
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
            deprogram(board)

    def release(self, assignment: Assignment) -> None:
        for board in plugged(assignment):
            deprogram(board)  # for a container that never started, perhaps
            (board / "power").write_text("save")


def deprogram(board: Path) -> None:
    for name in ("design", "memory"):
        (board / name).write_text("")


def plugged(assignment: Assignment) -> Iterator[Path]:
    """The boards of an assignment; one that somebody has pulled out needs nothing any more."""
    return (BOARDS / name for name in assignment.device_ids if (BOARDS / name).exists())
