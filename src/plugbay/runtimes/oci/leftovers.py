"""Leftovers of an engine: what it keeps of containers that no instance tells of, since it failed to delete them.

Their instances were removed once nothing of them ran, so no later call would be about them. An engine's directory that
is not empty also keeps another engine from being chosen.
"""

from __future__ import annotations

import logging
import os
import subprocess
from pathlib import Path

from plugbay.kernel.boot import read_boot_id
from plugbay.runtimes.oci.confinement import engine_id
from plugbay.runtimes.oci.engines import CALL_S, OciEngine, last_line
from plugbay.runtimes.port import ContainerId
from plugbay.runtimes.supervised.traces import find_wrappers

logger = logging.getLogger(__name__)


def sweep_engine(engine: OciEngine, instances: Path, *, proc_root: Path) -> None:
    """Delete what ``engine`` keeps of other containers than the node's. Call this before a container is started.

    A container also counts as the node's if its wrapper runs, although its record is lost.

    Args:
        instances: a directory for each container of the node.
    """
    try:
        kept = {engine_id(ContainerId(name)) for name in os.listdir(instances)} if instances.exists() else set()
        wrappers = find_wrappers(instances, boot_id=read_boot_id(proc_root), proc_root=proc_root)
        kept |= {engine_id(each) for each in wrappers}
        names = os.listdir(engine.state_dir) if engine.state_dir.exists() else []
    except OSError as error:
        logger.warning("what %s keeps of earlier containers is not looked at: %s", engine.kind, error)
        return
    for name in sorted(set(names) - kept):
        if problem := _delete(engine, name):
            logger.warning(
                "%s is left of a container that has ended, and %s cannot delete it: %s; it is tried again at the next "
                "start of the node",
                engine.state_dir / name,
                engine.kind,
                problem,
            )


def _delete(engine: OciEngine, name: str) -> str:
    """Tell why the engine cannot delete a container; empty if it has."""
    argv = engine.argv("delete", "--force", name)
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=CALL_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return "" if done.returncode == 0 else last_line(done.stderr) or f"exit code {done.returncode}"
