"""FPGAs that are given whole or by regions: two resources over the same boards, and a board is used one way at a time.

Serve it with ``plugbay serve examples/fpga_modes.py``. The boards are made up: two, of two regions each.
"""

from collections.abc import Iterator, Sequence

from plugbay import ContainerEdits, Device, DevicePlugin, Modes

BOARDS = {"fpga0": ("region0", "region1"), "fpga1": ("region0", "region1")}
ONE_WAY_AT_A_TIME = Modes(hardware_of=lambda device: str(device.attributes["board"]))


class Fpgas(DevicePlugin):
    resource_name = "example.com/fpga"
    modes = ONE_WAY_AT_A_TIME

    def discover(self) -> Iterator[Device]:
        for board in BOARDS:
            yield Device(board, attributes={"board": board})

    def allocate(self, devices: Sequence[Device]) -> ContainerEdits:
        # Here is the place to give each board one design as a whole: nobody uses a region of it.
        return ContainerEdits(env={"FPGAS": ",".join(device.id for device in devices)})


class Regions(DevicePlugin):
    resource_name = "example.com/fpga-region"
    modes = ONE_WAY_AT_A_TIME

    def discover(self) -> Iterator[Device]:
        for board, regions in BOARDS.items():
            for region in regions:
                yield Device(
                    f"{board}-{region}", attributes={"board": board}, env={"FPGA_REGIONS": f"{board}-{region}"}
                )
