"""``plugbay check``: faults of a plugin's file, each with its line."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from tests.contract.conftest import Done

DEADLINE_S = 30
HEAD = "import uuid\nfrom plugbay import Device, DeviceNode, DevicePlugin, Mount, health, plugin, resources\n"
GOOD = """
class Base(DevicePlugin):
    def helper(self):
        pass

class Cards(Base):
    resource_name = "example.com/card"

    def discover(self):
        yield Device("a", device_nodes=[DeviceNode("/dev/null")])

    def release(self, assignment):
        pass

    @health()
    def hot(self, device):
        return True
"""


async def check(tmp_path: Path, code: str, *options: str) -> Done:
    (tmp_path / "p.py").write_text(HEAD + code)
    pipe = asyncio.subprocess.PIPE
    argv = (sys.executable, "-m", "plugbay", "check", "p.py", *options)
    process = await asyncio.create_subprocess_exec(*argv, cwd=tmp_path, stdout=pipe, stderr=pipe)
    async with asyncio.timeout(DEADLINE_S):
        out, err = await process.communicate()
    return Done(process.returncode or 0, out.decode(), err.decode())


async def test_file_without_faults(tmp_path: Path) -> None:
    assert await check(tmp_path, GOOD) == (0, "", "No faults found.\n")
    assert await check(tmp_path, GOOD, "-o", "json") == (0, "[]\n", "")


@pytest.mark.parametrize(
    ("code", "line", "finding"),
    [
        pytest.param("def x(:\n    pass\n", 3, "P101 SyntaxError: invalid syntax", id="syntax"),
        pytest.param("\n1 / 0\n", 4, "P101 ZeroDivisionError: division by zero", id="fails"),
        pytest.param("x = 1\n", 1, "P101 it defines no plugin", id="no-plugin"),
        pytest.param(
            GOOD.replace("release", "relaese"), 14, "P102 relaese() is never called; did you mean release()?", id="hook"
        ),
        pytest.param(
            GOOD.replace("def helper", "def prefered_allocation"),
            5,
            "P102 prefered_allocation() is never called; did you mean preferred_allocation()?",
            id="hook-of-a-base",
        ),
        pytest.param(
            GOOD.replace("    def helper", '    resource_name = "example.com/base"\n    def helper'),
            4,
            "P103 Base is not served: Cards is derived from it",
            id="base",
        ),
        pytest.param(
            GOOD.replace("(self, device)", "(self, device, why)"),
            17,
            "P104 health check hot: takes a device, or nothing when it checks all of them",
            id="health",
        ),
        pytest.param(
            GOOD + '\n@plugin("example.com/card")\ndef more():\n    return []\n',
            21,
            "P105 example.com/card is served more than once",
            id="twice",
        ),
        pytest.param(
            '@plugin("example.com/x")\ndef x():\n    return [Device("a"), Device("a")]\n',
            3,
            "P201 discover() failed:",
            id="ids",
        ),
        pytest.param(
            '@plugin("example.com/x")\ndef x():\n    1 / 0\n', 5, "P201 discover() failed: ZeroDiv", id="looks"
        ),
        pytest.param(
            '@plugin("example.com/x")\ndef x():\n    return [Device(uuid.uuid4().hex)]\n',
            3,
            "P202 device IDs do not stay: ",
            id="uuid",
        ),
        pytest.param(
            'N = [0]\n@plugin("example.com/x")\ndef x():\n    N[0] += 1\n    return [Device(f"x{N[0]}")]\n',
            4,
            "P202 device IDs do not stay: x1 is x2 at the next look, so that its pod would lose it",
            id="counter",
        ),
        pytest.param(
            'from pathlib import Path\nS = Path(__file__).with_suffix(".n")\n'
            'if S.exists():\n    raise OSError("busy")\nS.touch()\n'
            '@plugin("example.com/x")\ndef x():\n    return [Device("a")]\n',
            6,
            "P201 the file cannot be loaded a second time: ",
            id="second-load",
        ),
        pytest.param(
            'ID = uuid.uuid4().hex\n@plugin("example.com/x")\ndef x():\n    return [Device(ID)]\n',
            4,
            "P202 device IDs do not stay: ",
            id="module",
        ),
        pytest.param(
            '@plugin("example.com/x")\ndef x():\n    return [Device("a", mounts=[Mount("/no/such")])]\n',
            3,
            "P203 device a needs /no/such, which does not exist on this machine",
            id="path",
        ),
        pytest.param("@resources()\ndef x():\n    return 5\n", 1, "P201 ", id="resources"),
    ],
)
async def test_fault_is_named_with_its_line(tmp_path: Path, code: str, line: int, finding: str) -> None:
    done = await check(tmp_path, code)
    assert (done.code, done.err) == (1, "")
    assert f"p.py:{line}: {finding}" in done.out
    assert "Traceback" not in done.out
    assert len(done.out.splitlines()) == (2 if "more than once" in finding else 1)


async def test_place_of_a_fault_is_said_once(tmp_path: Path) -> None:
    done = await check(tmp_path, '@plugin("example.com/x")\ndef x():\n    1 / 0\n')
    assert done.out == "p.py:5: P201 discover() failed: ZeroDivisionError: division by zero\n"
    done = await check(tmp_path, "def x(:\n")
    assert done.out == "p.py:3: P101 SyntaxError: invalid syntax\n"


async def test_findings_are_json_for_programs(tmp_path: Path) -> None:
    done = await check(tmp_path, GOOD.replace("release", "relaese"), "-o", "json")
    assert (done.code, json.loads(done.out)) == (
        1,
        [{"file": "p.py", "line": 14, "code": "P102", "message": "relaese() is never called; did you mean release()?"}],
    )
