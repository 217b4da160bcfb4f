"""``plugbay who`` at the directory of a stock kubelet, and at our own node."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

import pytest
import yaml

from plugbay.cli.main import run
from plugbay.errors import RpcCode, RpcFailed
from plugbay.observe.following import followed
from plugbay.observe.joining.node import join
from plugbay.observe.reading.node import read_node
from plugbay.observe.view import ObservedNode
from plugbay.ops.clock import SystemClock
from tests.contract.rigs.seen_kubelet import SeenKubelet, entry, holding, listening, offered

Who: TypeAlias = Callable[..., Awaitable[tuple[int, list[list[str]], str]]]


@pytest.fixture
def kubelet(tmp_path: Path) -> SeenKubelet:
    """Two devices, one of them held; a free one is listed first by its ID."""
    kubelet = SeenKubelet(tmp_path)
    kubelet.write_checkpoint([entry("u1", "c", "g1")], ["g0", "g1"])
    kubelet.add_pod("u1", "web")
    kubelet.pods = [holding("web", "c", "g1")]
    kubelet.devices = offered("g0", "g1")
    return kubelet


@pytest.fixture
def who(kubelet: SeenKubelet, capsys: pytest.CaptureFixture[str]) -> Who:
    async def who(*argv: str) -> tuple[int, list[list[str]], str]:
        capsys.readouterr()
        code = await asyncio.to_thread(run, ["who", *kubelet.argv, *argv])
        shown = capsys.readouterr()
        return code, [line.split() for line in shown.out.splitlines()], shown.err

    return who


async def test_every_device_is_listed_with_its_holder(kubelet: SeenKubelet, who: Who) -> None:
    async with kubelet.answering():
        code, (_, free, held), notes = await who()
    assert (code, notes) == (0, "")
    assert free[:7] == ["example.com/gpu", "g0", "Healthy", "0", "<none>", "<none>", "<none>"]
    assert held[:7] == ["example.com/gpu", "g1", "Healthy", "0", "default", "web", "c"]
    assert sorted(kubelet.asked) == ["GetAllocatableResources", "List"]


@pytest.mark.parametrize(
    ("argv", "devices"),
    [
        (("example.com/gpu",), ["g0", "g1"]),
        (("g0",), ["g0"]),
        (("example.com/gpu=g1",), ["g1"]),
        (("/dev/g1",), ["g1"]),
        (("pod/web",), ["g1"]),
        (("-n", "default"), ["g1"]),
        (("-n", "other", "-A"), ["g0", "g1"]),
        (("--container", "c", "--numa", "0"), ["g1"]),
        (("--numa", "1"), []),
        (("--unhealthy",), []),
        (("--resource", "example.com/gpu", "--pod", "web"), ["g1"]),
    ],
)
async def test_words_and_options_choose(
    kubelet: SeenKubelet, who: Who, argv: tuple[str, ...], devices: list[str]
) -> None:
    async with kubelet.answering():
        code, rows, _ = await who(*argv, "-o", "name")
    assert (code, [row[0].rpartition("=")[2] for row in rows]) == (0, devices)


async def test_one_pod_is_asked_for_alone(kubelet: SeenKubelet, who: Who) -> None:
    async with kubelet.answering():
        code, rows, _ = await who("pod/web", "-n", "default", "-o", "wide")
    assert code == 0
    assert [row[-5:] for row in rows[1:]] == [["/dev/g1", "<none>", "u1", "<none>", "checkpoint,podresources"]]
    assert sorted(kubelet.asked) == ["Get", "GetAllocatableResources"]


async def test_a_word_that_stands_for_nothing_is_told(kubelet: SeenKubelet, who: Who) -> None:
    async with kubelet.answering():
        code, rows, notes = await who("g7")
    assert (code, rows) == (1, [])
    assert notes == (
        "plugbay: error: nothing on this node is called g7: no resource, no device, and no pod or container that holds "
        "one\n"
    )


@pytest.mark.parametrize(
    "argv",
    [
        ("--pod", "nosuch"),
        ("--container", "nosuch"),
        ("--resource", "nosuch"),
        ("pod/nosuch",),
        ("--pod", "web", "--pod", "nosuch"),
        ("pod/nosuch", "-n", "default"),
    ],
)
async def test_options_that_name_nothing_are_told_as_words_are(
    kubelet: SeenKubelet, who: Who, argv: tuple[str, ...]
) -> None:
    async with kubelet.answering():
        code, _, notes = await who(*argv)
    assert code == 1
    (line,) = notes.splitlines()
    assert line.startswith(f"plugbay: error: nothing on this node is called {argv[0 if '/' in argv[0] else -1]}: ")


async def test_pod_of_another_namespace_is_not_known_in_this_one(kubelet: SeenKubelet, who: Who) -> None:
    async with kubelet.answering():
        assert (await who("--pod", "web", "-n", "other"))[0] == 1
        assert (await who("pod/web", "-n", "other", "--ask", "nothing"))[0] == 1
        assert (await who("--container", "c", "-n", "default"))[0] == 0


async def test_files_tell_enough_without_asking(kubelet: SeenKubelet, who: Who) -> None:
    async with kubelet.answering():
        code, (_, _, held), notes = await who("--ask", "nothing")
    assert (code, held[4:7], notes, kubelet.asked) == (0, ["default", "web", "c"], "", [])


async def test_json_has_all_that_is_known(kubelet: SeenKubelet, who: Who, capsys: pytest.CaptureFixture[str]) -> None:
    (kubelet.root / "cpu_manager_state").write_text('{"entries": {"u1": {"c": "2-3"}}}')
    async with kubelet.answering():
        with listening(kubelet.device_plugins / "gpu.sock"):
            await asyncio.to_thread(run, ["who", *kubelet.argv, "-o", "json", "--ask", "harmless"])
    found = json.loads(capsys.readouterr().out)
    assert [item["holder"] and item["holder"]["uid"] for item in found["items"]] == [None, "u1"]
    assert found["resources"][0]["allocatable"] == 2
    assert found["resources"][0]["free"] == 1
    assert found["exclusive"]["sharedCpus"] == [0, 1]
    assert [each["name"] for each in found["sockets"] if each["pid"]] == ["gpu.sock"]
    assert (found["partial"], found["problems"]) == (False, [])


async def test_a_kubelet_that_hangs_gives_a_partial_answer(kubelet: SeenKubelet, who: Who) -> None:
    with kubelet.hanging():
        code, rows, notes = await who("--deadline", "300ms")
    assert (code, rows[2][4:7]) == (3, ["default", "web", "c"])
    assert "note: the kubelet has not answered List within 0.3 s: it hangs, or is very busy\n" in notes


async def test_a_kubelet_that_is_down_leaves_what_its_checkpoint_says(kubelet: SeenKubelet, who: Who) -> None:
    code, rows, notes = await who()
    assert (code, len(rows)) == (3, 3)
    assert notes.startswith("note: no kubelet runs here: there is no PodResources socket at ")


async def test_without_a_kubelet_there_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert await asyncio.to_thread(run, ["who", "--root", str(tmp_path / "none")]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    (line,) = told.err.splitlines()
    assert "no kubelet runs here" in line


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ('{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}},"Checksum":1}', "is damaged or was edited"),
        ("{", "is corrupted"),
        (
            '{"Data":{"PodDeviceEntries":[{"PodUID":"u1","ContainerName":"c","ResourceName":"example.com/gpu",'
            '"DeviceIDs":["g1"],"AllocResp":""}],"RegisteredDevices":{}},"Checksum":1}',
            "is of kubelet 1.19 or older",
        ),
    ],
)
async def test_a_bad_checkpoint_is_told_and_the_rest_shown(
    kubelet: SeenKubelet, who: Who, content: str, sentence: str
) -> None:
    (kubelet.device_plugins / "kubelet_internal_checkpoint").write_text(content)
    async with kubelet.answering():
        code, rows, notes = await who()
    assert (code, rows[2][4:7]) == (3, ["default", "web", "c"])
    assert sentence in notes


@pytest.mark.parametrize("form", ["wide", "name", "json", "yaml", "jsonpath={.items[*].holder.pod}"])
async def test_hostile_names_reach_no_terminal(
    kubelet: SeenKubelet, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    kubelet.pods = [holding("a\x1b[2Jb\nc", "\x9bc\u202e", "g\x1b]0;x\x07", namespace="<b>")]
    kubelet.devices = offered("g\x1b]0;x\x07")
    async with kubelet.answering():
        assert await asyncio.to_thread(run, ["who", *kubelet.argv, "-o", form]) == 0
    shown, notes = capsys.readouterr()
    assert not [each for each in shown + notes if not each.isprintable() and each != "\n"]
    if form in ("json", "yaml"):
        (held,) = (item for item in yaml.safe_load(shown)["items"] if item["holder"])
        assert (held["holder"]["pod"], held["holder"]["container"]) == ("a\x1b[2Jb\nc", "\x9bc\u202e")


async def test_hostile_error_of_the_kubelet_stays_on_its_line(kubelet: SeenKubelet, who: Who) -> None:
    kubelet.refusal = RpcFailed(RpcCode.INTERNAL, "no\x1b[31m\nnote: all is well\r")
    async with kubelet.answering():
        code, _, notes = await who()
    assert code == 3
    (line,) = notes.splitlines()
    assert r"no\x1b[31m\nnote: all is well\r" in line


async def test_a_view_follows_the_kubelet_without_polling(kubelet: SeenKubelet) -> None:
    async def read() -> ObservedNode:
        return join(await read_node(kubelet.places(), now=SystemClock().now()))

    async with kubelet.answering(), asyncio.timeout(20):
        views = followed(read, kubelet.places())
        first = await anext(views)
        assert [str(device.holders and device.holders[0]) for device in first.resources[0].devices][
            1
        ] == "default/web/c"
        kubelet.add_pod("u2", "next")
        kubelet.write_checkpoint([entry("u1", "c", "g1"), entry("u2", "c", "g0")], ["g0", "g1"])
        async for view in views:
            if view.resources[0].allocated == 2:
                break
        kubelet.devices = offered("g1")
        kubelet.write_checkpoint([entry("u1", "c", "g1"), entry("u2", "c", "g0")], ["g1"])
        async for view in views:
            if view.resources[0].allocatable == 1:
                break
    assert "List" not in kubelet.asked


@pytest.mark.parametrize("root", ["/k", "/link", "{host}/k"])
@pytest.mark.parametrize("option", ["--host", "--host-root"])
async def test_root_is_a_path_of_the_host_for_who_and_doctor(
    kubelet: SeenKubelet, capsys: pytest.CaptureFixture[str], root: str, option: str
) -> None:
    (kubelet.base / "link").symlink_to("/k")
    argv = (option, str(kubelet.base), "--root", root.format(host=kubelet.base))
    async with kubelet.answering():
        assert await asyncio.to_thread(run, ["who", *argv, "pod/web", "-n", "default", "-o", "name"]) == 0
        assert capsys.readouterr().out == "example.com/gpu=g1\n"
        await asyncio.to_thread(run, ["doctor", *argv, "--id", "PBD101", "--json"])
    assert json.loads(capsys.readouterr().out)["findings"] == []


async def test_a_host_has_its_kubelet_at_the_usual_place(
    kubelet: SeenKubelet, capsys: pytest.CaptureFixture[str]
) -> None:
    (kubelet.base / "var/lib").mkdir()
    (kubelet.base / "var/lib/kubelet").symlink_to("/k")
    async with kubelet.answering():
        argv = ["who", "--host", str(kubelet.base), "pod/web", "-n", "default", "-o", "name"]
        assert await asyncio.to_thread(run, argv) == 0
    assert capsys.readouterr().out == "example.com/gpu=g1\n"


@pytest.mark.parametrize("command", ["who", "export", "doctor"])
def test_a_host_that_is_not_mounted_is_one_sentence(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nope = tmp_path / "nope"
    assert run([command, "--host", str(nope), "--root", str(tmp_path)]) == 2
    assert capsys.readouterr().err == (
        f"plugbay: error: --host: {nope} is not a directory; it wants the place at which the node's / is mounted\n"
    )
