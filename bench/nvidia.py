"""What the NVIDIA plugin costs."""

from __future__ import annotations

from collections.abc import AsyncIterator

from bench.choosing import choices
from bench.figures import Figure, Pace


async def measure(pace: Pace) -> AsyncIterator[Figure]:
    for figure in choices(pace):
        yield figure
