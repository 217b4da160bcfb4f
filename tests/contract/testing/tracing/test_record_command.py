"""``plugbay record`` and ``plugbay replay`` as commands, with plugins as programs of their own."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from plugbay import Device, plugin
from plugbay.errors import PathUnusable
from plugbay.kernel.processes import read_stat, wait_end
from plugbay.testing.local.opening import local_kubelet
from plugbay.testing.tracing import played_kubelet
from plugbay.testing.tracing.selection import Selection
from plugbay.testing.tracing.socket_replay import replay_to_socket
from plugbay.traffic.file_format import RecordedLine, read_recording, read_trace
from plugbay.traffic.records import TrafficEvent, TrafficRecord
from tests.contract.conftest import DEADLINE_S, Plugbay
from tests.contract.testing.tracing.test_trace_command import (
    ADMIT,
    GOPHERS,
    PLUGBAY,
    SERVE,
    command,
    end,
    gophers,
    recorded,
    start,
)

__all__ = ["gophers", "recorded"]
PROC = Path("/proc")
SECRETIVE = """
from plugbay import AllocationError, Device, DevicePlugin

ENVS = {
    "API_JSON": '{"password":"hunter2"}',
    "ARGS": "--password hunter3 --token=hunter4",
    "HDR": "Authorization: Bearer hunter5",
    "PATH": "/usr/token:/bin",
}


class Gophers(DevicePlugin):
    resource_name = "example.com/gopher"

    def discover(self):
        return [Device("g1", env=ENVS)]


class Moles(DevicePlugin):
    resource_name = "example.com/mole"

    def discover(self):
        return [Device("m1")]

    def allocate(self, devices):
        raise AllocationError('login failed: {"user": "me", "secret": "hunter7"}')
"""


def read(path: Path) -> list[RecordedLine]:
    with path.open(encoding="utf-8", newline="\n") as lines:
        return list(read_recording(lines, str(path))[1])


async def until_written(path: Path, text: str) -> None:
    """Look until a file that stays open has a text; no notice of the kernel tells of less than that it is closed."""
    async with asyncio.timeout(DEADLINE_S):
        while not path.exists() or text not in path.read_text():  # noqa: ASYNC110  another process writes
            await asyncio.sleep(0.02)


async def test_recording_is_kept_by_its_owner_and_shown(gophers: Path, tmp_path: Path) -> None:
    path = tmp_path / "recording.jsonl"
    async with start(*PLUGBAY, "record", "-o", str(path), *ADMIT, "--", *SERVE, str(gophers)) as process:
        await until_written(path, "container_responses")
        done = await end(process)
    assert (done.code, done.out) == (0, "")
    assert done.err.endswith(f"records are in {path}\n")
    assert path.stat().st_mode & 0o777 == 0o600
    assert "geheim" not in path.read_text()
    shown = await command("trace", "--show", str(path), "--only", "Allocate")
    assert "API_TOKEN: ***" in shown.out


async def test_recording_holds_no_secret_in_whatever_form_the_plugin_gives_it(tmp_path: Path) -> None:
    path, author = tmp_path / "recording.jsonl", tmp_path / "gophers.py"
    author.write_text(SECRETIVE)
    admit = ("--admit", "example.com/gopher=1", "--admit", "example.com/mole=1")
    async with start(*PLUGBAY, "record", "-o", str(path), *admit, "--", *SERVE, str(author)) as process:
        await until_written(path, "container_responses")
        await until_written(path, '"text": ')
        await end(process)
    records = [line.event for line in read(path) if isinstance(line.event, TrafficRecord)]
    assert not [each for each in records if b"hunter" in each.message or "hunter" in str(each.failure)]
    assert "hunter" not in path.read_text()
    [answer] = [each.value for each in records if each.name == "Allocate" and each.event is TrafficEvent.ANSWER]
    assert answer is not None
    assert "login failed" in path.read_text()
    assert answer["container_responses"][0]["envs"] == {
        "API_JSON": '{"password":"***"}',
        "ARGS": "--password *** --token=***",
        "HDR": "Authorization: ***",
        "PATH": "/usr/token:/bin",
    }


async def test_plugin_ends_with_a_recording_that_is_killed(tmp_path: Path) -> None:
    path, told = tmp_path / "recording.jsonl", tmp_path / "pid"
    words = ("sh", "-c", f"echo $$ > {told}.new; mv {told}.new {told}; exec sleep 600", "{root}")
    async with start(*PLUGBAY, "record", "-o", str(path), "--", *words) as process:
        await until_written(told, "\n")
        stat = read_stat(int(told.read_text()), proc_root=PROC)
        assert stat is not None
        process.kill()
        async with asyncio.timeout(DEADLINE_S):
            await wait_end(stat.identity, proc_root=PROC)


async def test_torn_last_line_is_told_and_left_out(recorded: Path) -> None:
    path = recorded
    with path.open("a", encoding="utf-8") as file:
        file.write('{"at_s": 3, "event": "requ')
    number = path.read_text().count("\n") + 1
    shown = await command("trace", "--show", str(path))
    assert shown.code == 0
    assert shown.err == f"line {number} ends in its middle, as when a recording is killed; it is left out\n"


async def test_recording_ends_at_its_greatest_size(gophers: Path, tmp_path: Path) -> None:
    path = tmp_path / "recording.jsonl"
    gophers.write_text(GOPHERS.replace('"red"', '"red" * 2000'))
    words = ("record", "-o", str(path), "--max-size", "4Ki", *ADMIT, "--", *SERVE, str(gophers))
    async with start(*PLUGBAY, *words) as process:
        await until_written(path, '"full"')
        done = await end(process)
    assert done.code == 0
    assert f"{path} has reached --max-size and takes no more; everything else goes on\n" in done.err
    assert path.stat().st_size <= 4096
    assert read(path)


async def test_replay_finds_the_same_answers(recorded: Path, gophers: Path) -> None:
    done = await command("replay", str(recorded), "--", *SERVE, str(gophers))
    assert done == (
        0,
        "same          example.com/gopher  Register\n"
        "same          example.com/gopher  GetDevicePluginOptions #2\n"
        "same          example.com/gopher  ListAndWatch #3\n"
        "same          example.com/gopher  Allocate #4\n"
        "4 compared, all the same\n",
        "",
    )


async def test_replay_says_what_differs(recorded: Path, gophers: Path) -> None:
    gophers.write_text(GOPHERS.replace("red", "blue").replace('Device("g2")', 'Device("g3")'))
    done = await command("replay", str(recorded), "--", *SERVE, str(gophers))
    assert (done.code, done.err) == (1, "")
    differing = [line.removeprefix("differs       example.com/gopher  ") for line in done.out.splitlines()[2:]]
    assert differing == [
        'ListAndWatch #3: devices.g2: {"health": "Healthy"} in the recording, nothing now',
        'ListAndWatch #3: devices.g3: nothing in the recording, {"health": "Healthy"} now',
        'Allocate #4: container_responses[0].envs.COLOUR: "red" in the recording, "blue" now',
        "4 compared, 2 differ",
    ]


async def test_plugin_that_dies_in_a_replay(recorded: Path) -> None:
    done = await command("replay", str(recorded), "--", "sh", "-c", "echo no driver; exit 3")
    assert done == (
        1,
        "",
        "plugbay: error: sh ended with exit code 3 before it registered example.com/gopher; the last that it printed:\n"
        "plugbay: error:     no driver\n",
    )


async def test_replay_to_our_manager(recorded: Path, tmp_path: Path) -> None:
    done = await command("replay", str(recorded))
    assert done == (
        0,
        "same          line 4  example.com/gopher  GetDevicePluginOptions\n"
        "same          line 2  example.com/gopher  Register\n"
        "same          line 11  example.com/gopher  Allocate\n"
        "same          line 11  admit of pod default/pod-of-line-11\n"
        "4 compared, all the same\n",
        "",
    )
    more = recorded.read_text().splitlines(keepends=True)
    more.append(more[10].replace('"call": 4', '"call": 9').replace("example.com/gopher", "example.com/mole\\u001b[31m"))
    altered = tmp_path / "altered.jsonl"
    altered.write_text("".join(more))
    code, out, err = await command("replay", str(altered))
    assert (code, err) == (1, "")
    assert "\x1b" not in out
    assert out.splitlines()[-1].endswith(" differ")


async def test_replay_to_a_plugin_that_runs(recorded: Path, tmp_path: Path) -> None:
    async with local_kubelet() as kubelet:

        @plugin("example.com/gopher")
        def others() -> list[Device]:
            return [Device("g1", env={"COLOUR": "blue", "API_TOKEN": "other"}), Device("g2")]

        await kubelet.plugin(others)
        [socket] = [path for path in kubelet.paths.device_plugins.glob("*.sock") if path.name != "kubelet.sock"]
        code, out, err = await command("replay", str(recorded), "--plugin", str(socket))
    assert (code, err) == (1, "")
    assert out.splitlines() == [
        "same          example.com/gopher  GetDevicePluginOptions #2",
        "same          example.com/gopher  ListAndWatch #3",
        'differs       example.com/gopher  Allocate #4: container_responses[0].envs.COLOUR: "red" in the recording, '
        '"blue" now',
        "3 compared, 1 differ",
    ]


async def test_replay_to_a_socket_at_which_nothing_listens(
    recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(played_kubelet, "DIAL_S", 0.2)
    lines = recorded.read_text().splitlines(keepends=True)
    with pytest.raises(PathUnusable, match="no plugin serves here"):
        await replay_to_socket(read_trace(lines, "r"), tmp_path / "no.sock", Selection(), source="r")


async def test_steps_of_pods_are_shown_harmless(tmp_path: Path) -> None:
    golden = (Path(__file__).parents[3] / "golden/testing/recording.jsonl").read_text(encoding="utf-8")
    path = tmp_path / "recording.jsonl"
    path.write_text(golden.replace("not today", "not\\u001b[31mtoday"), encoding="utf-8")
    done = await command("trace", "--show", str(path), "--resource", "example.com/gopher")
    assert done.out.splitlines()[-4:] == [
        "    0.005 s  pod default/web: admit: app example.com/gopher=1",
        "    0.006 s  pod default/web: admitted: app example.com/gopher=g1",
        "    0.007 s  pod default/web container app: not prepared: not\\x1b[31mtoday",
        "    0.008 s  pod default/web container app: ended",
    ]
    assert "pod" not in (await command("trace", "--show", str(path), "--only", "Allocate")).out
    assert "pod" not in (await command("trace", "--show", str(path), "--resource", "example.com/other")).out
    as_json = await command("trace", "--show", str(path), "--json")
    assert '"step": "not prepared"' in as_json.out


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["replay", "{}"], "{}:1: this is not a recording of `plugbay record` or `plugbay trace -o FILE`"),
        (["replay", "{}.new"], "{}.new: cannot be read: No such file or directory"),
        (["replay", "{}.pipe"], "{}.pipe: cannot be read: "),
        (["replay", "{}.directory"], "{}.directory: cannot be read: Is a directory"),
        (["record", "-o", "{}"], "{}: this file is here already; give another one"),
        (["record", "-o", "{}.pipe"], "{}.pipe: this file is here already; give another one"),
        (["record", "-o", "{}/x"], "{}/x: cannot be made: Not a directory"),
    ],
)
async def test_bad_files_are_told_in_a_sentence(
    plugbay: Plugbay, tmp_path: Path, words: list[str], problem: str
) -> None:
    path = tmp_path / "file"
    path.write_text("{}\n")
    os.mkfifo(f"{path}.pipe")
    Path(f"{path}.directory").mkdir()
    code, out, err = await plugbay(*(word.replace("{}", str(path)) for word in words), "--", "true")
    assert (code, out) == (1, "")
    assert err.startswith(f"plugbay: error: {problem.replace('{}', str(path))}")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["record", "--", "true"], "-o/--output is missing"),
        (["record", "-o", "x", "--max-size", "1", "--", "true"], "wants a size such as 10Mi, 4Ki or more, found '1'"),
        (["replay", "x", "--only", "Alocate", "--", "true"], 'there is no method "Alocate"'),
        (["replay"], "FILE is missing"),
        (["replay", "x", "--plugin", "s", "--", "true"], "--plugin and a program after -- are two plugins"),
        (["replay", "x", "--env", "A=b"], "--env and --private-root are for a program, which comes after --"),
    ],
)
async def test_misuse_is_told(plugbay: Plugbay, words: list[str], problem: str) -> None:
    code, out, err = await plugbay(*words)
    assert (code, out) == (2, "")
    assert problem in err
