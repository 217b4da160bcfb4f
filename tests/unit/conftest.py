"""What tests of pure code get."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

UNIT: Final = Path(__file__).parent
GOLDEN: Final = UNIT.parent / "golden"


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a text with a golden file of the tested room; with PLUGBAY_UPDATE_GOLDEN=1, write the file instead."""

    def check(name: str, text: str) -> None:
        path = GOLDEN / request.path.relative_to(UNIT).parent / name
        if os.environ.get("PLUGBAY_UPDATE_GOLDEN") == "1":
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8")

    return check
