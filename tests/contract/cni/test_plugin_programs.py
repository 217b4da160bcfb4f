"""Network plugins as programs: bad answers, hangs, children that stay, and turns."""

from __future__ import annotations

import asyncio
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
from plugbay.errors import NetworkBusy, NetworkPluginFailed, NetworkPluginMissing
from tests.contract.cni.runtime_parts import C1, machine
from tests.contract.rigs.fake_cni import MAKES, PASSES, Machine, network

__all__ = ["machine"]

DEADLINE_S = 30


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
