import os
from collections.abc import Callable
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parents[2] / "golden" / "cli"


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """Compare a text with a golden file; with PLUGBAY_UPDATE_GOLDEN=1, write the file instead."""

    def check(name: str, text: str) -> None:
        path = GOLDEN / name
        if os.environ.get("PLUGBAY_UPDATE_GOLDEN") == "1":
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8")

    return check
