"""Metrics of a process's CPU time, memory and files, under the names that Prometheus' clients use."""

from __future__ import annotations

import os
import time
from datetime import datetime
from pathlib import Path

from plugbay.ops.metrics import Metric, MetricKind


def process_metrics(proc: Path, *, started: datetime) -> list[Metric]:
    """Metrics of this process. ``proc`` is its directory in the proc file system, where reads wait for no disk."""
    pages = int((proc / "statm").read_text().split()[1])
    return [
        _metric("process_cpu_seconds_total", MetricKind.COUNTER, "Processor time used.", time.process_time()),
        _metric(
            "process_resident_memory_bytes", MetricKind.GAUGE, "Memory in use.", pages * os.sysconf("SC_PAGE_SIZE")
        ),
        _metric("process_open_fds", MetricKind.GAUGE, "Open file descriptors.", len(os.listdir(proc / "fd"))),
        _metric(
            "process_start_time_seconds", MetricKind.GAUGE, "When it started, in seconds of 1970.", started.timestamp()
        ),
    ]


def _metric(name: str, kind: MetricKind, text: str, value: float) -> Metric:
    return Metric(name, kind, text, [({}, value)])
