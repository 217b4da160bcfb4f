"""Runs of pytest of their own, which use plugbay's pytest plugin as its users do."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Final

PLUGIN: Final = "plugbay.testing.pytest_plugin"
LOADING: Final = () if any(each.value == PLUGIN for each in entry_points(group="pytest11")) else ("-p", PLUGIN)
"""Words for pytest's command line: an environment that was made before the plugin was has no entry point for it."""
