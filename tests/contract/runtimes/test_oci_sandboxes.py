"""Sandboxes of the oci runtime: real namespaces, plugins that are programs of ours, and nodes that are killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from plugbay.errors import ContainerStartError, SandboxFailed
from plugbay.kernel.cgroups import clear_cgroup, hierarchies
from plugbay.kernel.namespaces import NamespaceKind, in_namespace
from plugbay.kernel.netns import is_netns, remove_netns
from plugbay.kernel.syscalls import system_call
from plugbay.kernel.tmpfs import unmount_all
from plugbay.model.ports import ContainerPort
from plugbay.model.resolution import DnsConfig, DnsPolicy, HostAlias
from plugbay.runtimes.oci.sandbox_plan import Rights
from plugbay.runtimes.oci.shared_directory import SHM_BYTES
from plugbay.runtimes.oci.shares import HOST, PodShares
from plugbay.runtimes.sandboxes import HostNamespace, Network, SandboxSpec
from tests.container_specs import wanting
from tests.contract.rigs.fake_cni import MAKES, PASSES
from tests.contract.rigs.oci_sandboxes import DEADLINE_S, POD, PROC, SPEC, Place, place

__all__ = ["place"]

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]


async def test_sandbox_is_made_once_and_taken_over_by_the_next_node(place: Place) -> None:
    spec = wanting(SPEC, ports=(ContainerPort(80, 8080), ContainerPort(81)))
    assert await place.node().run(spec) == ("10.1.0.5", "fd00::5")
    (netns,) = place.places.namespaces.iterdir()
    assert is_netns(netns)
    calls = place.machine.calls
    assert [each["environ"]["CNI_COMMAND"] for each in calls] == ["ADD", "ADD"]
    assert calls[0]["config"]["runtimeConfig"] == {
        "portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]
    }
    later = place.node()
    assert await later.run(spec) == ("10.1.0.5", "fd00::5")
    assert place.machine.calls == [], "nobody is asked again"
    assert (later.shares_of(POD).namespaces["network"], await later.pods()) == (str(netns), frozenset({POD}))
    await later.remove(POD)
    assert place.machine.called() == [("second", "DEL"), ("first", "DEL")]
    assert (place.left(), await later.pods()) == ([], frozenset())
    await later.remove(POD)


@pytest.mark.parametrize("default", Network)
async def test_pods_on_the_hosts_network_have_no_namespace(place: Place, default: Network) -> None:
    node = place.node(default)
    wanted = SPEC if default is Network.HOST else wanting(SPEC, network=Network.HOST)
    assert await node.run(wanted) == ()
    assert "network" not in node.shares_of(POD).namespaces
    assert (await node.pods(), place.machine.calls) == (frozenset({POD}), [])
    await node.remove(POD)
    assert place.left() == []


async def test_containers_share_ipc_their_name_and_memory(place: Place) -> None:
    node = place.node()
    await node.run(wanting(SPEC, hostname="gopher-host"))
    shares = node.shares_of(POD)
    assert set(shares.namespaces) == {"network", "ipc", "uts"}
    name = in_namespace(NamespaceKind.UTS, Path(shares.namespaces["uts"]), lambda: os.uname().nodename)
    assert (name, shares.hostname) == ("gopher-host", "gopher-host")
    texts = {each.mount.container_path: Path(each.mount.host_path).read_text() for each in shares.files}
    assert texts["/etc/hostname"] == "gopher-host\n"
    assert texts["/etc/hosts"].splitlines()[-2:] == ["10.1.0.5\tgopher-host", "fd00::5\tgopher-host"]
    memory = os.statvfs(shares.shm)
    assert memory.f_frsize * memory.f_blocks == SHM_BYTES
    await node.remove(POD)
    assert place.left() == []
    with pytest.raises(ContainerStartError, match=f"pod {POD} has no sandbox"):
        node.shares_of(POD)


@pytest.mark.parametrize(
    ("spec", "of_host", "of_pod"),
    [
        (wanting(SPEC, host_namespaces=frozenset({HostNamespace.PID})), {"pid"}, {"network", "ipc", "uts"}),
        (wanting(SPEC, host_namespaces=frozenset({HostNamespace.IPC})), {"ipc"}, {"network", "uts"}),
        (wanting(SPEC, network=Network.HOST), {"uts"}, {"ipc"}),
    ],
    ids=["hostPID", "hostIPC", "hostNetwork"],
)
async def test_what_is_the_hosts_is_not_made(
    place: Place, spec: SandboxSpec, of_host: set[str], of_pod: set[str]
) -> None:
    node = place.node()
    await node.run(spec)
    namespaces = node.shares_of(POD).namespaces
    assert {kind for kind, path in namespaces.items() if path == HOST} == of_host
    assert {kind for kind, path in namespaces.items() if path != HOST} == of_pod
    assert (node.shares_of(POD).shm == "/dev/shm") is ("ipc" in of_host)
    assert (node.shares_of(POD).hostname == os.uname().nodename) is ("uts" in of_host)
    assert await place.node().run(spec) == await node.run(spec), "it is whole"
    await node.remove(POD)
    assert place.left() == []


async def test_without_root_rights_nothing_is_shared_and_the_hosts_processes_are_refused(place: Place) -> None:
    node = place.node(Network.HOST, Rights.USER)
    assert await node.run(wanting(SPEC, hostname="gopher-host")) == ()
    shares = node.shares_of(POD)
    assert replace(shares, files=()) == PodShares(hostname="gopher-host")
    assert [each.mount.container_path for each in shares.files] == ["/etc/hostname"]
    await node.remove(POD)
    for kind, own in ((HostNamespace.PID, "a PID"), (HostNamespace.IPC, "an IPC")):
        problem = rf"spec\.host{kind.name}: a node without root rights gives each container {own} namespace"
        with pytest.raises(SandboxFailed, match=problem):
            await node.run(wanting(SPEC, host_namespaces=frozenset({kind})))
    assert place.left() == []


@pytest.mark.parametrize("text", [b"{", b'{"pod_uid":"\xff"}'])
async def test_a_sandbox_whose_record_is_damaged_is_removed_whole(place: Place, text: bytes) -> None:
    node = place.node()
    await node.run(SPEC)
    (record,) = place.places.records.glob("*.json")
    record.write_bytes(text)
    place.machine.called()
    assert await node.pods() == {POD}
    with pytest.raises(ContainerStartError, match="has no sandbox"):
        node.shares_of(POD)
    await node.remove(POD)
    assert place.machine.called() == [("second", "DEL"), ("first", "DEL")]
    assert (place.left(), await node.pods()) == ([], frozenset())


async def test_a_sandbox_whose_record_cannot_be_read_stays(place: Place) -> None:
    node = place.node()
    await node.run(SPEC)
    (record,) = place.places.records.glob("*.json")
    content = record.read_bytes()
    record.unlink()
    record.mkdir()  # cannot be read, as on a bad disk
    assert await node.pods() == {POD}
    for doing in (node.run(SPEC), node.stop(POD), node.remove(POD)):
        with pytest.raises(SandboxFailed, match="Is a directory"):
            await doing
    record.rmdir()
    record.write_bytes(content)
    await node.remove(POD)
    assert place.left() == []


async def test_what_is_shared_and_gone_is_made_anew(place: Place) -> None:
    await place.node().run(SPEC)
    before = place.node().shares_of(POD)
    unmount_all(Path(before.shm))
    await place.node().run(SPEC)
    assert os.path.ismount(place.node().shares_of(POD).shm)
    await place.node().remove(POD)
    assert place.left() == []


@pytest.mark.parametrize("default", Network)
async def test_what_is_shared_and_gone_is_made_anew_beside_what_runs(place: Place, default: Network) -> None:
    node = place.node(default)
    ips = await node.run(SPEC)
    before = node.shares_of(POD).namespaces.get("network")
    unmount_all(Path(node.shares_of(POD).shm))
    next((place.root / "shared").glob("*/hostname")).unlink()
    place.machine.called()
    async with running(place) as runs:
        assert await place.node(default).run(SPEC) == ips
        shares = node.shares_of(POD)
        assert os.path.ismount(shares.shm)
        assert {each.mount.container_path for each in shares.files} >= {"/etc/hostname"}
        assert all(Path(each.mount.host_path).exists() for each in shares.files)
        assert (shares.namespaces.get("network"), place.machine.calls) == (before, []), "nobody touches the network"
        assert before is None or is_netns(Path(before))
        assert runs.returncode is None
    await node.remove(POD)
    assert place.left() == []


async def test_what_runs_without_its_network_ends_before_that_is_made_anew(place: Place) -> None:
    """As after a restart of a node that had mounts of its own: an empty file is left of the namespace."""
    await place.node().run(SPEC)
    (netns,) = place.places.namespaces.iterdir()
    system_call("umount2", os.fsencode(netns), 2)
    place.machine.install(
        "first", 'if command == "DEL" and os.environ.get("CNI_NETNS"): fail(5, "no namespace")\n' + MAKES
    )
    async with running(place) as runs:
        assert await place.node().run(SPEC) == ("10.1.0.5", "fd00::5")
        async with asyncio.timeout(DEADLINE_S):
            assert await runs.wait() == -signal.SIGKILL
    assert is_netns(netns)
    place.machine.install("first", MAKES)
    await place.node().remove(POD)
    assert place.left() == []


@pytest.mark.parametrize("default", Network)
async def test_containers_that_want_it_at_once_get_the_same_one(place: Place, default: Network) -> None:
    node = place.node(default)
    for lost in ("all is still to be made", "hostname"):
        for each in (place.root / "shared").glob(f"*/{lost}"):
            each.unlink()
        wanted = [node.run(SPEC) for _ in range(5)]
        async with asyncio.timeout(DEADLINE_S):
            (ips,) = set(await asyncio.gather(*wanted))
        assert ips == (("10.1.0.5", "fd00::5") if default is Network.POD else ())
        assert await node.pods() == {POD}
    assert place.machine.called() == ([("first", "ADD"), ("second", "ADD")] if default is Network.POD else [])
    await node.remove(POD)
    assert place.left() == []


@asynccontextmanager
async def running(place: Place) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process as of one of the pod's containers."""
    cgroup = hierarchies(proc_root=PROC)[0] / f"{place.places.cgroup_parent}-{POD}"
    cgroup.mkdir()
    process = await asyncio.create_subprocess_exec("sleep", "600")
    try:
        (cgroup / "cgroup.procs").write_text(str(process.pid))
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await clear_cgroup(cgroup.name, proc_root=PROC, within_s=DEADLINE_S)


async def test_files_and_kernel_parameters_are_the_pods(place: Place) -> None:
    node = place.node()
    wanted = wanting(
        SPEC,
        host_aliases=(HostAlias("10.9.9.9", ("burrow",)),),
        dns_policy=DnsPolicy.NONE,
        dns=DnsConfig(("10.0.0.2",)),
        sysctls={"net.ipv4.tcp_fin_timeout": "33", "kernel.msgmax": "4096"},
    )
    await node.run(wanted)
    shares = node.shares_of(POD)
    files = {each.wanted_by: Path(each.mount.host_path).read_text() for each in shares.files}
    assert files["spec.dnsConfig"] == "nameserver 10.0.0.2\n"
    assert files["spec.hostAliases"].splitlines()[-1] == "10.9.9.9\tburrow"
    assert "10.1.0.5\tweb" in files["spec.hostAliases"]
    for kind, entry, file, value in (
        (NamespaceKind.NETWORK, "network", "net/ipv4/tcp_fin_timeout", "33\n"),
        (NamespaceKind.IPC, "ipc", "kernel/msgmax", "4096\n"),
    ):
        parameter = PROC / "sys" / file
        assert in_namespace(kind, Path(shares.namespaces[entry]), parameter.read_text) == value
        assert parameter.read_text() != value
    await node.remove(POD)
    assert place.left() == []


async def test_plugins_are_told_what_containerd_tells_them(place: Place) -> None:
    told = ("dns", "cgroupPath", "io.kubernetes.cri.pod-annotations", "portMappings")
    plugins = [{"type": "first", "capabilities": dict.fromkeys(told, True)}, {"type": "second"}]
    document = {"cniVersion": "1.0.0", "name": "net", "plugins": plugins}
    (place.root / "conf" / "10-net.conflist").write_text(json.dumps(document))
    node = place.node()
    await node.run(wanting(SPEC, annotations={"a": "b"}, dns=DnsConfig(("10.0.0.2",))))
    one, two = place.machine.calls
    assert one["config"]["runtimeConfig"] == {
        "dns": {"servers": ["10.0.0.1", "10.0.0.2"], "searches": ["host.example"], "options": ["ndots:1"]},
        "cgroupPath": f"/{place.places.cgroup_parent}-{POD}",
        "io.kubernetes.cri.pod-annotations": {"a": "b"},
    }
    assert "runtimeConfig" not in two["config"]
    await node.remove(POD)
    assert [each["config"].get("runtimeConfig") == one["config"]["runtimeConfig"] for each in place.machine.calls] == [
        False,
        True,
    ]
    assert place.left() == []


async def test_namespace_that_is_gone_is_made_anew(place: Place) -> None:
    """As after a reboot: the record is there, what it tells of is not."""
    await place.node().run(SPEC)
    (netns,) = place.places.namespaces.iterdir()
    remove_netns(netns)
    place.machine.called()
    assert await place.node().run(SPEC) == ("10.1.0.5", "fd00::5")
    assert place.machine.called() == [("second", "DEL"), ("first", "DEL"), ("first", "ADD"), ("second", "ADD")]
    assert is_netns(netns)
    await place.node().remove(POD)
    assert place.left() == []


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        (wanting(SPEC, runtime_class="kata"), 'runtimeclass.node.k8s.io "kata" not found'),
        (wanting(SPEC, shares_processes=True), "spec.shareProcessNamespace: the oci runtime gives each"),
        (
            wanting(SPEC, sysctls={"kernel.shmmax": "1"}, host_namespaces=frozenset({HostNamespace.IPC})),
            "shmmax takes a pod with its own IPC namespace",
        ),
        (
            wanting(SPEC, sysctls={"net.ipv4.tcp_syncookies": "1"}, network=Network.HOST),
            r"spec\.securityContext\.sysctls: net\.ipv4\.tcp_syncookies takes a pod with its own network namespace",
        ),
        (wanting(SPEC, sysctls={"vm.swappiness": "1"}), "vm.swappiness is of no namespace"),
        (wanting(SPEC, annotations={"kubernetes.io/egress-bandwidth": "1"}), "unreasonably small"),
        (
            wanting(SPEC, annotations={"kubernetes.io/egress-bandwidth": "1M"}),
            "no plugin with the capability bandwidth",
        ),
    ],
    ids=[
        "runtime class",
        "shared namespaces",
        "host's IPC",
        "host's network",
        "host's memory",
        "malformed bandwidth",
        "bandwidth that nobody serves",
    ],
)
async def test_what_cannot_be_is_refused_before_anything_is_made(place: Place, spec: SandboxSpec, problem: str) -> None:
    with pytest.raises(SandboxFailed, match=problem):
        await place.node().run(spec)
    assert (place.left(), place.machine.calls) == ([], [])


NODE = """
import asyncio, sys
from pathlib import Path
from tests.contract.rigs.oci_sandboxes import SPEC, Place

place = Place(Path(sys.argv[1]))
node = place.node()
asyncio.run(node.run(SPEC) if sys.argv[2] == "run" else node.remove(SPEC.pod.uid))
"""
KILL = "os.kill(os.getppid(), 9)"
"""A plugin's parent is the node."""


@pytest.mark.parametrize("step", ["run", "remove"])
@pytest.mark.parametrize("plugin", ["first", "second"])
@pytest.mark.parametrize("moment", ["before", "after"])
async def test_node_killed_anywhere_leaves_what_the_next_one_removes(
    place: Place, step: str, plugin: str, moment: str
) -> None:
    bodies = {"first": MAKES, "second": PASSES}
    command = "ADD" if step == "run" else "DEL"
    kill = f'\nif command == "{command}": {KILL}\n'
    if step == "remove":
        await place.node().run(SPEC)
    place.machine.install(plugin, kill + bodies[plugin] if moment == "before" else bodies[plugin] + kill)
    node = await asyncio.create_subprocess_exec(sys.executable, "-c", NODE, str(place.root), step)
    async with asyncio.timeout(DEADLINE_S):
        assert await node.wait() == -signal.SIGKILL
    for name, body in bodies.items():
        place.machine.install(name, body)
    later = place.node()
    assert await later.pods() == {POD}
    place.machine.called()
    await later.remove(POD)
    assert ("first", "DEL") in place.machine.called()
    assert place.left() == []
    assert await later.run(SPEC) == ("10.1.0.5", "fd00::5"), "the place is free"
    await later.remove(POD)
