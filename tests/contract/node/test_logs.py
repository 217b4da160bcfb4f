"""What ``plugbay serve`` writes to standard error, in both forms."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from plugbay.kubelet.paths import KubeletPaths
from plugbay.testing.fakes.kubelet import fake_kubelet
from tests.contract.conftest import Plugbay

DEADLINE_S = 20
PLUGIN = """
import threading, warnings
from plugbay import Device, DevicePlugin

class Mine(DevicePlugin):
    resource_name = "example.com/mine"
    every = 0.01
    looks = 0

    def discover(self):
        self.looks += 1
        if self.looks == 2:
            warnings.warn("look\\nout")
            thread = threading.Thread(target=lambda: 1 / 0)
            thread.start()
            thread.join()
        if self.looks > 2:
            raise RuntimeError("two\\nlines")
        return [Device("m")]

mine = Mine()
"""


async def errors_of(root: Path, *options: str, until: bytes, **environ: str) -> list[str]:
    """The lines that serving the plugin above gives, from the start to its end after ``until`` was read."""
    target = root / "target.py"
    target.write_text(PLUGIN)
    reading, writing = os.pipe()
    found = os.fstat(writing)
    environ = {name: text.format(stream=f"{found.st_dev}:{found.st_ino}") for name, text in environ.items()}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "plugbay", "--root", str(root), "serve", str(target), *options),
        stderr=writing,
        env={**os.environ, **environ},
    )
    os.close(writing)
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(reading, "rb"))
    try:
        async with asyncio.timeout(DEADLINE_S):
            written = await reader.readuntil(until)
            process.send_signal(signal.SIGTERM)
            written += await reader.read()
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        transport.close()
    return written.decode().splitlines()


async def test_json_log_is_one_object_a_line_whatever_happens(sockets: Path) -> None:
    async with fake_kubelet(KubeletPaths(sockets)):
        lines = await errors_of(sockets, "--log-format", "json", until=b"RuntimeError")
    records: list[dict[str, Any]] = [json.loads(line) for line in lines]
    by_template = {record.get("template"): record for record in records}
    [template] = [each for each in by_template if each and "new device" in each]
    found = by_template[template]
    assert found["values"][:2] == ["example.com/mine", "m"]
    assert found["message"].startswith("example.com/mine: new device m")
    assert (found["level"], found["logger"].split(".")[0]) == ("info", "plugbay")
    [failed] = [record for record in records if "RuntimeError" in record.get("exception", "")]
    assert failed["exception"].endswith("RuntimeError: two\nlines")
    assert "ZeroDivisionError" in by_template["a thread ended: %s"]["exception"]
    assert any("look\nout" in record["message"] for record in records if record["logger"] == "py.warnings")


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (["nothing.py"], 1, "cannot load a plugin from nothing.py: no such file"),
        ([], 2, "`serve` needs a TARGET or --config FILE; see 'plugbay serve --help'"),
    ],
)
async def test_end_by_an_error_is_an_object_too(
    plugbay: Plugbay, arguments: list[str], code: int, problem: str
) -> None:
    done = await plugbay("serve", *arguments, "--log-format", "json")
    [line] = done.err.splitlines()
    record = json.loads(line)
    assert (done.code, record["level"], record["values"]) == (code, "critical", [problem])


TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} "


@pytest.mark.parametrize(
    ("stream", "has_times"),
    [
        pytest.param("{stream}", False, id="journal"),
        pytest.param("1:2", True, id="something-else-below-a-service"),
        pytest.param("", True, id="no-service"),
    ],
)
async def test_text_has_times_unless_the_journal_writes_them(sockets: Path, stream: str, has_times: bool) -> None:
    async with fake_kubelet(KubeletPaths(sockets)):
        lines = await errors_of(sockets, until=b"registered", JOURNAL_STREAM=stream)
    new = next(line for line in lines if "new device" in line)
    expected = re.escape("INFO    example.com/mine: new device m")
    assert re.match(f"{TIME if has_times else ''}{expected}", new)
