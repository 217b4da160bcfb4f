"""Containers on a scripted engine: what is asked of it, and what its answers come to."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from plugbay.errors import ContainerStartError, ExecFailed, InstanceNotFound, InstanceUnreadable, RpcCode, RpcFailed
from plugbay.model.edits import ContainerEdits
from plugbay.model.ids import ContainerName, PodUid
from plugbay.model.resolution import DnsConfig, DnsPolicy, HostAlias
from plugbay.model.security import Seccomp, Security
from plugbay.runtimes.cri.config import Conventions
from plugbay.runtimes.cri.runtime import CriEngine, CriRuntime
from plugbay.runtimes.cri.sandboxes import CriSandboxes
from plugbay.runtimes.exec_input import Console, ExecInput
from plugbay.runtimes.port import ContainerId, ExecExit, ExecOutput, ExecStream, RunState
from plugbay.runtimes.sandboxes import Network
from plugbay.testing.clock import ManualClock
from plugbay.wire.cri import CriClient
from plugbay.wire.generated import cri_v1_pb2 as v1
from tests.container_specs import changed, sandbox_spec
from tests.unit.runtimes.cri.scripted_engine import ScriptedEngine
from tests.unit.runtimes.cri.scripted_runtime import SPEC, TRAITS, UID, Runtime, mounts, runtime

__all__ = ["runtime"]


# --- starting -------------------------------------------------------------------------------------------------------


async def test_a_second_start_of_one_attempt_finds_the_first(engine: ScriptedEngine, runtime: Runtime) -> None:
    first = await runtime.start(SPEC)
    assert first.image_id == "sha256:1"
    assert (await runtime.start(SPEC)).id == first.id
    assert len(engine.asked("CreateContainer")) == 1


async def test_what_was_only_created_is_made_anew(engine: ScriptedEngine, runtime: Runtime) -> None:
    engine.failures["StartContainer"] = [RpcFailed(RpcCode.UNAVAILABLE, "down")]
    with pytest.raises(ContainerStartError, match="the container engine is away: down"):
        await runtime.start(SPEC)
    assert (await runtime.start(SPEC)).state is RunState.RUNNING
    assert len(engine.containers) == 1


async def test_a_refused_creation_waits_and_a_refused_start_has_ended(engine: ScriptedEngine, runtime: Runtime) -> None:
    engine.failures["CreateContainer"] = [RpcFailed(RpcCode.UNKNOWN, "not a device node")]
    with pytest.raises(ContainerStartError, match="not a device node") as refused:
        await runtime.start(SPEC)
    assert refused.value.reason == "CreateContainerError"
    engine.failures["StartContainer"] = [RpcFailed(RpcCode.UNKNOWN, "no such file")]
    with pytest.raises(ContainerStartError, match="no such file") as refused:
        await runtime.start(SPEC)
    assert refused.value.reason == "StartError"
    assert engine.containers == {}


@pytest.mark.parametrize("way", ["list", "wait"])
async def test_a_container_the_engine_has_lost_sight_of_is_stopped(
    engine: ScriptedEngine, runtime: Runtime, way: str
) -> None:
    started = await runtime.start(SPEC)
    engine.containers[started.id].state = v1.CONTAINER_UNKNOWN
    engine.failures["StopContainer"] = [RpcFailed(RpcCode.UNKNOWN, "no task"), None]
    if way == "list":
        assert [each.state for each in await runtime.list()] == [RunState.UNKNOWN]
        assert [each.state for each in await runtime.list()] == [RunState.LOST]
    else:
        with pytest.raises(InstanceUnreadable, match="no task"):
            await runtime.wait(started.id)
        assert (await runtime.wait(started.id)).state is RunState.LOST
    assert len(engine.asked("StopContainer")) == 2


async def test_an_engine_that_answers_nonsense_says_nothing_of_a_container(
    engine: ScriptedEngine, runtime: Runtime
) -> None:
    started = await runtime.start(SPEC)
    whole = v1.ContainerStatus()
    whole.CopyFrom(engine.containers[started.id])
    for nonsense in (v1.ContainerStatus(), v1.ContainerStatus(id=started.id, state=v1.CONTAINER_EXITED)):
        engine.containers[started.id].CopyFrom(nonsense)
        with pytest.raises(InstanceUnreadable):
            await runtime.stop(started.id, grace_s=0)
    engine.containers[started.id].CopyFrom(whole)
    engine.failures["ContainerStatus"] = [RpcFailed(RpcCode.INTERNAL, "bad database")]
    with pytest.raises(InstanceUnreadable, match="bad database"):
        await runtime.wait(started.id)


async def test_who_must_not_be_root_waits_with_a_reason(runtime: Runtime) -> None:
    with pytest.raises(ContainerStartError, match="image will run as root") as refused:
        await runtime.start(changed(SPEC, security=Security(run_as_non_root=True)))
    assert refused.value.reason == "CreateContainerConfigError"


async def test_surroundings_are_passed_on(engine: ScriptedEngine, runtime: Runtime) -> None:
    security = Security(fs_group=7, supplemental_groups=(7, 8), seccomp=Seccomp.RUNTIME_DEFAULT)
    sandbox = sandbox_spec(
        PodUid("2"),
        "ns",
        "other",
        security=replace(security, supplemental_groups=(8,)),
        dns_policy=DnsPolicy.NONE,
        dns=DnsConfig(("10.0.0.9",), ("a.example",), ("ndots:5",)),
        host_aliases=(HostAlias("10.0.0.7", ("seven",)),),
        sysctls={"net.ipv4.tcp_syncookies": "0"},
        shares_processes=True,
    )
    await runtime.sandboxes.run(sandbox)
    await runtime.start(changed(SPEC, uid=PodUid("2"), pod="other", security=security))
    made = engine.asked("RunPodSandbox")[-1].config
    assert (list(made.dns_config.servers), list(made.dns_config.options)) == (["10.0.0.9"], ["ndots:5"])
    assert dict(made.linux.sysctls) == {"net.ipv4.tcp_syncookies": "0"}
    assert list(made.linux.security_context.supplemental_groups) == [7, 8]
    own = engine.asked("CreateContainer")[-1].config.linux.security_context
    assert (list(own.supplemental_groups), own.seccomp.profile_type, own.namespace_options.pid) == ([7, 8], 0, 0)
    hosts = mounts(engine)["/etc/hosts"].read_text()
    assert hosts.endswith("10.0.0.1\tother\nfd00::1\tother\n\n# Entries added by HostAliases.\n10.0.0.7\tseven\n")


async def test_aliases_stand_behind_the_hosts_own_on_its_network(engine: ScriptedEngine, runtime: Runtime) -> None:
    alias = HostAlias("10.0.0.7", ("seven",))
    on_host = sandbox_spec(PodUid("2"), "ns", "other", network=Network.HOST, host_aliases=(alias,))
    await runtime.sandboxes.run(on_host)
    await runtime.start(changed(SPEC, uid=PodUid("2"), pod="other"))
    hosts = mounts(engine)["/etc/hosts"].read_text()
    assert hosts == "127.0.0.1\tmachine\n\n# Entries added by HostAliases.\n10.0.0.7\tseven\n"


async def test_what_the_engine_lost_is_lost(engine: ScriptedEngine, runtime: Runtime) -> None:
    started = await runtime.start(SPEC)
    engine.containers.clear()
    with pytest.raises(InstanceNotFound):
        await runtime.wait(started.id)
    with pytest.raises(InstanceNotFound):
        [item async for item in runtime.exec(started.id, ("true",))]
    await runtime.remove(started.id)


# --- commands -------------------------------------------------------------------------------------------------------


async def test_a_command_without_input_runs_to_its_end(runtime: Runtime) -> None:
    started = await runtime.start(SPEC)
    assert [item async for item in runtime.exec(started.id, ("true",))] == [
        ExecOutput(ExecStream.STDOUT, b"out"),
        ExecOutput(ExecStream.STDERR, b"err"),
        ExecExit(7),
    ]


@pytest.mark.parametrize(("console", "tty"), [(Console.PIPES, False), (Console.TERMINAL, True)])
async def test_a_command_with_input_is_asked_for_by_its_streams(
    engine: ScriptedEngine, runtime: Runtime, console: Console, tty: bool
) -> None:
    started = await runtime.start(SPEC)
    with pytest.raises(ExecFailed, match=r"streams at 127\.0\.0\.1:1 cannot be reached: connection refused"):
        [item async for item in runtime.exec(started.id, ("sh",), ExecInput(console))]
    (asked,) = engine.asked("Exec")
    assert (asked.stdin, asked.stdout, asked.stderr, asked.tty, list(asked.cmd)) == (True, True, not tty, tty, ["sh"])


@pytest.mark.parametrize("gives_input", [False, True])
@pytest.mark.parametrize(("console", "tty"), [(Console.PIPES, False), (Console.TERMINAL, True)])
async def test_a_container_is_attached_to_by_its_streams(
    engine: ScriptedEngine, runtime: Runtime, console: Console, tty: bool, gives_input: bool
) -> None:
    started = await runtime.start(changed(SPEC, stdin=True, stdin_once=True, tty=tty))
    (made,) = engine.asked("CreateContainer")
    assert (made.config.stdin, made.config.stdin_once, made.config.tty) == (True, True, tty)
    with pytest.raises(ExecFailed, match=r"streams at 127\.0\.0\.1:1 cannot be reached: connection refused"):
        [item async for item in runtime.attach(started.id, ExecInput(console), gives_input=gives_input)]
    (asked,) = engine.asked("Attach")
    assert (asked.stdin, asked.stdout, asked.stderr, asked.tty) == (gives_input, True, not tty, tty)


async def test_a_command_that_the_engine_refuses_says_why(engine: ScriptedEngine, runtime: Runtime) -> None:
    engine.failures["Exec"] = [RpcFailed(RpcCode.UNKNOWN, "container is in CONTAINER_EXITED state")]
    with pytest.raises(ExecFailed, match="container is in CONTAINER_EXITED state"):
        [item async for item in runtime.exec(ContainerId("c"), ("sh",), ExecInput(Console.PIPES))]


# --- other engines --------------------------------------------------------------------------------------------------


async def test_an_engine_that_stops_what_it_does_not_know_is_believed(engine: ScriptedEngine, runtime: Runtime) -> None:
    """containerd since 1.7; before it said that there is no such container."""
    engine.stops_unknown = True
    with pytest.raises(InstanceNotFound):
        await runtime.stop(ContainerId("gone"), grace_s=1)
    engine.stops_unknown = False
    with pytest.raises(InstanceNotFound):
        await runtime.stop(ContainerId("gone"), grace_s=1)


@pytest.mark.parametrize("injects", [True, False])
async def test_cdi_names_are_for_engines_that_know_them(
    engine: ScriptedEngine, client: CriClient, conventions: Conventions, tmp_path: Path, injects: bool
) -> None:
    """Those that do not are told what the names come to."""
    devices = [{"name": "d", "containerEdits": {"env": ["CDI=yes"], "additionalGids": [777]}}]
    spec = {"cdiVersion": "0.7.0", "kind": "example.com/cdi", "devices": devices}
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    sandboxes = CriSandboxes(client, conventions)
    await sandboxes.run(sandbox_spec(UID, "ns", "web"))
    traits = replace(TRAITS, injects_cdi=injects)
    runtime = CriRuntime(CriEngine(client, traits, (tmp_path,)), sandboxes, conventions, ManualClock())
    await runtime.start(changed(SPEC, edits=ContainerEdits(cdi_devices=("example.com/cdi=d",))))
    made = engine.asked("CreateContainer")[-1].config
    assert [each.name for each in made.CDI_devices] == ["example.com/cdi=d"]
    assert [(each.key, each.value) for each in made.envs] == ([] if injects else [("CDI", b"yes")])
    assert list(made.linux.security_context.supplemental_groups) == ([] if injects else [777])


@pytest.mark.parametrize("message", ["context canceled", "start failed: : signal: killed: unknown", "exec failed"])
async def test_a_start_that_nobody_saw_fail_is_tried_again(
    engine: ScriptedEngine, client: CriClient, conventions: Conventions, runtime: Runtime, message: str
) -> None:
    """The node was killed in the middle of it: its successor finds a container that never ran, and makes it anew."""
    started = await runtime.start(SPEC)
    engine.end(started.id, 128, "StartError", message)
    engine.containers[started.id].started_at = 0
    successor = Runtime(client, conventions)
    assert await successor.list() == []
    assert engine.containers == {}
    await successor.sandboxes.run(sandbox_spec(UID, "ns", "web"))
    assert (await successor.start(SPEC)).state is RunState.RUNNING


class Passing(ManualClock):
    """Waiting costs nothing."""

    async def sleep(self, seconds: float) -> None:
        self.advance(seconds)


class Learning(Passing):
    """The engine learns meanwhile that memory was short."""

    def __init__(self, engine: ScriptedEngine, *, after: int) -> None:
        super().__init__()
        self.engine, self.left = engine, after

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds)
        self.left -= 1
        if self.left == 0:
            for status in self.engine.containers.values():
                status.reason = "OOMKilled"


@pytest.mark.parametrize(("after", "reason"), [(1, "OOMKilled"), (5, "OOMKilled"), (1_000, "Error")])
async def test_an_engine_has_time_to_learn_why_a_container_was_killed(
    engine: ScriptedEngine, client: CriClient, conventions: Conventions, runtime: Runtime, after: int, reason: str
) -> None:
    started = await runtime.start(SPEC)
    engine.end(started.id, 137, "Error")
    successor = Runtime(client, conventions, Learning(engine, after=after))
    ended = await successor.wait(started.id)
    assert (ended.exit_code, ended.reason) == (137, reason)


async def test_a_container_that_is_stopped_is_over_at_once(
    engine: ScriptedEngine, client: CriClient, conventions: Conventions, runtime: Runtime
) -> None:
    started = await runtime.start(SPEC)
    successor = Runtime(client, conventions, Learning(engine, after=1))
    assert (await successor.stop(started.id, grace_s=0)).reason == "Error"


@pytest.mark.parametrize(("refusals", "left"), [(1, 0), (1_000, 1)], ids=["a-while", "for-good"])
async def test_an_engine_that_still_clears_a_broken_start_is_waited_for(
    engine: ScriptedEngine, client: CriClient, conventions: Conventions, runtime: Runtime, refusals: int, left: int
) -> None:
    """Seen with containerd 1.6: the task of a container whose start was broken off cannot be deleted yet."""
    started = await runtime.start(SPEC)
    engine.containers[started.id].state = v1.CONTAINER_CREATED
    engine.failures["RemoveContainer"] = [
        RpcFailed(RpcCode.FAILED_PRECONDITION, "cannot delete running task")
    ] * refusals
    successor = Runtime(client, conventions, Passing())
    assert await successor.list() == []
    assert len(engine.containers) == left


async def test_what_ran_is_found_again_whatever_its_end(
    engine: ScriptedEngine, client: CriClient, conventions: Conventions, runtime: Runtime
) -> None:
    started = await runtime.start(SPEC)
    engine.end(started.id, 128, "Error", "context canceled")
    (found,) = await Runtime(client, conventions).list()
    assert (found.state, found.exit_code) == (RunState.EXITED, 128)


async def test_one_of_which_the_engine_knows_only_half_is_found_again(
    engine: ScriptedEngine, client: CriClient, conventions: Conventions, runtime: Runtime
) -> None:
    """As containerd does when somebody removed the container, but not through CRI."""
    started = await runtime.start(SPEC)
    engine.end(started.id, 137, "Error")
    engine.failures["ContainerStatus"] = [RpcFailed(RpcCode.NOT_FOUND, "failed to get verbose container info")]
    (found,) = await Runtime(client, conventions).list()
    assert (found.id, found.exit_code) == (started.id, 137)
    engine.failures["RemoveContainer"] = [RpcFailed(RpcCode.NOT_FOUND, "get container info: not found")]
    await runtime.remove(started.id)


async def test_one_that_is_removed_while_all_are_listed_is_passed_over(
    engine: ScriptedEngine, client: CriClient, conventions: Conventions, runtime: Runtime
) -> None:
    await runtime.start(SPEC)
    other = await runtime.start(changed(SPEC, name=ContainerName("other")))
    gone = RpcFailed(RpcCode.NOT_FOUND, "not found")
    engine.failures["ContainerStatus"] = [gone, gone, None]
    assert [each.id for each in await Runtime(client, conventions).list()] == [other.id]


async def test_an_equal_pod_of_another_node_on_the_engine_is_not_taken_for_ours(
    engine: ScriptedEngine, client: CriClient, conventions: Conventions, runtime: Runtime
) -> None:
    """Static pods have the UIDs that their manifests come to."""
    theirs = Runtime(client, replace(conventions, node="other"))
    await theirs.sandboxes.run(sandbox_spec(UID, "ns", "web"))
    started = await theirs.start(SPEC)
    assert (await runtime.start(SPEC)).id != started.id
