"""Remove directories with all that programs of other people have put there."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def remove_tree(directory: Path) -> None:
    """Remove a directory with all in it, also what its owner has closed to itself. A missing one is not an error.

    No process may change it meanwhile.

    Raises:
        OSError: a part of it stays.
    """
    if not os.path.lexists(directory):
        return
    try:
        shutil.rmtree(directory)
    except PermissionError:
        _open_to_owner(directory)
        shutil.rmtree(directory)


def _open_to_owner(directory: Path) -> None:
    for parent, names, _ in os.walk(directory):  # lists a directory after it was opened here
        for path in (os.path.join(parent, name) for name in names):
            if not os.path.islink(path):
                os.chmod(path, 0o700)
