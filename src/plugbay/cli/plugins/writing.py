"""Files that a command writes for its user: all of them or none."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Mapping
from enum import Enum, auto
from pathlib import Path

from plugbay.errors import PathUnusable


class Existing(Enum):
    """The fate of files that are there already."""

    REFUSED = auto()
    KEPT_IF_SAME = auto()
    REPLACED = auto()


def written(files: Mapping[Path, str], *, existing: Existing) -> str:
    """Write ``files``, and tell in lines what became of each.

    Raises:
        PathUnusable: one is there already, or cannot be written; what was there is as it was.
    """
    for directory in {path.parent for path in files}:
        if directory.exists() and not directory.is_dir():
            raise PathUnusable(str(directory), "is not a directory; nothing was written")
    before = {path: _text(path) for path in files}
    for path, text in before.items():
        if text is None or existing is Existing.REPLACED:
            continue
        if existing is Existing.REFUSED:
            raise PathUnusable(str(path), "exists already; nothing was written")
        if text != files[path]:
            raise PathUnusable(str(path), "is there with other content; nothing was written (--overwrite replaces it)")
    _write({path: text for path, text in files.items() if before[path] != text})
    return "".join(f"{path} {_fate(before[path], text)}\n" for path, text in files.items())


def _fate(before: str | None, text: str) -> str:
    if before is None:
        return "created"
    return "unchanged" if before == text else "replaced"


def _text(path: Path) -> str | None:
    """The content of a file; None if there is no such file, an empty text if it is not a text at all."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        return ""
    except OSError as error:
        raise PathUnusable(str(path), f"cannot be read: {error.strerror}; nothing was written") from error


def _write(files: Mapping[Path, str]) -> None:
    """Write all files beside their places, and then put them there."""
    with contextlib.ExitStack() as stack:
        ready: dict[Path, Path] = {}
        for path, text in files.items():
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
                stack.callback(Path(name).unlink, missing_ok=True)
                with open(handle, "w", encoding="utf-8") as file:
                    file.write(text)
                os.chmod(name, 0o666 & ~_umask())
                ready[path] = Path(name)
            except OSError as error:
                raise PathUnusable(str(path), f"cannot be written: {error.strerror}; nothing was written") from error
        for path, new in ready.items():
            new.replace(path)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
