"""The file in which Node Feature Discovery finds labels. Blocks.

Source: gpu-feature-discovery 0.20 ``internal/lm/output.go``; NFD's local source.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

from plugbay.errors import PathUnusable
from plugbay.kernel.files import remove_unfinished, sync_directory, write_beside
from plugbay.plugins.nvidia.labels.resource_labels import Labels

FEATURE_FILE: Final = "/etc/kubernetes/node-feature-discovery/features.d/gfd"


def feature_text(labels: Labels) -> str:
    """A line ``name=value`` for each label, by name."""
    return "".join(f"{name}={value}\n" for name, value in sorted(labels.items()))


def write_feature_file(labels: Labels, path: Path) -> None:
    """Replace the file as a whole; all users may read it.

    Raises:
        PathUnusable: it cannot be written; nothing was changed.
    """
    try:
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        temporary = write_beside(path, feature_text(labels).encode())
        try:
            temporary.chmod(0o644)
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink()
            raise
        sync_directory(path.parent)
    except OSError as error:
        raise PathUnusable(str(path), f"cannot be written: {error.strerror}") from error


def remove_feature_file(path: Path) -> None:
    """Remove the file and what a killed process left of it; a file that is not there is fine.

    Raises:
        PathUnusable: it cannot be removed, so the labels stay on the node.
    """
    remove_unfinished(path.parent, of=path)
    try:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
    except OSError as error:
        raise PathUnusable(str(path), f"cannot be removed: {error.strerror}") from error
