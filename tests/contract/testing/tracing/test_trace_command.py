"""``plugbay trace`` as a command, with plugins as programs of their own."""

from __future__ import annotations

import asyncio
import json
import shlex
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from plugbay.kernel.watch import watch_paths
from plugbay.kubelet.paths import KubeletPaths
from plugbay.testing.fakes.kubelet import fake_kubelet
from plugbay.testing.local.opening import private_directory
from tests.contract.conftest import COMMAND_S, DEADLINE_S, Done, Plugbay
from tests.contract.node.test_enclose import NEEDS_NAMESPACES, NEEDS_ROOT

PLUGBAY: Final = (sys.executable, "-m", "plugbay")
GOPHERS: Final = """
from plugbay import Device, DevicePlugin

class Gophers(DevicePlugin):
    resource_name = "example.com/gopher"

    def discover(self):
        return [Device("g1", env={"COLOUR": "red", "API_TOKEN": "geheim"}), Device("g2")]
"""
SERVE: Final = (*PLUGBAY, "serve", "--root", "{root}")
ENCLOSED: Final = (*PLUGBAY, "serve", "--root", "/var/lib/kubelet")
ADMIT: Final = ("--admit", "example.com/gopher=1")


@asynccontextmanager
async def start(*words: str) -> AsyncIterator[asyncio.subprocess.Process]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*words, stdin=pipe, stdout=pipe, stderr=pipe)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def trace(*words: str, given: str = "") -> Done:
    """Run ``plugbay trace`` to its end."""
    return await command("trace", *words, given=given)


async def command(*words: str, given: str = "") -> Done:
    """Run a command of plugbay to its end."""
    async with asyncio.timeout(COMMAND_S), start(*PLUGBAY, *words) as process:
        out, err = await process.communicate(given.encode())
        assert process.returncode is not None
        return Done(process.returncode, out.decode(), err.decode())


async def until_shown(process: asyncio.subprocess.Process, text: str) -> list[str]:
    """The lines of its output up to one with ``text``."""
    assert process.stdout is not None
    lines = []
    async with asyncio.timeout(DEADLINE_S):
        while line := (await process.stdout.readline()).decode():
            lines.append(line)
            if text in line:
                return lines
    raise AssertionError(f"the output ended without {text!r}: {lines}")


async def end(process: asyncio.subprocess.Process, number: signal.Signals = signal.SIGTERM) -> Done:
    process.send_signal(number)
    async with asyncio.timeout(DEADLINE_S):
        out, err = await process.communicate()
    assert process.returncode is not None
    return Done(process.returncode, out.decode(), err.decode())


@pytest.fixture
def gophers(tmp_path: Path) -> Path:
    path = tmp_path / "gophers.py"
    path.write_text(GOPHERS)
    return path


@pytest.fixture
async def recorded(gophers: Path, tmp_path: Path) -> Path:
    """A trace with one pod, as a file."""
    path = tmp_path / "trace.jsonl"
    async with start(*PLUGBAY, "trace", *ADMIT, "-o", str(path), "--", *SERVE, str(gophers)) as process:
        await until_shown(process, "Allocate #4 answer")
        assert (await end(process)).code == 0
    return path


async def test_traffic_is_shown_as_it_passes(gophers: Path) -> None:
    async with start(*PLUGBAY, "trace", *ADMIT, "--", *SERVE, str(gophers)) as process:
        lines = await until_shown(process, "Allocate #4 answer")
        done = await end(process, signal.SIGINT)
    assert [line.split("  ")[-1].split(":")[0].split(" (")[0].strip() for line in lines[:6]] == [
        "Register #1",
        "connection 1 is made",
        "GetDevicePluginOptions #2",
        "GetDevicePluginOptions #2 answer",
        "Register #1 answer",
        "ListAndWatch #3",
    ]
    assert "ListAndWatch #3 list: 2 devices: g1 Healthy, g2 Healthy" in "".join(lines)
    assert "envs: {API_TOKEN: ***, COLOUR: red}" in lines[-1]
    assert done.code == 0
    assert "connection 1 is closed" in done.out


async def test_secrets_are_in_no_file_unless_asked_for(recorded: Path, gophers: Path, tmp_path: Path) -> None:
    assert "geheim" not in recorded.read_text()
    assert b"Z2VoZWlt" not in recorded.read_bytes()  # Base64 of it, were it aligned
    open_file = tmp_path / "open.jsonl"
    words = ("trace", *ADMIT, "--no-mask", "--json", "-o", str(open_file), "--", *SERVE, str(gophers))
    async with start(*PLUGBAY, *words) as process:
        lines = await until_shown(process, "geheim")
        await end(process)
    assert json.loads(lines[0])["masked"] is False
    assert "geheim" in open_file.read_text()


async def test_file_is_never_overwritten(recorded: Path) -> None:
    before = recorded.read_bytes()
    code, out, err = await trace("-o", str(recorded), "--", "true")
    assert (code, out) == (1, "")
    assert err == f"plugbay: error: {recorded}: this file is here already; give another one\n"
    assert recorded.read_bytes() == before


async def test_file_is_shown_and_filtered(recorded: Path) -> None:
    done = await trace("--show", str(recorded), "--only", "allocate")
    assert done.code == 0
    assert [line.split("  ")[-1].split(":")[0].split(" (")[0] for line in done.out.splitlines()] == [
        "Allocate #4",
        "Allocate #4 answer",
    ]
    nothing = await trace("--show", "-", "--resource", "example.com/other", given=recorded.read_text())
    assert nothing == (0, "", "")
    as_json = await trace("--show", str(recorded), "--json", "--only", "Register")
    header, *records = map(json.loads, as_json.out.splitlines())
    assert header["format"] == "plugbay-trace"
    assert [(each["event"], each["from"]) for each in records] == [
        ("request", "plugin"),
        ("answer", "kubelet"),
        ("end", "kubelet"),
    ]


@pytest.mark.parametrize(
    ("program", "problem"),
    [
        (["false"], "false ended with exit code 1 before it registered, and printed nothing"),
        (
            ["/nowhere/plugin", "{root}"],
            "/nowhere/plugin was not started: /nowhere/plugin cannot be run: there is no such program, or it is not "
            "executable, and printed nothing",
        ),
        (
            ["sh", "-c", "echo {root} >/dev/null; kill -SEGV $$"],
            "sh was ended by SIGSEGV before it registered, and printed nothing",
        ),
    ],
)
async def test_program_that_is_not_a_plugin(program: list[str], problem: str) -> None:
    if "{root}" not in " ".join(program):
        program = [*program, "{root}"]
    assert await trace("--", *program) == (1, "", f"plugbay: error: {problem}\n")


async def test_flood_of_output_shows_its_end() -> None:
    script = "import sys; print('x' * 5_000_000); [print(n, sys.argv[1:2] and '') for n in range(100_000)]; sys.exit(4)"
    done = await trace("--", sys.executable, "-c", script, "{root}")
    assert (done.code, done.out) == (1, "")
    first, *lines = done.err.splitlines()
    assert first.endswith("ended with exit code 4 before it registered; the last that it printed:")
    assert [line.split()[-1] for line in lines] == [str(number) for number in range(99_988, 100_000)]


async def test_output_of_the_plugin_is_passed_on_when_asked_for() -> None:
    done = await trace("--plugin-output", "--", "sh", "-c", "echo out {root}; echo err >&2")
    assert done.err.startswith("out /")
    assert "err\n" in done.err


async def test_exit_code_is_that_of_a_plugin_that_registered(gophers: Path, tmp_path: Path) -> None:
    script = (
        f"{shlex.join(SERVE)} {shlex.quote(str(gophers))} & until [ -e {tmp_path}/go ]; do sleep 0.05; done; exit 7"
    )
    async with start(*PLUGBAY, "trace", "--", "sh", "-c", script) as process:
        await until_shown(process, "ListAndWatch #3 list")
        (tmp_path / "go").touch()
        async with asyncio.timeout(DEADLINE_S):
            await process.communicate()
        assert process.returncode == 7


async def test_trace_ends_after_its_time(gophers: Path) -> None:
    done = await trace("--for", "200ms", "--", *SERVE, str(gophers))
    assert done.code == 0


async def test_plugin_before_a_node_of_ours(plugbay: Plugbay, gophers: Path) -> None:
    async with plugbay.node_up():
        words = ("--root", str(plugbay.root), "trace", "--", *SERVE, str(gophers))
        async with start(*PLUGBAY, *words) as process:
            await until_shown(process, "ListAndWatch #3 list")
            run = await plugbay("pod", "run", "p1", "--resource", "example.com/gopher=1", "--", "sleep", "60")
            assert run.code == 0
            await until_shown(process, "Allocate #4 answer")
            await end(process)
        assert (await plugbay("node", "wait", "--for=resource=example.com/gopher=0")).code == 0


@NEEDS_ROOT
@NEEDS_NAMESPACES
async def test_plugin_with_the_stock_path_compiled_in_before_a_kubelet(gophers: Path) -> None:
    with private_directory() as root:
        async with fake_kubelet(KubeletPaths(root)) as kubelet:
            words = ("trace", "--kubelet", str(root), "--", *ENCLOSED, str(gophers))
            async with start(*PLUGBAY, *words) as process:
                plugin = await kubelet.next_registration()
                await plugin.until_devices("g1", "g2")
                await kubelet.restart()
                plugin = await kubelet.next_registration()
                await plugin.until_devices("g1", "g2")
                await until_shown(process, "Register")
                assert (await end(process)).code == 0
            await until_gone(KubeletPaths(root).device_plugins)


async def until_gone(directory: Path) -> None:
    """Wait until a directory has no socket of a relay."""
    async with asyncio.timeout(DEADLINE_S), watch_paths([directory]) as changes:
        while any(path.name.startswith("relay-") for path in directory.iterdir()):
            await anext(changes)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([], "say what to trace after --, such as: plugbay trace -- ./my-plugin"),
        (["--only", "Alocate", "--", "true"], 'there is no method "Alocate"; choose from Register, '),
        (["--show", "x", "--", "true"], "--show runs nothing, so no program can follow --"),
        (["--admit", "example.com/gopher", "--", "true"], "--admit: wants RESOURCE=N, such as example.com/gopher=1"),
        (["--node", "--kubelet", "/x", "--", "true"], "not allowed with argument"),
        (["--env", "X", "--", "true"], "--env: 'X' is not NAME=VALUE"),
        (["--node", "--admit", "example.com/gopher=1", "--", "true"], "--admit"),
    ],
)
async def test_misuse_is_told(words: list[str], problem: str) -> None:
    code, out, err = await trace(*words)
    assert (code, out) == (2, "")
    assert problem in err


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--kubelet", "/nowhere", "--", "true"], "no kubelet is here, so there is nothing to trace"),
        (["--show", "/nowhere/t.jsonl"], "/nowhere/t.jsonl: cannot be read: No such file or directory"),
    ],
)
async def test_what_is_not_there_is_told(words: list[str], problem: str) -> None:
    code, out, err = await trace(*words)
    assert (code, out) == (1, "")
    assert problem in err
    assert "Traceback" not in err
