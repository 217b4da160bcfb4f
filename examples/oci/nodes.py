"""A device node of this machine as a device. ``NODE`` names another one than ``/dev/fuse``.

Serve it: ``plugbay serve examples/oci/nodes.py``.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from plugbay import Device, DeviceNode, plugin

NODE = Path(os.environ.get("NODE", "/dev/fuse"))


@plugin("example.com/node", watch=str(NODE))
def nodes() -> Iterator[Device]:
    if NODE.is_char_device():
        yield Device(NODE.name, device_nodes=[DeviceNode(NODE, container_path="/dev/plugged", permissions="rw")])
