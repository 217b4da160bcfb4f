"""What the scenarios of configurations share."""

from __future__ import annotations

from typing import Final

import pytest

from plugbay.errors import InvalidNvidiaConfig
from plugbay.plugins.nvidia.config.choices import (
    Dialect,
)
from plugbay.plugins.nvidia.config.configuration import Configuration
from plugbay.plugins.nvidia.config.sharing import SharedResources
from tests.unit.plugins.nvidia.golden_machines import configured

SHARED: Final = "sharing:\n  timeSlicing:\n    resources:\n    - name: gpu\n      replicas: 2\n"
MPS: Final = SHARED.replace("timeSlicing", "mps")


def refusal(config: str, *arguments: str, dialect: Dialect = Dialect.REFERENCE) -> InvalidNvidiaConfig:
    with pytest.raises(InvalidNvidiaConfig) as raised:
        configured(arguments, config=config, dialect=dialect)
    return raised.value


def time_sliced(configuration: Configuration) -> SharedResources:
    assert configuration.sharing.time_slicing is not None
    return configuration.sharing.time_slicing
