"""Where a long-running command logs to."""

from __future__ import annotations

import logging
from typing import TextIO


def configure_logs(level: str, stream: TextIO) -> None:
    """Log what is at least as important as ``level`` (``debug``, ``info``, ``warning``, ``error``) to ``stream``."""
    logging.basicConfig(
        stream=stream, level=level.upper(), format="%(asctime)s %(levelname)-7s %(message)s", force=True
    )
