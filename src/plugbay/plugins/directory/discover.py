"""Find the files of a directory that are devices."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from plugbay.errors import InvalidDeviceId
from plugbay.model.ids import parse_device_id


def device_files(directory: Path) -> Iterator[str | InvalidDeviceId]:
    """The names of the regular files in ``directory``, sorted; an error in place of each name that is not a device ID.

    Subdirectories, sockets and the like, names with a leading dot and dangling links do not count; links to files do.

    Raises:
        OSError: the directory is missing, is not a directory, or cannot be read.
    """
    with os.scandir(directory) as entries:
        names = sorted(entry.name for entry in entries if not entry.name.startswith(".") and entry.is_file())
    for name in names:
        try:
            yield parse_device_id(name)
        except InvalidDeviceId as error:
            yield error
