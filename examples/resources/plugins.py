"""Two resources from one process, with devices that need no hardware.

Serve them: ``plugbay serve examples/resources/plugins.py``.
"""

from plugbay import Device, plugin


@plugin("example.com/gopher")
def gophers() -> list[Device]:
    return [Device(name, env={"GOPHER": name}) for name in ("g1", "g2")]


@plugin("example.com/burrow")
def burrows() -> list[Device]:
    return [Device(name, env={"BURROW": name}) for name in ("b1", "b2", "b3")]
