from __future__ import annotations

from tests.contract.rigs.nvidia import nvml_library

__all__ = ["nvml_library"]
