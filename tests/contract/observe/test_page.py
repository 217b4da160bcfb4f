"""The page as a browser gets it, from a directory with a kubelet's checkpoint."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from plugbay.errors import SocketInUse
from plugbay.kubelet.checkpoint import encode
from plugbay.kubelet.checkpoint_data import CheckpointData, PodDevicesEntry
from plugbay.model.edits import ContainerEdits, DeviceNode, Mount
from plugbay.observe.joining.node import join
from plugbay.observe.page import live
from plugbay.observe.page.live import LiveNode
from plugbay.observe.page.serving import PageSettings, keep_following, serve_node_page
from plugbay.observe.places import NodePlaces, places_of
from plugbay.observe.reading.node import read_node
from plugbay.observe.view import ObservedNode
from plugbay.ops.clock import SystemClock
from plugbay.ops.listening import TcpAddress
from plugbay.ops.tasks import background
from plugbay.wire.convert import edits_to_pb
from tests.contract.conftest import Plugbay

GPU = "example.com/gpu"
EDITS = ContainerEdits(
    env={"GPU": "<b>0</b>"},
    mounts=[Mount("/host", container_path="/in", read_only=True)],
    device_nodes=[DeviceNode("/dev/gpu0")],
    annotations={"a": "b"},
    cdi_devices=["example.com/gpu=0"],
)
LOOPBACK = TcpAddress("127.0.0.1", 0)
ASSETS = Path(live.__file__).with_name("assets")


@pytest.fixture
def places(tmp_path: Path) -> NodePlaces:
    places = places_of(tmp_path / "var/lib/kubelet", host=tmp_path, is_own=False)
    places.kubelet.device_plugins.mkdir(parents=True)
    write(places, "a", "b")
    return places


def write(places: NodePlaces, *devices: str, held: str = "a") -> None:
    entry = PodDevicesEntry("uid-1", "main", GPU, {0: [held]}, edits_to_pb(EDITS).SerializeToString())
    written = places.kubelet.checkpoint.with_name("new")
    written.write_bytes(encode(CheckpointData([entry], {GPU: list(devices)})))
    written.rename(places.kubelet.checkpoint)


@asynccontextmanager
async def page(places: NodePlaces, **settings: Any) -> AsyncIterator[str]:
    async with (
        asyncio.timeout(30),
        serve_node_page(places, PageSettings(**{"address": LOOPBACK} | settings), SystemClock()) as url,
    ):
        yield url


@asynccontextmanager
async def asked(url: str, path: str, *, host: str | None = None) -> AsyncIterator[asyncio.StreamReader]:
    found = re.fullmatch(r"http://(\[.*\]|[^:/]+):(\d+)(/.*)", url)
    assert found is not None
    reader, writer = await asyncio.open_connection("127.0.0.1", int(found[2]))
    head = f"GET {found[3]}{path} HTTP/1.1\r\nHost: {host or found[1]}\r\nConnection: close\r\n\r\n"
    writer.write(head.encode())
    try:
        yield reader
    finally:
        writer.close()
        await writer.wait_closed()


async def get(url: str, path: str = "", *, host: str | None = None) -> tuple[int, str, str]:
    """Status, head and body."""
    async with asked(url, path, host=host) as reader:
        head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
    return int(head.split()[1]), head, body


async def one_event(reader: asyncio.StreamReader) -> tuple[str, Any]:
    """The next server-sent event: its name and what it brings."""
    text = ""
    while not text.endswith("\n\n"):
        size = int(await reader.readline(), 16)
        text += (await reader.readexactly(size + 2)).decode()[:-2]
    lines = dict(line.split(": ", 1) for line in text.strip().splitlines())
    return lines["event"], json.loads(lines["data"])


async def test_a_page_has_no_foreign_source_and_says_so(places: NodePlaces) -> None:
    async with page(places) as url:
        async with asked(url, "events") as reader:
            assert "default-src 'none'" in (await reader.readuntil(b"\r\n\r\n")).decode()
        assets = sorted(path.name for path in ASSETS.iterdir() if path.name != "page.html")
        assert {"page.js", "page.css", "icon.svg"} <= set(assets)
        for path in ("", *assets, "table", "state.json", "doctor.json", "pods/uid-1"):
            status, head, body = await get(url, path)
            while status == 503:
                status, head, body = await get(url, path)
            assert status == 200, (path, body)
            assert "default-src 'none'" in head
            assert "nosniff" in head
            assert "Set-Cookie" not in head
            foreign = set(re.findall(r"https?://[^\"' )]+", body)) - {"http://www.w3.org/2000/svg"}
            assert not foreign, (path, foreign)


async def test_a_change_comes_as_what_changed(places: NodePlaces) -> None:
    async with page(places) as url:
        async with asked(url, "events") as reader:
            await reader.readuntil(b"\r\n\r\n")
            name, state = await one_event(reader)
            assert name == "state"
            seen = dict(state["put"])
            while f"d {GPU} b" not in seen or name == "more":
                name, change = await one_event(reader)
                seen |= dict(change.get("put", ()))
            assert name in ("live", "change")
            write(places, "a", "b", "c", held="b")
            gathered: dict[str, Any] = {}
            texts: list[str] = []
            while f"d {GPU} c" not in gathered:
                name, change = await one_event(reader)
                assert name == "change"
                gathered |= dict(change["put"])
                texts += [event["text"] for event in change["events"]]
        assert [holder["container"] for holder in gathered[f"d {GPU} b"]["holders"]] == ["main"]
        assert "node" not in gathered
        assert {"c appeared, Healthy", "a was given back by uid-1/main", "b was given to uid-1/main"} <= set(texts)


async def test_a_pod_is_shown_with_all_that_its_containers_were_given(places: NodePlaces) -> None:
    async with page(places) as url:
        [given] = json.loads((await get(url, "pods/uid-1"))[2])["given"]
        assert given == {
            "container": "main",
            "resource": GPU,
            "devices": ["a"],
            "env": {"GPU": "<b>0</b>"},
            "mounts": [{"from": "/host", "to": "/in", "isReadOnly": True}],
            "nodes": [{"from": "/dev/gpu0", "to": "/dev/gpu0", "permissions": "rw"}],
            "annotations": {"a": "b"},
            "cdi": ["example.com/gpu=0"],
        }
        assert json.loads((await get(url, "pods/other"))[2])["given"] == []
        places.kubelet.checkpoint.write_text("{")
        assert "cannot be read" in json.loads((await get(url, "pods/uid-1"))[2])["problem"]


async def test_other_names_are_refused_and_given_ones_are_not(places: NodePlaces) -> None:
    async with page(places, names=("node-1",)) as url:
        assert (await get(url, host="evil.example"))[0] == 421
        assert (await get(url, host="node-1:80"))[0] == 200


async def test_other_machines_need_the_token_of_this_start(places: NodePlaces) -> None:
    async with page(places, address=TcpAddress("", 0)) as url:
        bare = re.sub(r"(:\d+/).*", r"\1", url)
        assert re.fullmatch(r"http://localhost:\d+/[\w-]{20,}/", url)
        assert (await get(url))[0] == 200
        assert (await get(url.removesuffix("/")))[0] == 308
        for path in ("", "state.json", "events", "page.js"):
            assert (await get(bare, path))[0] == 403
    async with page(places, address=TcpAddress("", 0)) as second:
        assert second.rpartition(":")[2] != url.rpartition(":")[2]


async def test_an_address_that_is_taken_is_said(places: NodePlaces) -> None:
    async with page(places) as url:
        port = int(url.rpartition(":")[2].strip("/"))
        with pytest.raises(SocketInUse):
            async with page(places, address=TcpAddress("127.0.0.1", port)):
                pass


@pytest.mark.parametrize("words", [("export", "--listen"), ("export", "--ui"), ("node", "up", "--ui")], ids=" ".join)
async def test_an_address_that_is_none_is_said(plugbay: Plugbay, words: tuple[str, ...]) -> None:
    done = await plugbay(*words, "nope")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("plugbay: error: 'nope' is not an address to listen at; it must be like ")
    assert done.err.count("\n") == 1


async def test_the_doctor_can_be_asked(places: NodePlaces) -> None:
    async with page(places) as url:
        diagnosis = json.loads((await get(url, "doctor.json"))[2])
        assert diagnosis["root"] == "/var/lib/kubelet"  # as the node names it
        assert str(places.host) not in json.dumps(diagnosis)
        assert not diagnosis["well"]  # no kubelet answers there
        assert {"id", "severity", "what", "evidence", "cause", "remedy"} <= diagnosis["findings"][0].keys()


async def test_a_fault_of_the_page_ends_nothing_but_is_logged(
    places: NodePlaces, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("plugbay.observe.page.serving._AGAIN_S", 0.01)
    faults, shown = [RuntimeError("boom")], asyncio.Event()

    async def read() -> ObservedNode:
        if faults:
            raise faults.pop()
        shown.set()
        return join(await read_node(places, now=SystemClock().now()))

    async with asyncio.timeout(20), background(keep_following(LiveNode(), read, places), name="page"):
        await shown.wait()
    assert "boom" in caplog.text
