"""The played kubelet's checkpoint: a kubelet writes it after each list, and plugins may look at it.

No pod holds a device in it: what scenes allocate is for nobody.

Source: kubelet 1.36 ``cm/devicemanager/manager.go``, ``genericDeviceUpdateCallback``; spec 3.2.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from plugbay.kubelet.checkpoint import encode
from plugbay.kubelet.checkpoint_data import CheckpointData


async def write_checkpoint(path: Path, healthy: Mapping[str, Sequence[str]]) -> None:
    """Write the file anew, with the healthy devices of each resource."""
    await asyncio.to_thread(_write, path, encode(CheckpointData(None, dict(healthy))))


def _write(path: Path, content: bytes) -> None:
    unfinished = path.with_name(f".{path.name}.new")
    try:
        unfinished.write_bytes(content)
        os.replace(unfinished, path)
    except FileNotFoundError:  # a scene has removed the directory
        return
