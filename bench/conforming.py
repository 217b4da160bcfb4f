"""The whole conformance run on our directory plugin, as ``plugbay conform`` makes it."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from plugbay.testing.conformance.catalogue import all_rules
from plugbay.testing.conformance.judging import judge_plugin
from plugbay.testing.conformance.reports.as_html import as_html
from plugbay.testing.conformance.settings import ConformanceSettings
from plugbay.testing.conformance.subject.command import PluginCommand

_PROVOKE: Final = """
case $PLUGBAY_CHANGE in
disappear) rm "$GOPHERS/$PLUGBAY_DEVICE" ;;
appear) : > "$GOPHERS/$PLUGBAY_DEVICE" ;;
*) exit 3 ;;
esac
"""


async def conformance_s() -> float:
    """The seconds from the start to the page with the verdict, devices changed included."""
    with tempfile.TemporaryDirectory(prefix="pb") as gophers:
        for name in ("g1", "g2"):
            (Path(gophers) / name).touch()
        directory = ("directory", "--resource", "example.com/gopher", "--path", gophers, "--env", "GOPHER")
        settings = ConformanceSettings(
            PluginCommand((sys.executable, "-m", "plugbay", "serve", "--root", "{root}", *directory)),
            provoke=_PROVOKE,
            environ={**os.environ, "GOPHERS": gophers},
        )
        began = time.perf_counter()
        report = await judge_plugin(settings, all_rules())
        as_html(report)
        took_s = time.perf_counter() - began
    if complaints := [each.rule.name for each in report.verdicts if each.is_bad]:
        raise RuntimeError(f"the directory plugin does not pass: {', '.join(complaints)}")
    return took_s
