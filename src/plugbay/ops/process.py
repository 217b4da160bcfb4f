"""What a process uses, under the names that Prometheus' clients have for it."""

from __future__ import annotations

import os
import time
from datetime import datetime
from pathlib import Path

from plugbay.ops.metrics import Kind, Metric


def process_metrics(proc: Path, *, started: datetime) -> list[Metric]:
    """Of this process, whose directory in the proc file system is ``proc``: reading there waits for no disk."""
    pages = int((proc / "statm").read_text().split()[1])
    return [
        _metric("process_cpu_seconds_total", Kind.COUNTER, "Processor time used.", time.process_time()),
        _metric("process_resident_memory_bytes", Kind.GAUGE, "Memory in use.", pages * os.sysconf("SC_PAGE_SIZE")),
        _metric("process_open_fds", Kind.GAUGE, "Open file descriptors.", len(os.listdir(proc / "fd"))),
        _metric("process_start_time_seconds", Kind.GAUGE, "When it started, in seconds of 1970.", started.timestamp()),
    ]


def _metric(name: str, kind: Kind, text: str, value: float) -> Metric:
    return Metric(name, kind, text, [({}, value)])
