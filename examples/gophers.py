"""The ten-line plugin: every file in a directory is a gopher. Serve it: ``plugbay serve examples/gophers.py``."""

from collections.abc import Iterator
from pathlib import Path

from plugbay import Device, plugin


@plugin("example.com/gopher", watch="/etc/gophers")
def gophers(root: Path) -> Iterator[Device]:
    for entry in sorted(root.iterdir()):
        yield Device(entry.name, env={"Gopher": entry.name})
