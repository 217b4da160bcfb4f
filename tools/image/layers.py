"""File systems as tar archives: the same entries make the same bytes."""

from __future__ import annotations

import io
import tarfile
from typing import Final

from tools.image.tree import Directory, File, Link, Tree

MTIME: Final = 315_532_800
"""1980-01-01, which is where the times of zip files begin. Layers with the same files are the same in all releases."""


def archive(tree: Tree, *below: Tree) -> bytes:
    """A tar archive of all entries that are not in the layers ``below``."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in tree:
            entry = tree[path]
            if any(path in each and each[path] == entry for each in below):
                continue
            header = tarfile.TarInfo(path)
            header.mtime = MTIME
            match entry:
                case File():
                    header.mode, header.size = entry.mode, len(entry.content)
                    tar.addfile(header, io.BytesIO(entry.content))
                case Link():
                    header.type, header.mode, header.linkname = tarfile.SYMTYPE, 0o777, entry.target
                    tar.addfile(header)
                case Directory():
                    header.type, header.mode = tarfile.DIRTYPE, entry.mode
                    tar.addfile(header)
    return buffer.getvalue()
