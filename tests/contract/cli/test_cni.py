"""``plugbay cni`` as a process, with plugins that are programs of ours."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest

from tests.contract.conftest import Plugbay
from tests.contract.rigs.cni_command import GOOD, Cni


@pytest.fixture
def cni(plugbay: Plugbay, tmp_path: Path) -> Cni:
    return Cni(plugbay, tmp_path)


async def test_container_is_attached_checked_and_detached(cni: Cni) -> None:
    cni.configure()
    added = await cni(
        "add", "c1", "--netns", "/run/netns/c1", "--port", "8080:80", "--args", "A=b;C=d", "--args", "E=f"
    )
    assert added.code == 0, added
    assert json.loads(added.out)["ips"][0] == {"address": "10.1.0.5/24", "interface": 0}
    first, _ = cni.machine.calls
    assert first["environ"]["CNI_ARGS"] == "A=b;C=d;E=f"
    mapping = {"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}
    assert first["config"]["runtimeConfig"] == {"portMappings": [mapping]}
    assert await cni("check", "c1") == (0, "", "")
    assert await cni("del", "c1") == (0, "", "")
    calls = cni.machine.calls
    assert [(each["plugin"], each["environ"]["CNI_COMMAND"]) for each in calls] == [
        *(("first", "CHECK"), ("second", "CHECK"), ("second", "DEL"), ("first", "DEL"))
    ]
    for each in calls:
        assert each["environ"]["CNI_ARGS"] == "A=b;C=d;E=f", "what it was given then"
        assert each["environ"]["CNI_NETNS"] == "/run/netns/c1"
    assert calls[-1]["config"]["runtimeConfig"] == {"portMappings": [mapping]}


async def test_namespace_may_be_a_name(cni: Cni) -> None:
    cni.configure()
    assert (await cni("add", "c1", "--netns", "web")).code == 0
    assert cni.machine.calls[0]["environ"]["CNI_NETNS"] == "/var/run/netns/web"


async def test_failed_add_is_undone(cni: Cni) -> None:
    cni.configure()
    cni.machine.install("second", 'if command == "ADD": fail(11, "not now", "later")')
    failed = await cni("add", "c1", "--netns", "/n", "-o", "json")
    assert failed.code == 1
    assert json.loads(failed.out) == {"code": 11, "msg": "not now", "details": "later"}
    assert failed.err == 'plugbay: error: plugin type="second" failed (add): not now; later\n'
    assert cni.machine.called() == [("first", "ADD"), ("second", "ADD"), ("second", "DEL"), ("first", "DEL")]


async def test_second_add_does_not_undo_the_first(cni: Cni) -> None:
    cni.configure()
    assert (await cni("add", "c1", "--netns", "/n")).code == 0
    assert cni.machine.calls
    again = await cni("add", "c1", "--netns", "/n")
    assert again == (2, "", "plugbay: error: container c1 is on network net already; see `plugbay cni del`\n")
    assert not cni.machine.calls
    assert (await cni("add", "c1", "--netns", "/n", "--ifname", "net1")).code == 0


async def test_one_of_several_interfaces_is_detached(cni: Cni) -> None:
    cni.configure()
    for ifname in ("eth0", "net1"):
        assert (await cni("add", "c1", "--netns", "/n", "--ifname", ifname)).code == 0
    assert await cni("del", "c1", "--ifname", "net1", "--netns", "/other") == (0, "", "")
    assert [each.name for each in cni.machine.results.iterdir()] == ["net-c1-eth0"]
    assert {each["environ"]["CNI_NETNS"] for each in cni.machine.calls[-2:]} == {"/other"}


async def test_arguments_of_del_are_used(cni: Cni) -> None:
    cni.configure()
    assert (await cni("add", "c1", "--netns", "/n", "--port", "8080:80", "--args", "A=b")).code == 0
    assert await cni("del", "c1", "--port", "8081:81", "--args", "C=d") == (0, "", "")
    first = cni.machine.calls[-1]
    assert first["environ"]["CNI_ARGS"] == "C=d"
    assert [each["hostPort"] for each in first["config"]["runtimeConfig"]["portMappings"]] == [8081]


async def test_hung_plugin_is_ended(cni: Cni) -> None:
    cni.configure()
    for name in ("first", "second"):  # in sh, which undoes it long before the time is up
        cni.machine.install(name, 'if [ "$CNI_COMMAND" = ADD ]; then sleep 600; fi\n', head="#!/bin/sh\n")
    hung = await cni("add", "c1", "--netns", "/n", "--timeout", "2s")
    assert hung.code == 1
    assert hung.err.endswith("/first did not end within 2 s and was killed\n")


async def test_killed_add_can_be_undone(cni: Cni, tmp_path: Path) -> None:
    """SIGKILL in the middle: the plugins are asked to undo what they did, with or without what is remembered."""
    fifo = tmp_path / "started"
    os.mkfifo(fifo)
    cni.configure()
    hang = f"import time\nif command == 'ADD': open({str(fifo)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    cni.machine.install("second", hang)
    async with cni.start("add", "c1", "--netns", "/n") as process:
        orphan = int(await asyncio.to_thread(fifo.read_text))
        process.kill()
        await process.wait()
    os.kill(orphan, signal.SIGKILL)
    assert cni.machine.calls
    assert await cni("del", "c1") == (0, "", "")
    assert cni.machine.called() == [("second", "DEL"), ("first", "DEL")]


async def test_garbage_needs_an_answer_about_what_to_keep(cni: Cni) -> None:
    cni.configure()
    for container in ("c1", "c2"):
        await cni("add", container, "--netns", "/n")
    assert cni.machine.calls
    asked = await cni("gc")
    assert (asked.code, asked.out) == (2, "")
    assert "one of the arguments --keep --keep-none is required" in asked.err
    assert await cni("gc", "--keep", "c1", "--keep", "c9:net1") == (0, "", "")
    assert {each["environ"]["CNI_CONTAINERID"] for each in cni.machine.calls} == {"c2"}


async def test_status_tells_who_is_ready(cni: Cni) -> None:
    cni.configure("10-net.conflist", GOOD | {"cniVersion": "1.1.0"})
    cni.configure("20-gone.conf", {"name": "gone", "cniVersion": "1.0.0", "type": "nope"})
    cni.configure("30-bad.conflist", "{")
    shown = await cni("status")
    assert shown.code == 1
    lines = [line.split(None, 4) for line in shown.out.splitlines()]
    assert lines[0] == ["NETWORK", "VERSION", "PLUGINS", "READY", "REASON"]
    assert lines[1] == ["net", "1.1.0", "first,second", "True"]
    assert lines[2][:4] == ["gone", "1.0.0", "nope", "False"]
    assert lines[3][:4] == ["<none>", "<none>", "<none>", "False"]
    assert cni.machine.called() == [("first", "STATUS"), ("second", "STATUS")]
    one = await cni("status", "--network", "net", "-o", "json")
    ready = {"ready": True, "reason": "", "plugins": ["first", "second"], "network": "net", "cniVersion": "1.1.0"}
    assert (one.code, json.loads(one.out)) == (0, [ready])


async def test_status_names_a_version_that_nobody_knows(cni: Cni) -> None:
    cni.configure("10-net.conflist", GOOD | {"cniVersion": "9.9.9"})
    shown = await cni("status")
    assert shown.code == 1
    assert shown.out.splitlines()[1].split(None, 4)[3:] == [
        "False",
        "9.9.9 is not a version of the CNI specification that plugbay knows; there are "
        "0.1.0, 0.2.0, 0.3.0, 0.3.1, 0.4.0, 1.0.0, 1.1.0",
    ]
    assert cni.machine.called() == []


async def test_versions_are_asked(cni: Cni) -> None:
    cni.machine.install("old", 'if command == "VERSION": fail(4, "unknown CNI_COMMAND: VERSION")', head=OLD)
    shown = await cni("version")
    assert shown == (
        0,
        "PLUGIN   VERSIONS\nfirst    0.4.0, 1.0.0, 1.1.0\nold      0.1.0\nsecond   0.4.0, 1.0.0, 1.1.0\n",
        "",
    )
    assert (await cni("version", "nope")).out == "", "no table without a row"
    missing = await cni("version", "first", "nope", "-o", "json")
    assert missing.code == 1
    assert [each["plugin"] for each in json.loads(missing.out)] == ["first"]
    assert missing.err.startswith('plugbay: error: failed to find plugin "nope" in path [')


async def test_no_plugin_is_said_beside_the_output(plugbay: Plugbay, tmp_path: Path) -> None:
    assert await plugbay("cni", "version", "--bin-dir", str(tmp_path)) == (0, "", "No CNI plugins found.\n")


OLD = """#!/bin/sh
echo '{"code": 4, "msg": "unknown CNI_COMMAND: VERSION"}'; exit 1
"""


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("add", "../x", "--netns", "/n"), 'container ID "../x" has to begin with'),
        (("add", "c1", "--netns", "/n", "--ifname", "a/b"), 'interface name "a/b" contains / or : or whitespace'),
        (("add", "c1", "--netns", "/n", "--ifname", "x" * 16), "is longer than 15 bytes"),
        (("add", "c1", "--netns", "/n", "--args", "novalue"), "--args wants NAME=VALUE, found 'novalue'"),
        (("add", "c1", "--netns", "/n", "--args", "a=b=c"), 'argument "a=b=c" needs a name, and can hold no'),
        (("add", "c1", "--netns", "/n", "--port", "99999:80"), "host port 99999 is not between 0 and 65535"),
        (("add", "c1", "--netns", "/n", "--port", "80"), "wants [IP:]HOST:CONTAINER[/PROTOCOL]"),
        (("add", "c1", "--netns", "/n", "--port", "80:80/icmp"), "'ICMP' is not a valid Protocol"),
        (("add", "c1", "--netns", "/n", "--capability", "mac={"), "--capability mac: not JSON"),
        (("add", "c1", "--netns", "/n", "--annotation", "kubernetes.io/ingress-bandwidth=5"), "unreasonably small"),
        (("add", "c1", "--netns", "/n", "--network", "nope"), 'no CNI network named "nope" in '),
        (("add", "c1", "--netns", "/n", "--timeout", "0"), "wants a time above 0"),
        (("validate", "/nope.conflist"), "/nope.conflist: cannot be read: No such file or directory"),
        (("validate", "--annotation", "kubernetes.io/egress-bandwidth=x"), "is not a number"),
    ],
)
async def test_nonsense_is_refused_before_anything_runs(cni: Cni, argv: tuple[str, ...], message: str) -> None:
    cni.configure()
    refused = await cni(*argv)
    assert refused.code in (1, 2)
    assert message in refused.err
    assert refused.err.startswith("plugbay: error: ")
    assert (refused.out, cni.machine.called()) == ("", [])


async def test_no_network_is_told(cni: Cni) -> None:
    told = f"plugbay: error: no CNI network in {cni.conf}; put a .conflist file there\n"
    for argv in (("add", "c1", "--netns", "/n"), ("del", "c1"), ("status",), ("validate",)):
        assert await cni(*argv) == (1, "", told)
