"""The start of the worker, which needs to know nothing of the driver yet. Imports little: it comes first at a start."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from plugbay.ops.spawned_worker import SpawnedWorker, spawn_worker

_PROGRAM: Final = Path(__file__).with_name("program.py")
_OURS: Final = Path(__file__).parents[4]
"""The directory that plugbay is in."""


def spawn_nvml_worker(environ: Mapping[str, str] | None = None) -> SpawnedWorker:
    """Start a worker. It reads its modules, and waits to be told where the driver is.

    Args:
        environ: its whole environment; None for ours.

    Raises:
        OSError: no process can be started: there are too many, or no memory.
    """
    # As importlib.util.find_spec() does it, which alone would cost 2 ms to import.
    bindings = next((found for finder in sys.meta_path if (found := finder.find_spec("pynvml", None))), None)
    places = [_OURS]
    if bindings is not None and bindings.origin is not None:
        places.append(Path(bindings.origin).parent)
    return spawn_worker(_PROGRAM, *map(str, dict.fromkeys(places)), environ=environ)
