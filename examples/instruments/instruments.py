"""A resource for each model of instrument in the lab; models come and go while the plugin runs.

The lab is a directory: ``/tmp/lab/scope/s1`` is the instrument s1, a scope.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from plugbay import Device, DevicePlugin, resources


class Model(DevicePlugin):
    """All instruments of one model."""

    def __init__(self, shelf: Path) -> None:
        self.resource_name = f"lab.example.com/{shelf.name}"
        self.watch = shelf
        self.shelf = shelf

    def discover(self) -> Iterator[Device]:
        for instrument in sorted(self.shelf.iterdir()):
            yield Device(instrument.name, env={"INSTRUMENT": instrument.name})


@resources(watch=os.environ.get("LAB", "/tmp/lab"))
def models(lab: Path) -> Iterator[DevicePlugin]:
    for shelf in sorted(lab.iterdir()):
        yield Model(shelf)
