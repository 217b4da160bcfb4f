"""What containers of one pod have together, and what is the host's, with real engines."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest

from plugbay.cni.cache import ResultCache
from plugbay.cni.invoke import Plugins
from plugbay.cni.runtime import CniRuntime
from plugbay.kernel.files import write_durably
from plugbay.model.ids import ContainerName
from plugbay.model.resolution import DnsConfig, HostAlias
from plugbay.model.security import Seccomp, Security
from plugbay.runtimes.oci.confinement import Grounds, OciConfinement
from plugbay.runtimes.oci.network import PodNetwork
from plugbay.runtimes.oci.pod_files import HostFiles
from plugbay.runtimes.oci.sandboxes import OciSandboxes, SandboxPlaces
from plugbay.runtimes.port import ContainerSpec
from plugbay.runtimes.sandboxes import HostNamespace, Network, SandboxSpec
from plugbay.runtimes.supervised.runtime import SupervisedRuntime
from tests.container_specs import changed, sandbox_spec
from tests.contract.rigs.oci import POD, Places, output_of, places, run, runtime_on, spec, why_not
from tests.contract.rigs.process import PROC, first_line, sh, until_ended

__all__ = ["places", "spec"]

pytestmark = [pytest.mark.root, pytest.mark.skipif(bool(why_not()), reason=why_not())]

NAMESPACES = "for each in ipc uts pid net; do readlink /proc/self/ns/$each; done"


@asynccontextmanager
async def pod(places: Places, wanted: SandboxSpec) -> AsyncIterator[SupervisedRuntime]:
    """A runtime, and the sandbox of its pod on the host's network."""
    root = places.instances.parent
    network = PodNetwork(
        CniRuntime(Plugins((), environ={}), ResultCache(root / "cni", write=write_durably)), root, proc_root=PROC
    )
    sandboxes = OciSandboxes(
        SandboxPlaces(root / "sandboxes", root / "netns", root / "shared", places.cgroup_parent),
        network,
        default=Network.HOST,
        has_handler=lambda name: not name,
        host=HostFiles("127.0.0.1 of-the-host\n", DnsConfig(("10.0.0.1",), ("host.example",), ("ndots:1",))),
    )
    await sandboxes.run(wanted)
    grounds = Grounds(places.view, places.cgroup_parent, (), (), shares_of=sandboxes.shares_of)
    confinement = OciConfinement(places.engine, grounds)
    runtime = SupervisedRuntime(
        places.instances, environ=os.environ, clock=lambda: datetime.now(UTC), confinement=confinement
    )
    try:
        async with runtime_on(places):
            yield runtime
    finally:
        await sandboxes.remove(POD)


def own(kind: str) -> str:
    return os.readlink(f"/proc/self/ns/{kind}")


@pytest.mark.skipif(shutil.which("ipcmk") is None, reason="needs ipcmk")
async def test_containers_of_a_pod_share_ipc_memory_and_name_but_no_processes(
    places: Places, spec: ContainerSpec
) -> None:
    shown = "a-name-that-is-much-longer-than-a-host-name-may-be-and-is-cut"
    name = f"{shown}.-in-the-middle"
    async with pod(places, sandbox_spec(POD, "default", name)) as runtime:
        first = await runtime.start(changed(spec, pod=name))
        assert (await run(runtime, first.id, "sh", "-c", "ipcmk -Q >&2; echo gopher > /dev/shm/note"))[2] == 0
        script = f"{NAMESPACES}; hostname; cat /etc/hostname; echo $HOSTNAME; cat /dev/shm/note; ipcs -q | grep -c 0x"
        ours = (await run(runtime, first.id, "sh", "-c", NAMESPACES))[0].split()
        other = sh(changed(spec, pod=name, name=ContainerName("other")), script)
        ipc, uts, pid, net, *said = (await output_of(runtime, other)).split()
    assert (ipc, uts, net) == (ours[0], ours[1], ours[3])
    assert pid != ours[2]
    assert said == [shown] * 3 + ["gopher", "1"]
    assert own("ipc") != ipc
    assert own("uts") != uts
    assert own("net") == net


@pytest.mark.parametrize("kind", HostNamespace)
async def test_pod_that_asks_for_it_has_the_hosts(places: Places, spec: ContainerSpec, kind: HostNamespace) -> None:
    async with pod(places, sandbox_spec(POD, "default", "gopher-pod", host_namespaces=frozenset({kind}))) as runtime:
        found = dict(zip(("ipc", "uts", "pid"), (await output_of(runtime, sh(spec, NAMESPACES))).split(), strict=False))
        shown = await output_of(runtime, sh(changed(spec, attempt=1), "stat -f -c %b /dev/shm"))
    assert {each: found[each] == own(each) for each in found} == {each: each == kind.value for each in found}
    host_blocks = os.statvfs("/dev/shm").f_blocks
    assert (int(shown) == host_blocks) is (kind is HostNamespace.IPC or host_blocks == 2**14)


async def test_pod_on_the_hosts_network_is_called_like_the_host(places: Places, spec: ContainerSpec) -> None:
    async with pod(places, sandbox_spec(POD, "default", "gopher-pod", network=Network.HOST)) as runtime:
        said = (await output_of(runtime, sh(spec, "readlink /proc/self/ns/uts; hostname; echo $HOSTNAME"))).split()
    assert said == [own("uts"), os.uname().nodename, os.uname().nodename]


async def test_processes_left_in_the_hosts_pid_namespace_end_with_the_container(
    places: Places, spec: ContainerSpec
) -> None:
    wanted = sandbox_spec(POD, "default", "gopher-pod", host_namespaces=frozenset({HostNamespace.PID}))
    async with pod(places, wanted) as runtime:
        state = await runtime.start(sh(spec, "setsid sleep 600 & echo $!; wait"))
        left = int(await first_line(runtime, state.id))
        await runtime.remove(state.id)
        await until_ended(left)


async def test_names_and_kernel_parameters_are_the_pods(places: Places, spec: ContainerSpec) -> None:
    wanted = sandbox_spec(
        POD,
        "default",
        "gopher-pod",
        host_aliases=(HostAlias("10.9.9.9", ("burrow", "burrow.example")),),
        dns=DnsConfig(("10.0.0.2",), ("pod.example",), ("ndots:3", "rotate")),
        sysctls={"kernel.shm_rmid_forced": "1"},
    )
    before = (PROC / "sys/kernel/shm_rmid_forced").read_text()
    script = "cat /etc/resolv.conf; echo; cat /etc/hosts; cat /proc/sys/kernel/shm_rmid_forced"
    async with pod(places, wanted) as runtime:
        dns, _, rest = (await output_of(runtime, sh(spec, script))).partition("\n\n")
    assert dns.splitlines() == [
        "search host.example pod.example",
        "nameserver 10.0.0.1",
        "nameserver 10.0.0.2",
        "options ndots:3 rotate",
    ]
    hosts = rest.splitlines()
    assert (hosts[0], hosts[-2:]) == ("127.0.0.1 of-the-host", ["10.9.9.9\tburrow\tburrow.example", "1"])
    assert (PROC / "sys/kernel/shm_rmid_forced").read_text() == before


async def test_default_profile_refuses_what_no_container_needs(places: Places, spec: ContainerSpec) -> None:
    """Other namespaces are for everybody to make, unless a filter says no."""
    script = "grep Seccomp: /proc/self/status; unshare --user true 2>/dev/null || echo refused; echo runs"
    async with runtime_on(places) as runtime:
        said = []
        for attempt, security in enumerate((Security(seccomp=Seccomp.RUNTIME_DEFAULT), Security())):
            said.append(
                (await output_of(runtime, changed(sh(spec, script), attempt=attempt, security=security))).split()
            )
    ours = next(line.split()[1] for line in (PROC / "self/status").read_text().splitlines() if line[:8] == "Seccomp:")
    assert [each[:2] for each in said] == [["Seccomp:", "2"], ["Seccomp:", ours]]
    assert [each[-1] for each in said] == ["runs", "runs"]
    if "refused" in said[1]:
        pytest.skip("nobody without rights makes namespaces here, with the profile or without it")
    assert "refused" in said[0]
