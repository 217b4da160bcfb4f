"""USB serial adapters as devices, one for each USB port: a plugin class.

Serve it with ``plugbay serve examples/serial_ports.py``, or run this file, which takes the same options.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from plugbay import Device, DeviceNode, DevicePlugin, run, unhealthy


class SerialPorts(DevicePlugin):
    resource_name = "example.com/serial-port"

    def __init__(self, links: Path = Path("/dev/serial/by-path")) -> None:
        self.links = links  # udev keeps a link here for each adapter, named after its USB port
        self.watch = links

    def discover(self) -> Iterator[Device]:
        for link in sorted(self.links.iterdir()):
            node = str(link.resolve())
            device_id = link.name[-63:]  # the longest ID there may be; the end is what tells ports apart
            if link.exists():
                yield Device(device_id, device_nodes=[DeviceNode(node)], env={"SERIAL_PORTS": node})
            else:
                yield Device(device_id, health=unhealthy("Unplugged", f"{node} is gone"))

    def preferred_allocation(
        self, available: Sequence[Device], must_include: Sequence[Device], size: int
    ) -> Sequence[Device]:
        """Neighbours: a tester with two cables has plugged them in side by side."""
        others = [device for device in available if device not in must_include]
        return [*must_include, *others][:size]


if __name__ == "__main__":
    run(SerialPorts())
