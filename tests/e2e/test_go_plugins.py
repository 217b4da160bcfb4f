"""Plugins on Go's gRPC, each with a fault that Go plugins have, are caught by the rules meant for it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from plugbay.testing.conformance.catalogue import chosen_rules
from plugbay.testing.conformance.judging import judge_plugin
from plugbay.testing.conformance.settings import ConformanceSettings
from plugbay.testing.conformance.subject.command import PluginCommand
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
