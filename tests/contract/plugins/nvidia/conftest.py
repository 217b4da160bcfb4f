from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tests.contract.rigs.nvidia import nvml_library

__all__ = ["nvml_library"]


@pytest.fixture
def may_make_nodes(tmp_path: Path) -> None:
    """Skip where no device nodes can be made."""
    try:
        os.mknod(tmp_path / "node", stat.S_IFCHR | 0o600, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("device nodes cannot be made here: that takes the capability CAP_MKNOD")
