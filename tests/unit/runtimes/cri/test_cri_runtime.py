"""Containers on a scripted engine: what is asked of it, and what its answers come to."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from plugbay.errors import ContainerStartError, ExecFailed, InstanceNotFound, InstanceUnreadable, RpcCode, RpcFailed
from plugbay.model.cri import CgroupDriver, EngineVersion
from plugbay.model.edits import ContainerEdits
from plugbay.model.ids import ContainerName, PodUid
from plugbay.model.images import PullPolicy
from plugbay.model.registry_logins import PullAccess, RegistryLogin
from plugbay.model.resolution import DnsConfig, DnsPolicy, HostAlias
from plugbay.model.security import Seccomp, Security
from plugbay.model.termination import MessagePolicy, TerminationMessage
from plugbay.runtimes.cri.config import Conventions
from plugbay.runtimes.cri.engine import EngineTraits
from plugbay.runtimes.cri.images import elapsed
from plugbay.runtimes.cri.runtime import CriEngine, CriRuntime
from plugbay.runtimes.cri.sandboxes import CriSandboxes
from plugbay.runtimes.exec_input import Console, ExecInput
from plugbay.runtimes.port import ContainerId, ContainerSpec, ExecExit, ExecOutput, ExecStream, Notice, RunState
from plugbay.runtimes.sandboxes import Network
from plugbay.testing.clock import ManualClock
from plugbay.wire.cri import CriClient
from plugbay.wire.generated import cri_v1_pb2 as v1
from tests.container_specs import changed, container_spec, sandbox_spec
from tests.unit.runtimes.cri.scripted_engine import ScriptedEngine

UID = PodUid("0c1-2")
SPEC = container_spec(
    uid=UID,
    namespace="ns",
    name=ContainerName("main"),
    image="img:1",
    command=("run",),
    args=(),
    pull_policy=PullPolicy.IF_NOT_PRESENT,
)
TRAITS = EngineTraits(EngineVersion("containerd", "1.6.20"), CgroupDriver.CGROUPFS, injects_cdi=False)


class Runtime(CriRuntime):
    """The runtime with a pod's sandbox to hand, and what it tells."""

    def __init__(self, client: CriClient, conventions: Conventions, clock: ManualClock | None = None) -> None:
        self.clock = clock or ManualClock()
        self.sandboxes = CriSandboxes(client, conventions)
        super().__init__(CriEngine(client, TRAITS, ()), self.sandboxes, conventions, self.clock)
        self.told: list[Notice] = []

    async def tries(self, spec: ContainerSpec) -> str:
        """The reason why it does not start, and what was told; empty when it might."""
        self.told.clear()
        try:
            await self.prepare(spec, self.told.append)
        except ContainerStartError as error:
            return error.reason
        return ""

    @property
    def reasons(self) -> list[str]:
        return [each.reason for each in self.told]


@pytest.fixture
async def runtime(client: CriClient, conventions: Conventions) -> Runtime:
    made = Runtime(client, conventions)
    await made.sandboxes.run(sandbox_spec(UID, "ns", "web"))
    return made


def mounts(engine: ScriptedEngine) -> dict[str, Path]:
    """Of the newest container."""
    return {each.container_path: Path(each.host_path) for each in engine.asked("CreateContainer")[-1].config.mounts}


# --- images ---------------------------------------------------------------------------------------------------------


async def test_an_image_that_is_there_is_not_pulled(engine: ScriptedEngine, runtime: Runtime) -> None:
    assert await runtime.tries(SPEC) == ""
    assert [each.message for each in runtime.told] == [
        'Container image "img:1" already present on machine and can be accessed by the pod'
    ]
    assert engine.asked("PullImage") == []


async def test_one_that_is_not_is_pulled_and_told_of(engine: ScriptedEngine, runtime: Runtime) -> None:
    engine.pullable = {"new:latest"}
    assert await runtime.tries(changed(SPEC, image="new")) == ""
    assert [(each.reason, each.message) for each in runtime.told] == [
        ("Pulling", 'Pulling image "new"'),
        ("Pulled", 'Successfully pulled image "new" in 0s (0s including waiting). Image size: 0 bytes.'),
    ]


async def test_always_pulls_what_is_there(engine: ScriptedEngine, runtime: Runtime) -> None:
    engine.pullable = {"img:1"}
    assert await runtime.tries(changed(SPEC, pull_policy=PullPolicy.ALWAYS)) == ""
    assert runtime.reasons == ["Pulling", "Pulled"]


@pytest.mark.parametrize(
    ("image", "policy", "reason", "events"),
    [
        pytest.param("none:1", PullPolicy.NEVER, "ErrImageNeverPull", ["ErrImageNeverPull"], id="never"),
        pytest.param("none:1", PullPolicy.IF_NOT_PRESENT, "ErrImagePull", ["Pulling", "Failed"], id="no-such-image"),
        pytest.param("No/Name", PullPolicy.ALWAYS, "InvalidImageName", ["InspectFailed"], id="no-name"),
    ],
)
async def test_why_an_image_is_not_there(
    runtime: Runtime, image: str, policy: PullPolicy, reason: str, events: list[str]
) -> None:
    assert await runtime.tries(changed(SPEC, image=image, pull_policy=policy)) == reason
    assert runtime.reasons == events


async def test_an_engine_that_cannot_look_says_so(engine: ScriptedEngine, runtime: Runtime) -> None:
    engine.failures["ImageStatus"] = [RpcFailed(RpcCode.UNAVAILABLE, "down")]
    assert await runtime.tries(SPEC) == "ImageInspectError"
    assert [each.message for each in runtime.told] == [
        'Failed to inspect image "img:1": rpc error: code = Unavailable desc = down'
    ]


async def test_an_image_is_pulled_with_the_logins_of_its_pod(engine: ScriptedEngine, runtime: Runtime) -> None:
    engine.pullable, engine.passwords = {"r.example/a:1"}, {"r.example/a:1": "right"}
    wanted = changed(SPEC, image="r.example/a:1")
    assert await runtime.tries(wanted) == "ErrImagePull"
    logins = tuple(
        RegistryLogin(place, "u", word) for place, word in (("r.example/a", "wrong"), ("r.example", "right"))
    )
    assert await runtime.tries(replace(wanted, pull=PullAccess(logins))) == "", "at once, as the logins are new"
    assert [each.auth.password for each in engine.asked("PullImage")] == ["", "wrong", "right"]


async def test_a_missing_secret_is_told_before_the_pull(engine: ScriptedEngine, runtime: Runtime) -> None:
    engine.pullable = {"new:1"}
    assert await runtime.tries(replace(changed(SPEC, image="new:1"), pull=PullAccess(missing=("one", "two")))) == ""
    assert runtime.reasons == ["FailedToRetrieveImagePullSecret", "Pulling", "Pulled"]
    assert runtime.told[0].message == (
        "Unable to retrieve some image pull secrets (one, two); attempting to pull the image may not succeed."
    )


async def test_a_failed_pull_is_left_alone_for_longer_and_longer(engine: ScriptedEngine, runtime: Runtime) -> None:
    wanted = changed(SPEC, image="late:1")
    assert await runtime.tries(wanted) == "ErrImagePull"
    for pause_s in (10, 20, 40):
        runtime.clock.advance(pause_s - 1)
        assert await runtime.tries(wanted) == "ImagePullBackOff"
        assert [(each.reason, each.message) for each in runtime.told] == [
            ("BackOff", 'Back-off pulling image "late:1"')
        ]
        runtime.clock.advance(1)
        assert await runtime.tries(wanted) == "ErrImagePull"
    assert len(engine.asked("PullImage")) == 4
    engine.pullable = {"late:1"}
    runtime.clock.advance(80)
    assert await runtime.tries(wanted) == ""


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (0.0204, "20ms"), (1.5, "1.5s"), (59.9999, "59.999s"), (62, "1m2s"), (3661.25, "61m1.25s")],
)
def test_durations_are_those_of_go(seconds: float, text: str) -> None:
    assert elapsed(seconds) == text


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


# --- ending ---------------------------------------------------------------------------------------------------------


async def run_to_end(
    engine: ScriptedEngine, runtime: Runtime, *, writes: bytes, logs: str, code: int, message: str = "", **said: Any
) -> str:
    """What the container says of its end."""
    started = await runtime.start(changed(SPEC, message=TerminationMessage(**said)))
    mounts(engine)[said.get("path", "/dev/termination-log")].write_bytes(writes)
    log = Path(engine.containers[started.id].log_path)
    log.write_text("".join(f"2026-01-01T00:00:00Z stderr F {line}\n" for line in logs.splitlines()))
    engine.end(started.id, code, "Completed" if code == 0 else "Error", message)
    return (await runtime.wait(started.id)).message


FALL_BACK = MessagePolicy.FALLBACK_TO_LOGS


@pytest.mark.parametrize(
    ("said", "writes", "code", "message"),
    [
        pytest.param({}, b"done", 0, "done", id="file"),
        pytest.param({"path": "/tmp/end"}, b"failed", 3, "failed", id="own-path"),
        pytest.param({}, b"", 3, "", id="nothing"),
        pytest.param({"policy": FALL_BACK}, b"own", 3, "own", id="file-before-log"),
        pytest.param({"policy": FALL_BACK}, b"", 3, "one\ntwo\n", id="log"),
        pytest.param({"policy": FALL_BACK}, b"", 0, "", id="no-log-of-success"),
        pytest.param({}, b"x" * 5000, 0, "x" * 4096, id="too-long"),
        pytest.param({}, b"\xff", 0, "\ufffd", id="no-text"),
    ],
)
async def test_a_container_says_why_it_ended(
    engine: ScriptedEngine, runtime: Runtime, said: dict[str, Any], writes: bytes, code: int, message: str
) -> None:
    assert await run_to_end(engine, runtime, writes=writes, logs="one\ntwo", code=code, **said) == message


async def test_its_words_come_after_the_engines(engine: ScriptedEngine, runtime: Runtime) -> None:
    assert await run_to_end(engine, runtime, writes=b"mine", logs="", code=1, message="engine's") == "engine's: mine"


async def test_the_end_of_a_long_log_is_enough(engine: ScriptedEngine, runtime: Runtime) -> None:
    logs = "\n".join(f"line {number:03}" for number in range(500))
    message = await run_to_end(engine, runtime, writes=b"", logs=logs, code=1, policy=FALL_BACK)
    assert message == "".join(f"line {number:03}\n" for number in range(420, 500))


async def test_links_and_pipes_in_place_of_the_message_are_not_followed(
    engine: ScriptedEngine, runtime: Runtime, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("secret")
    started = await runtime.start(SPEC)
    file = mounts(engine)["/dev/termination-log"]
    file.unlink()
    file.symlink_to(tmp_path / "secret")
    engine.end(started.id, 0, "Completed")
    assert "secret" not in (await runtime.wait(started.id)).message
    await runtime.remove(started.id)
    assert list(file.parent.iterdir()) == []
    assert (tmp_path / "secret").exists()


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
