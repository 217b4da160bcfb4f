"""Plugins on Go's gRPC: their faults are caught by the rules meant for them, and their traffic is played again."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest

from plugbay.ops.clock import SystemClock
from plugbay.testing.conformance.catalogue import chosen_rules
from plugbay.testing.conformance.judging import judge_plugin
from plugbay.testing.conformance.settings import ConformanceSettings
from plugbay.testing.conformance.subject.command import PluginCommand
from plugbay.testing.local.opening import local_kubelet
from plugbay.testing.tracing.manager.replay import replay_to_manager
from plugbay.testing.tracing.replay import replay_trace
from plugbay.testing.tracing.selection import Selection
from plugbay.traffic.file_format import RecordedLine, header_of
from tests.contract.testing.test_zoo import RETRY_S, caught

SOURCES: Final = Path(__file__).parent / "go_plugins"
LIBRARIES: Final = Path("/usr/share/gocode")
"""Where Debian's packages put the sources of Go's libraries."""

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(
        shutil.which("go") is None or not (LIBRARIES / "src/google.golang.org/grpc").is_dir(),
        reason="needs golang-go and golang-google-grpc-dev",
    ),
]


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The program, built without modules: nothing is downloaded."""
    directory = tmp_path_factory.mktemp("go")
    environ = {"PATH": os.environ["PATH"], "GO111MODULE": "off", "GOPATH": str(LIBRARIES), "GOFLAGS": ""}
    command = ("go", "build", "-o", str(directory / "plugin"), ".")
    cache = {"GOCACHE": str(directory / "cache"), "HOME": str(directory)}
    subprocess.run(command, cwd=SOURCES, env={**environ, **cache}, check=True, timeout=150)
    shutil.rmtree(directory / "cache")
    yield directory / "plugin"
    (directory / "plugin").unlink()


@pytest.mark.parametrize(
    ("fault", "rules", "caught_by"),
    [
        ("good", (), set()),
        ("ignores-restart", ("PB701", "PB702", "PB703"), {"PB701", "PB702", "PB703"}),
        ("leaks-servers", ("PB7xx", "PB8xx"), {"PB805"}),
        ("dies-on-unknown-id", ("PB4xx",), {"PB406"}),
    ],
)
async def test_go_plugin_is_caught(
    fault: str, rules: tuple[str, ...], caught_by: set[str], plugin: Path, sockets: Path
) -> None:
    command = PluginCommand((str(plugin), fault, "{plugins}"))
    settings = ConformanceSettings(command, retry_timeout_s=RETRY_S, environ=os.environ, places=sockets)
    findings = caught(await judge_plugin(settings, chosen_rules(rules)))
    assert findings.keys() == caught_by, findings


async def test_recorded_go_plugin_is_played_again(plugin: Path) -> None:
    words = (str(plugin), "good", "{plugins}")
    async with local_kubelet(as_kubelet="1.30", within_s=30) as kubelet:
        await kubelet.plugin(words)
        [(resource, count)] = kubelet.allocatable.items()
        for _ in range(2):
            await kubelet.end(await kubelet.admit({resource: count}))
        records = tuple(kubelet.traffic.records)
    header = header_of(datetime(2026, 1, 31, tzinfo=UTC), is_masked=False)
    lines = [RecordedLine(number, record) for number, record in enumerate(records, start=2)]
    to_manager = await replay_to_manager(header, lines, Selection(), clock=SystemClock(), source="r")
    to_plugin = await replay_trace(records, PluginCommand(words), os.environ, Selection(), source="r")
    for report in (to_manager, to_plugin):
        assert [step for step in report.steps if step.differences] == []
        assert sum("Allocate" in step.title for step in report.steps) == 2
