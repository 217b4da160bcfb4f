"""Operations over networks, with plugins that are programs of ours."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import select
import signal
import subprocess
from pathlib import Path

import pytest

from plugbay.cni.chain import Attachment
from plugbay.cni.exclusion import Exclusion
from plugbay.cni.result import Result
from plugbay.cni.runtime import CniRuntime
from plugbay.documents import JsonObject
from plugbay.errors import InvalidNetworkConfig, NetworkBusy, NetworkPluginFailed, NetworkPluginMissing, PathUnusable
from tests.contract.rigs.fake_cni import MAKES, PASSES, Machine, network

DEADLINE_S = 30
C1 = Attachment("c1", "/run/netns/c1", "eth0", (("IgnoreUnknown", "1"), ("K8S_POD_NAME", "web")))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = Machine(tmp_path, environ={"KEPT": "yes", "CNI_COMMAND": "overridden", "CNI_NETNS_OVERRIDE": "1"})
    made.install("first", MAKES)
    made.install("second", PASSES)
    return made


async def test_add_goes_through_the_chain(machine: Machine) -> None:
    result = await machine.runtime.attach(network("first", "second"), C1)
    assert [str(each.address) for each in result.ips] == ["10.1.0.5/24", "fd00::5/64"]
    first, second = machine.calls
    assert (first["plugin"], second["plugin"]) == ("first", "second")
    assert first["environ"] == {
        "CNI_COMMAND": "ADD",
        "CNI_CONTAINERID": "c1",
        "CNI_NETNS": "/run/netns/c1",
        "CNI_IFNAME": "eth0",
        "CNI_ARGS": "IgnoreUnknown=1;K8S_POD_NAME=web",
        "CNI_PATH": ":".join(map(str, machine.plugins.directories)),
        "CNI_NETNS_OVERRIDE": "1",
    }
    assert "prevResult" not in first["config"]
    assert second["config"]["prevResult"]["ips"][0] == {"address": "10.1.0.5/24", "interface": 0}


async def test_del_goes_back_with_the_result_and_forgets_it(machine: Machine) -> None:
    net = network("first", "second")
    await machine.runtime.attach(net, C1)
    assert machine.calls
    await machine.runtime.detach(net, C1)
    second, first = machine.calls
    assert (first["plugin"], second["plugin"]) == ("first", "second")
    assert first["config"]["prevResult"] == second["config"]["prevResult"]
    assert first["config"]["prevResult"]["cniVersion"] == "1.0.0"
    assert not list(machine.results.iterdir())


async def test_del_can_be_repeated_and_comes_without_add(machine: Machine) -> None:
    gone = Attachment("c1", "")
    for _ in range(2):
        await machine.runtime.detach(network("first", "second"), gone)
    calls = machine.calls
    assert [each["plugin"] for each in calls] == ["second", "first"] * 2
    assert all("prevResult" not in each["config"] and each["environ"]["CNI_NETNS"] == "" for each in calls)


async def test_del_before_0_4_is_not_told_the_result(machine: Machine) -> None:
    net = network("first", version="0.3.1")
    await machine.runtime.attach(net, C1)
    await machine.runtime.detach(net, C1)
    assert ["prevResult" in each["config"] for each in machine.calls] == [False, False]


async def test_failed_add_stops_and_caches_nothing(machine: Machine) -> None:
    machine.install("fails", 'fail(11, "not now", "later")')
    with pytest.raises(NetworkPluginFailed) as failure:
        await machine.runtime.attach(network("first", "fails", "second"), C1)
    assert (failure.value.code, failure.value.message, failure.value.details) == (11, "not now", "later")
    assert str(failure.value) == 'plugin type="fails" failed (add): not now; later'
    assert machine.called() == [("first", "ADD"), ("fails", "ADD")]
    assert not machine.results.exists()


async def test_failed_del_keeps_the_result(machine: Machine) -> None:
    net = network("first", "second")
    await machine.runtime.attach(net, C1)
    machine.install("second", 'fail(100, "stuck")')
    with pytest.raises(NetworkPluginFailed, match=re.escape('plugin type="second" failed (delete): stuck')):
        await machine.runtime.detach(net, C1)
    assert machine.called()[2:] == [("second", "DEL")]
    assert [each.name for each in machine.results.iterdir()] == ["net-c1-eth0"]


async def test_cached_result_is_as_libcni_writes_it(machine: Machine) -> None:
    net = network({"type": "first", "capabilities": {"mac": True}})
    attachment = Attachment(
        "c1", "/run/netns/c1", args=(("A", "b"),), capabilities={"mac": "02::", "ips": ["10.1.0.9"]}
    )
    await machine.runtime.attach(net, attachment)
    path = machine.results / "net-c1-eth0"
    cached = json.loads(path.read_bytes())
    assert base64.b64decode(cached.pop("config")) == net.content
    assert cached.pop("result")["ips"][0]["address"] == "10.1.0.5/24"
    assert cached == {
        "kind": "cniCacheV1",
        "containerId": "c1",
        "ifName": "eth0",
        "networkName": "net",
        "netns": "/run/netns/c1",
        "cniArgs": [["A", "b"]],
        "capabilityArgs": {"mac": "02::", "ips": ["10.1.0.9"]},
    }
    assert (path.stat().st_mode & 0o777, machine.results.stat().st_mode & 0o777) == (0o600, 0o700)


async def test_plugins_get_the_capabilities_they_declare(machine: Machine) -> None:
    first = {"type": "first", "capabilities": {"mac": True, "ips": False, "dns": True}}
    capabilities: JsonObject = {"mac": "02:00:00:00:00:01", "ips": ["10.1.0.9"]}
    await machine.runtime.attach(network(first, "second"), Attachment("c1", "/n", capabilities=capabilities))
    one, two = machine.calls
    assert one["config"]["runtimeConfig"] == {"mac": "02:00:00:00:00:01"}
    assert one["config"]["capabilities"] == first["capabilities"], "as libcni passes it"
    assert "runtimeConfig" not in two["config"]


async def test_everything_remembered_is_undone_without_configuration(machine: Machine) -> None:
    net = network({"type": "first", "capabilities": {"mac": True}})
    for ifname in ("eth0", "net1"):
        await machine.runtime.attach(net, Attachment("c1", "/n", ifname, (("A", ifname),), {"mac": ifname}))
    await machine.runtime.attach(net, Attachment("c2", "/n"))
    assert machine.calls
    undone = await machine.runtime.detach_cached("c1", netns="")
    calls = machine.calls
    assert [each.attachment.ifname for each in undone] == ["eth0", "net1"]
    assert [each["environ"]["CNI_IFNAME"] for each in calls] == ["net1", "eth0"]
    assert [each["environ"]["CNI_ARGS"] for each in calls] == ["A=net1", "A=eth0"]
    assert [each["environ"]["CNI_NETNS"] for each in calls] == ["", ""]
    assert [each["config"]["runtimeConfig"]["mac"] for each in calls] == ["net1", "eth0"]
    assert [each.name for each in machine.results.iterdir()] == ["net-c2-eth0"]


async def test_previous_result_has_the_lists_version(machine: Machine) -> None:
    machine.install("old", 'print(json.dumps({"cniVersion": "0.2.0", "ip4": {"ip": "10.1.0.7/24"}}))')
    await machine.runtime.attach(network("old", "second", version="1.1.0"), C1)
    _, second = machine.calls
    assert second["config"]["prevResult"] == {"cniVersion": "1.1.0", "ips": [{"address": "10.1.0.7/24"}]}


async def test_result_without_version_is_of_the_lists(machine: Machine) -> None:
    machine.install("silent", "print('null')")
    assert await machine.runtime.attach(network("silent", version="0.4.0"), C1) == Result("0.4.0")


async def test_legacy_cache_is_read(machine: Machine) -> None:
    machine.results.mkdir(parents=True)
    old = {"cniVersion": "0.4.0", "ips": [{"version": "4", "address": "10.1.0.8/24"}]}
    (machine.results / "net-c1-eth0").write_text(json.dumps(old))
    await machine.runtime.detach(network("first"), C1)
    assert machine.calls[0]["config"]["prevResult"] == {"cniVersion": "1.0.0", "ips": [{"address": "10.1.0.8/24"}]}


@pytest.mark.parametrize(
    "content", ["", "{", '{"kind":"cniCacheV1","containerId":5}', '{"ips":[{"address":"x"}]}', "[]"]
)
async def test_damaged_cache_is_ignored_and_removed(machine: Machine, content: str) -> None:
    machine.results.mkdir(parents=True)
    (machine.results / "net-c1-eth0").write_text(content)
    await machine.runtime.detach(network("first"), C1)
    assert "prevResult" not in machine.calls[0]["config"]
    assert not list(machine.results.iterdir())


async def test_check_with_a_damaged_cache_fails_and_leaves_it(machine: Machine) -> None:
    net = network("first")
    await machine.runtime.attach(net, C1)
    assert machine.calls
    (machine.results / "net-c1-eth0").write_text("{")
    with pytest.raises(PathUnusable, match=r"net-c1-eth0: is damaged: not JSON"):
        await machine.runtime.check(net, C1)
    assert not machine.calls
    assert (machine.results / "net-c1-eth0").read_text() == "{"


async def test_check_asks_everyone_in_order(machine: Machine) -> None:
    net = network("first", "second")
    await machine.runtime.attach(net, C1)
    assert machine.calls
    await machine.runtime.check(net, C1)
    calls = machine.calls
    assert [(each["plugin"], each["environ"]["CNI_COMMAND"]) for each in calls] == [
        ("first", "CHECK"),
        ("second", "CHECK"),
    ]
    assert all(each["config"]["prevResult"]["ips"] for each in calls)


async def test_check_can_be_switched_off(machine: Machine) -> None:
    await machine.runtime.check(network("first", disableCheck=True), C1)
    assert not machine.calls


async def test_check_needs_0_4(machine: Machine) -> None:
    with pytest.raises(InvalidNetworkConfig, match=r"version 0\.3\.1 does not support the CHECK command"):
        await machine.runtime.check(network("first", version="0.3.1", disableCheck=True), C1)


async def test_status_is_asked_from_1_1_on(machine: Machine) -> None:
    machine.install("second", 'if command == "STATUS": fail(50, "not available")')
    await machine.runtime.status(network("first", "second", version="1.0.0"))
    assert not machine.calls
    with pytest.raises(NetworkPluginFailed) as failure:
        await machine.runtime.status(network("first", "second", "first", version="1.1.0"))
    assert failure.value.code == 50
    first, second = machine.calls
    assert (first["plugin"], second["plugin"]) == ("first", "second")
    nothing = {"CNI_CONTAINERID": "", "CNI_NETNS": "", "CNI_IFNAME": "", "CNI_ARGS": ""}
    assert nothing.items() <= first["environ"].items()


async def test_garbage_is_detached_and_told(machine: Machine) -> None:
    net = network("first", "second", version="1.1.0")
    for container in ("c1", "c2", "c3"):
        await machine.runtime.attach(net, Attachment(container, f"/{container}", args=(("A", container),)))
    await machine.runtime.attach(network("first", name="other"), Attachment("c4", "/c4"))
    assert machine.calls
    assert await machine.runtime.collect_garbage(net, [("c2", "eth0")]) == []
    calls = machine.calls
    told = [(each["plugin"], each["environ"]["CNI_COMMAND"], each["environ"]["CNI_ARGS"]) for each in calls]
    assert told == [
        *[(plugin, "DEL", f"A={container}") for container in ("c1", "c3") for plugin in ("second", "first")],
        ("first", "GC", ""),
        ("second", "GC", ""),
    ]
    valid = [{"containerID": "c2", "ifname": "eth0"}]
    assert calls[-1]["config"]["cni.dev/valid-attachments"] == calls[-1]["config"]["cni.dev/attachments"] == valid
    assert sorted(each.name for each in machine.results.iterdir()) == ["net-c2-eth0", "other-c4-eth0"]


async def test_garbage_with_a_damaged_result_is_detached_without_it(machine: Machine) -> None:
    net = network("first")
    await machine.runtime.attach(net, C1)
    assert machine.calls
    path = machine.results / "net-c1-eth0"
    path.write_text(path.read_text().replace("10.1.0.5/24", "nowhere"))
    assert await machine.runtime.collect_garbage(net, []) == []
    (told,) = machine.calls
    assert (told["environ"]["CNI_COMMAND"], "prevResult" in told["config"]) == ("DEL", False)
    assert not list(machine.results.iterdir())


async def test_garbage_collection_goes_on_after_failures(machine: Machine) -> None:
    net = network("first", version="1.1.0")
    for container in ("c1", "c2"):
        await machine.runtime.attach(net, Attachment(container, "/n"))
    machine.install("first", 'fail(100, command + os.environ["CNI_CONTAINERID"])')
    failed = await machine.runtime.collect_garbage(net, [])
    assert [each.message for each in failed if isinstance(each, NetworkPluginFailed)] == ["DELc1", "DELc2", "GC"]


async def test_garbage_collection_can_be_switched_off(machine: Machine) -> None:
    net = network("first", disableGC=True)
    await machine.runtime.attach(net, C1)
    assert machine.calls
    await machine.runtime.collect_garbage(net, [])
    assert not machine.calls


async def test_what_is_begun_is_remembered_until_it_is_undone(machine: Machine) -> None:
    """As after a SIGKILL in the middle of ADD: by another process, without today's configuration."""
    net = network({"type": "first", "capabilities": {"mac": True}}, "fails")
    machine.install("fails", 'if command == "ADD": fail(11, "not now")')
    with pytest.raises(NetworkPluginFailed):
        await machine.runtime.attach(net, Attachment("c1", "/n", args=(("A", "b"),), capabilities={"mac": "x"}))
    assert machine.calls
    undone = await CniRuntime(machine.plugins, machine.runtime.cache).detach_cached("c1")
    assert [(each.network, each.result) for each in undone] == [("net", None)]
    _, first = machine.calls
    assert (first["plugin"], first["environ"]["CNI_ARGS"], first["environ"]["CNI_NETNS"]) == ("first", "A=b", "/n")
    assert first["config"]["runtimeConfig"] == {"mac": "x"}
    assert "prevResult" not in first["config"]
    assert machine.runtime.cache.entries() == []


async def test_garbage_includes_what_was_only_begun(machine: Machine) -> None:
    net = network("first", "fails")
    machine.install("fails", 'if command == "ADD": fail(11, "not now")')
    with pytest.raises(NetworkPluginFailed):
        await machine.runtime.attach(net, C1)
    assert await machine.runtime.collect_garbage(net, []) == []
    assert machine.called()[2:] == [("fails", "DEL"), ("first", "DEL")]
    assert machine.runtime.cache.entries() == []


async def test_newest_version_that_all_plugins_take_is_used(machine: Machine) -> None:
    old = PASSES + 'if command == "VERSION": print("{}")'
    head = Path(machine.binaries / "first").read_text().split("if command ==")[0]
    versions = '{"cniVersion": "1.0.0", "supportedVersions": ["0.3.1", "0.4.0", "1.0.0"]}'
    machine.install("second", f"if command == 'VERSION': print({versions!r}); sys.exit(0)\n" + old, head=head)
    net = network("first", "second", version="0.3.1", cniVersions=["0.4.0", "1.0.0", "1.1.0", "7.0.0"])
    result = await machine.runtime.attach(net, C1)
    await machine.runtime.detach(net, C1)
    told = [each["config"]["cniVersion"] for each in machine.calls if each["environ"]["CNI_COMMAND"] != "VERSION"]
    assert (result.version, told) == ("1.0.0", ["1.0.0"] * 4)


async def test_missing_binary_is_named(machine: Machine) -> None:
    (machine.binaries / "folder").mkdir()
    for name in ("calico", "folder", "../bin/first"):
        with pytest.raises(NetworkPluginMissing, match=re.escape(f'failed to find plugin "{name}" in path [')):
            await machine.runtime.attach(network("first", name), C1)
    assert (machine.called(), machine.runtime.cache.entries()) == ([], []), "nothing was done"


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("print('garbage')", "its answer is not a result: not JSON: "),
        ('print(\'{"cniVersion": "1.0.0", "ips"\')', "its answer is not a result: not JSON: "),
        ("", "its answer is not a result: is empty"),
        ("print('{\"ips\": 5}')", "its answer is not a result: ips is a number, not a list"),
        (
            'print(\'{"cniVersion": "7.0.0"}\')',
            'its answer is not a result: unsupported CNI result version "7.0.0"',
        ),
        ("sys.exit(3)", "netplugin failed with no error message: exit status 3"),
        ("import signal; os.kill(os.getpid(), 9)", "netplugin failed with no error message: signal: killed"),
        ("sys.exit('ouch')", 'netplugin failed: "ouch"'),
        ("print('{'); sys.exit(1)", "netplugin failed but error parsing its diagnostic message"),
        ('print("{}", end=""); fail(8, "same namespace")', "same namespace"),
        ("while True: print('x' * 65536)", "printed without end and was killed"),
    ],
    ids=["garbage", "partial", "nothing", "shape", "version", "silent", "signal", "stderr", "half", "two", "endless"],
)
async def test_bad_answer_is_told(machine: Machine, body: str, problem: str) -> None:
    machine.install("bad", body)
    with pytest.raises(NetworkPluginFailed) as failure:
        await machine.runtime.attach(network("bad"), C1)
    assert problem in failure.value.message
    assert str(failure.value).startswith('plugin type="bad" failed (add): ')


async def test_program_that_cannot_run_is_told(machine: Machine) -> None:
    machine.install("bad", "").chmod(0o644)
    with pytest.raises(NetworkPluginFailed, match=r"cannot run .*/bad: Permission denied"):
        await machine.runtime.attach(network("bad"), C1)
    machine.install("bad", "", head="#!/no/such/interpreter\n")
    with pytest.raises(NetworkPluginFailed, match=r"cannot run .*/bad: No such file or directory"):
        await machine.runtime.attach(network("bad"), C1)


async def test_binary_that_is_just_written_is_tried_again(machine: Machine) -> None:
    path = machine.binaries / "first"
    with path.open("a"):
        if can_run(path):
            pytest.skip("this kernel runs what is open for writing")
        async with asyncio.TaskGroup() as tasks:
            adding = tasks.create_task(machine.runtime.attach(network("first"), C1))
            done, _ = await asyncio.wait([adding], timeout=0.5)
            assert not done, "it waits for whoever writes"
            os.replace(machine.install("written", MAKES), path)
    assert adding.result().ips


async def test_plugin_may_ignore_its_input(machine: Machine) -> None:
    machine.install("deaf", "echo '{}'", head="#!/bin/sh\n")
    large = {"type": "deaf", "vendor": "x" * 1_000_000}
    assert await machine.runtime.attach(network(large), C1) == Result("1.0.0")


async def test_hung_plugin_is_killed_with_its_children(tmp_path: Path) -> None:
    machine = Machine(tmp_path, timeout_s=2.0)
    beside = tmp_path / "pids"
    # In sh, which has written the numbers long before the time is up.
    machine.install("hangs", f"trap '' TERM; sleep 600 & echo $$ $! > {beside}; sleep 600", head="#!/bin/sh\n")
    with pytest.raises(NetworkPluginFailed, match=r"/hangs did not end within 2 s and was killed"):
        await machine.runtime.attach(network("hangs"), C1)
    pids = [int(each) for each in beside.read_text().split()]
    assert len(pids) == 2
    await asyncio.to_thread(await_ends, pids)


async def test_cancelled_operation_kills_its_plugin(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    fifo = tmp_path / "started"
    os.mkfifo(fifo)
    machine.install("hangs", f"import time; open({str(fifo)!r}, 'w').write(str(os.getpid())); time.sleep(600)")
    async with asyncio.TaskGroup() as tasks:
        operation = tasks.create_task(machine.runtime.attach(network("hangs"), C1))
        pid = int(await asyncio.to_thread(fifo.read_text))
        operation.cancel()
    await asyncio.to_thread(await_ends, [pid])


async def test_daemon_left_behind_does_not_hold_up(machine: Machine) -> None:
    """A plugin's child that keeps the output open; it is not killed, as it may serve the network."""
    machine.install(
        "forks",
        "import time\n"
        "if os.fork() == 0: time.sleep(600)\n"
        "print(json.dumps({'cniVersion': '1.0.0', 'dns': {'domain': str(os.getpid())}}), flush=True)\n"
        "os._exit(0)",
    )
    async with asyncio.timeout(DEADLINE_S):
        result = await machine.runtime.attach(network("forks"), C1)
    os.killpg(int(result.dns.domain), signal.SIGKILL)


async def test_operations_on_one_container_wait_for_each_other(machine: Machine, tmp_path: Path) -> None:
    """The second plugin fails if another call is between its first and its last line."""
    marker = tmp_path / "busy"
    machine.install(
        "alone", f"import time; m = {str(marker)!r}; os.mkdir(m); time.sleep(0.1); os.rmdir(m); print('{{}}')"
    )
    other = CniRuntime(machine.plugins, machine.runtime.cache)
    async with asyncio.TaskGroup() as tasks:
        for runtime in (machine.runtime, other) * 3:
            tasks.create_task(runtime.attach(network("alone"), C1))


async def test_other_containers_do_not_wait(machine: Machine, tmp_path: Path) -> None:
    fifo = tmp_path / "meet"
    os.mkfifo(fifo)
    # Each end of the pipe opens only when the other does.
    machine.install(
        "meets", f"open({str(fifo)!r}, 'r' if os.environ['CNI_CONTAINERID'] == 'c1' else 'w').close(); print('{{}}')"
    )
    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as tasks:
        for container in ("c1", "c2"):
            tasks.create_task(machine.runtime.attach(network("meets"), Attachment(container, "/n")))


async def test_waiting_ends(tmp_path: Path) -> None:
    patient, hasty = (Exclusion(tmp_path, timeout_s=each) for each in (DEADLINE_S, 0.05))
    async with patient.of_container("net", "c1"):
        with pytest.raises(NetworkBusy, match='another process is at work on the networks of container "c1"'):
            async with hasty.of_container("net", "c1"):
                raise AssertionError("both have it")
        with pytest.raises(NetworkBusy):
            async with hasty.of_network("net"):
                raise AssertionError("both have it")
        async with hasty.of_container("net", "c2"), hasty.of_network("other"):
            pass
    async with patient.of_network("net"):
        with pytest.raises(NetworkBusy):
            async with hasty.of_container("net", "c3"):
                raise AssertionError("both have it")
    async with patient.of_container("net", "c1"), patient.of_container("net", "c3"):
        pass


def can_run(path: Path) -> bool:
    try:
        subprocess.run([path], check=False, capture_output=True, stdin=subprocess.DEVNULL)
    except OSError:
        return False
    return True


def await_ends(pids: list[int]) -> None:
    """Wait until none of the processes runs; they need not be our children."""
    for pid in pids:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        with os.fdopen(descriptor) as process:
            assert select.select([process], [], [], DEADLINE_S)[0], f"{pid} still runs"
