"""The oci runtime with real engines and containers; nothing of them may be left when a test ends."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import pytest

from plugbay.errors import ContainerStartError, EngineUnusable, ExecFailed
from plugbay.kernel.cgroups import accounts_swap, hierarchies, remove_cgroup
from plugbay.kernel.processes import read_stat, wait_end
from plugbay.model.edits import NO_EDITS, ContainerEdits, DeviceNode, Mount
from plugbay.model.ids import ContainerName, PodUid
from plugbay.model.limits import CgroupLimits
from plugbay.model.security import Security
from plugbay.model.termination import DEFAULT_MESSAGE, MessagePolicy, TerminationMessage
from plugbay.node.runtimes.exec_input import Console, ExecInput, TerminalSize
from plugbay.node.runtimes.oci.confinement import Grounds, OciConfinement, pod_cgroup
from plugbay.node.runtimes.oci.engines import Engine, choose_engine, probe
from plugbay.node.runtimes.oci.shares import UNSHARED
from plugbay.node.runtimes.port import (
    ContainerId,
    ContainerRuntime,
    ContainerSpec,
    ContainerState,
    ExecExit,
    ExecOutput,
    ExecStream,
    RunState,
)
from plugbay.node.runtimes.process.runtime import ProcessRuntime

DEADLINE_S = 30
PROC = Path("/proc")
POD = PodUid("0c1-oci-test")


@cache
def why_not() -> str:
    if os.geteuid() != 0:
        return "needs root"
    try:
        choose_engine(None, search_path=os.environ["PATH"], state_dir=Path("/nowhere"))
    except EngineUnusable as error:
        return str(error)
    return ""


pytestmark = [pytest.mark.root, pytest.mark.skipif(bool(why_not()), reason=why_not())]


class Places:
    """Where one test's containers are, as a later node finds them too."""

    def __init__(self, root: Path) -> None:
        self.instances = root / "containers"
        self.engine = choose_engine(None, search_path=os.environ["PATH"], state_dir=root / "oci")
        self.cdi = root / "cdi"
        self.cgroup_parent = f"plugbay-test-{os.getpid()}"

    def runtime(self) -> ProcessRuntime:
        grounds = Grounds(Path("/"), self.cgroup_parent, (), (self.cdi,), shares_of=lambda pod: UNSHARED)
        return ProcessRuntime(
            self.instances,
            environ=os.environ,
            clock=lambda: datetime.now(UTC),
            confinement=OciConfinement(self.engine, grounds),
        )


@pytest.fixture
def places(tmp_path: Path) -> Iterator[Places]:
    made = Places(tmp_path)
    yield made
    until_nothing(lambda: remove_cgroup(pod_cgroup(made.cgroup_parent, POD), proc_root=PROC))
    assert not list(made.engine.state_dir.glob("*")), "the engine knows no container any more"
    cgroups = [each for root in hierarchies(proc_root=PROC) for each in root.glob(f"{made.cgroup_parent}-*")]
    assert cgroups == []
    assert str(tmp_path) not in (PROC / "self/mountinfo").read_text()
    until_nothing(lambda: [each for each in PROC.glob("[0-9]*/cmdline") if _mentions(each, tmp_path)])


def until_nothing(left: Callable[[], Sequence[Path]]) -> None:
    """What was killed is gone a little later, and leaves its cgroup later still, of which nothing tells."""
    deadline = time.monotonic() + DEADLINE_S
    while there := left():
        assert time.monotonic() < deadline, f"left behind: {there}"
        time.sleep(0.02)


def _mentions(cmdline: Path, path: Path) -> bool:
    try:
        return bytes(path) in cmdline.read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.fixture
def spec() -> ContainerSpec:
    return ContainerSpec(
        pod_uid=POD,
        namespace="default",
        pod="gopher-pod",
        name=ContainerName("gopher"),
        attempt=0,
        image="busybox",
        argv=("sleep", "600"),
        working_dir=None,
        env={},
        mounts=(),
        edits=NO_EDITS,
    )


@asynccontextmanager
async def runtime_on(places: Places) -> AsyncIterator[ProcessRuntime]:
    runtime = places.runtime()
    async with asyncio.timeout(DEADLINE_S):
        try:
            yield runtime
        finally:
            for state in await runtime.list():
                await runtime.remove(state.id)


def sh(spec: ContainerSpec, script: str) -> ContainerSpec:
    return replace(spec, argv=("sh", "-c", script))


async def whole_log(runtime: ProcessRuntime, container: ContainerId) -> str:
    return b"".join([chunk async for chunk in runtime.log(container)]).decode()


async def output_of(runtime: ProcessRuntime, spec: ContainerSpec) -> str:
    """What a container that ends by itself wrote."""
    state = await runtime.start(spec)
    ended = await runtime.wait(state.id)
    text = await whole_log(runtime, state.id)
    assert ended.exit_code == 0, text
    return text


async def first_line(runtime: ProcessRuntime, container: ContainerId) -> str:
    seen = b""
    async with aclosing(runtime.log(container, follow=True)) as chunks:
        async for chunk in chunks:
            seen += chunk
            if b"\n" in seen:
                return seen.split(b"\n")[0].decode()
    raise AssertionError(f"the container ended after writing {seen!r}")


async def run(
    runtime: ProcessRuntime, container: ContainerId, *argv: str, given: ExecInput | None = None
) -> tuple[str, str, int]:
    texts = dict.fromkeys(ExecStream, b"")
    async for item in runtime.exec(container, argv, given):
        if isinstance(item, ExecExit):
            return texts[ExecStream.STDOUT].decode(), texts[ExecStream.STDERR].decode(), item.exit_code
        texts[item.stream] += item.chunk
    raise AssertionError("no exit")


def processes_of(places: Places, container: ContainerId) -> dict[str, int]:
    record = json.loads((places.instances / container / "process.json").read_bytes())
    inner = int((places.instances / container / "pid").read_text())
    return {role: record[role]["pid"] for role in ("wrapper", "process")} | {"inner": inner}


def processes_in(places: Places) -> set[int]:
    """All in the containers of `POD`."""
    pod = pod_cgroup(places.cgroup_parent, POD)
    listings = [each for root in hierarchies(proc_root=PROC) for each in root.glob(f"{pod}/*/cgroup.procs")]
    return {int(pid) for each in listings for pid in each.read_text().split()}


async def until_ended(pid: int) -> None:
    stat = read_stat(pid, proc_root=PROC)
    if stat is not None:
        await wait_end(stat.identity, proc_root=PROC)


# --- start and end -------------------------------------------------------------------------------------------------


async def test_a_container_has_namespaces_of_its_own(places: Places, spec: ContainerSpec) -> None:
    async with runtime_on(places) as runtime:
        port: ContainerRuntime = runtime
        assert port.name == "oci"
        script = "echo $$; hostname; ls -d /proc/[0-9]* | wc -l; readlink /proc/self/ns/net"
        lines = (await output_of(runtime, sh(spec, script))).split()
        assert lines[:2] == ["1", "gopher-pod"]
        assert int(lines[2]) <= 4
        assert lines[3] == os.readlink("/proc/self/ns/net"), "the pod is on the host's network"


async def test_the_root_file_system_is_read_only_and_has_a_place_for_files(places: Places, spec: ContainerSpec) -> None:
    async with runtime_on(places) as runtime:
        script = "touch /x /usr/x 2>/dev/null && exit 9; echo hello > /tmp/x; cat /tmp/x; test ! -e /tmp/pytest*"
        assert await output_of(runtime, sh(spec, script)) == "hello\n"


@pytest.mark.parametrize(
    ("script", "code", "reason"),
    [
        ("exit 0", 0, "Completed"),
        ("exit 3", 3, "Error"),
        ("trap - TERM; (sleep 600) & kill -9 $!; wait $!", 137, "Error"),
    ],
)
async def test_the_end_is_recorded(places: Places, spec: ContainerSpec, script: str, code: int, reason: str) -> None:
    async with runtime_on(places) as runtime:
        started = await runtime.start(sh(spec, script))
        ended = await runtime.wait(started.id)
        assert (ended.state, ended.exit_code, ended.reason) == (RunState.EXITED, code, reason)
        assert await runtime.list() == [ended]


async def test_sigterm_reaches_the_container(places: Places, spec: ContainerSpec) -> None:
    async with runtime_on(places) as runtime:
        state = await runtime.start(sh(spec, "trap 'echo bye; exit 4' TERM; echo ready; sleep 600 & wait"))
        assert await first_line(runtime, state.id) == "ready"
        ended = await runtime.stop(state.id, grace_s=DEADLINE_S)
        assert (ended.state, ended.exit_code) == (RunState.EXITED, 4)
        assert await whole_log(runtime, state.id) == "ready\nbye\n"


@pytest.mark.parametrize("grace_s", [0, 0.2])
async def test_who_ignores_sigterm_is_killed(places: Places, spec: ContainerSpec, grace_s: float) -> None:
    async with runtime_on(places) as runtime:
        state = await runtime.start(spec)
        ended = await runtime.stop(state.id, grace_s=grace_s)
        assert (ended.state, ended.exit_code, ended.reason) == (RunState.EXITED, 137, "Error")


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (("nope",), r'exec: "nope": executable file not found in \$PATH|executable file `nope` not found'),
        (("/etc/passwd",), 'exec: "/etc/passwd": permission denied|open executable: Permission denied'),
    ],
)
async def test_a_command_that_cannot_run_fails_the_start(
    places: Places, spec: ContainerSpec, argv: tuple[str, ...], text: str
) -> None:
    async with runtime_on(places) as runtime:
        with pytest.raises(ContainerStartError) as caught:
            await runtime.start(replace(spec, argv=argv))
        assert caught.value.reason == "StartError"
        assert re.search(text, str(caught.value)), "each engine has its words"
        assert await runtime.list() == []


async def test_a_missing_mount_fails_the_start(places: Places, spec: ContainerSpec, tmp_path: Path) -> None:
    async with runtime_on(places) as runtime:
        edits = ContainerEdits(mounts=(Mount("/opt", str(tmp_path / "nope")),))
        with pytest.raises(ContainerStartError, match="nope: no such file") as caught:
            await runtime.start(replace(spec, edits=edits))
        assert caught.value.reason == "CreateContainerError"
        assert not (tmp_path / "nope").exists()


async def test_odd_pod_uids_and_names_make_no_odd_engine_ids(places: Places, spec: ContainerSpec) -> None:
    odd = replace(spec, pod_uid=PodUid("ä/../b c"))
    async with runtime_on(places) as runtime:
        state = await runtime.start(odd)
        assert (await run(runtime, state.id, "echo", "x"))[0] == "x\n"
        await runtime.remove(state.id)
    until_nothing(lambda: remove_cgroup(pod_cgroup(places.cgroup_parent, odd.pod_uid), proc_root=PROC))


# --- what the container gets ---------------------------------------------------------------------------------------


async def test_env_of_devices_stands_before_the_pods_which_wins(places: Places, spec: ContainerSpec) -> None:
    edits = ContainerEdits(env={"GOPHER": "g1", "BOTH": "device"})
    given = replace(spec, argv=("env",), env={"BOTH": "pod", "OWN": "x"}, edits=edits)
    async with runtime_on(places) as runtime:
        lines = (await output_of(runtime, given)).splitlines()
    assert [each for each in lines if each.partition("=")[0] in ("GOPHER", "BOTH", "OWN", "HOSTNAME")] == [
        "HOSTNAME=gopher-pod",
        "GOPHER=g1",
        "BOTH=pod",
        "OWN=x",
    ]


async def test_mounts_are_where_they_should_be_and_read_only_ones_stay_so(
    places: Places, spec: ContainerSpec, tmp_path: Path
) -> None:
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "file").write_text("from the host\n")
    (tmp_path / "room").mkdir()
    edits = ContainerEdits(mounts=(Mount("/run/gophers/g1", str(tmp_path / "given"), read_only=True),))
    script = (
        "cat /run/gophers/g1/file; (echo x > /run/gophers/g1/y) 2>/dev/null || echo refused; echo hello > /data/out"
    )
    wanted = replace(sh(spec, script), edits=edits, mounts=(Mount("/data", str(tmp_path / "room")),))
    async with runtime_on(places) as runtime:
        text = await output_of(runtime, wanted)
    assert text == "from the host\nrefused\n"
    assert (tmp_path / "room" / "out").read_text() == "hello\n"
    assert os.listdir(tmp_path / "given") == ["file"]


CGROUPS = hierarchies(proc_root=PROC)
FUSE = DeviceNode("/dev/gopher", "/dev/fuse", "rw")
OPENS = "import os, sys; os.close(os.open(sys.argv[1], os.O_RDWR)); print('open')"
needs_fuse = pytest.mark.skipif(not Path("/dev/fuse").exists(), reason="needs /dev/fuse")


@needs_fuse
async def test_a_device_opens_and_others_are_refused_by_the_cgroup(places: Places, spec: ContainerSpec) -> None:
    fuse = os.stat("/dev/fuse")
    number = f"{os.major(fuse.st_rdev)}:{os.minor(fuse.st_rdev)}"
    other = "c 10 235" if number != "10:235" else "c 10 236"
    script = (
        "python3=$1; stat -c '%t:%T %a' /dev/gopher; $python3 -I -S -c \"$2\" /dev/gopher; ls /dev/fuse 2>&1;"
        f" mknod /dev/other {other}; cat /dev/other 2>&1"
    )
    wanted = replace(spec, argv=("sh", "-c", script, "sh", "/usr/bin/python3", OPENS))
    if not Path("/usr/bin/python3").exists():
        pytest.skip("needs /usr/bin/python3")
    async with runtime_on(places) as runtime:
        state = await runtime.start(replace(wanted, edits=ContainerEdits(device_nodes=(FUSE,))))
        await runtime.wait(state.id)
        shown, opened, absent, refused = (await whole_log(runtime, state.id)).splitlines()
    mode = fuse.st_mode & 0o777
    assert shown == f"{os.major(fuse.st_rdev):x}:{os.minor(fuse.st_rdev):x} {mode:o}"
    assert opened == "open"
    assert "No such file" in absent
    assert "not permitted" in refused


@needs_fuse
async def test_permissions_are_those_that_were_given(places: Places, spec: ContainerSpec) -> None:
    edits = ContainerEdits(device_nodes=(replace(FUSE, permissions="r"),))
    script = "exec 3</dev/gopher && echo read; (exec 4>/dev/gopher) 2>/dev/null || echo no write"
    async with runtime_on(places) as runtime:
        assert await output_of(runtime, replace(sh(spec, script), edits=edits)) == "read\nno write\n"


@needs_fuse
async def test_a_directory_stands_for_the_devices_below_it(places: Places, spec: ContainerSpec, tmp_path: Path) -> None:
    (tmp_path / "made" / "deeper").mkdir(parents=True)
    fuse = os.stat("/dev/fuse")
    for name in ("a", "deeper/b"):
        os.mknod(tmp_path / "made" / name, fuse.st_mode, fuse.st_rdev)
    (tmp_path / "made" / "text").write_text("no device")
    (tmp_path / "link").symlink_to("made")
    edits = ContainerEdits(device_nodes=(DeviceNode("/dev/set", str(tmp_path / "link"), "rw"),))
    async with runtime_on(places) as runtime:
        text = await output_of(runtime, replace(sh(spec, "cd /dev/set; find . -type c | sort"), edits=edits))
    assert text.split() == ["./a", "./deeper/b"]


@pytest.mark.parametrize(
    ("node", "reason", "text"),
    [
        (DeviceNode("/dev/x", "/dev/nope", "rw"), "CreateContainerError", "lstat /dev/nope: no such file or directory"),
        (DeviceNode("/dev/x", "/etc/passwd", "rw"), "CreateContainerError", "not a device node"),
        (DeviceNode("/dev/x", "/dev/null", ""), "StartError", "device access at 1 field cannot be empty"),
    ],
)
async def test_devices_that_cannot_be_given_fail_the_start(
    places: Places, spec: ContainerSpec, node: DeviceNode, reason: str, text: str
) -> None:
    async with runtime_on(places) as runtime:
        with pytest.raises(ContainerStartError) as caught:
            await runtime.start(replace(spec, edits=ContainerEdits(device_nodes=(node,))))
    assert (caught.value.reason, text in str(caught.value)) == (reason, True)


# --- CDI and handlers ----------------------------------------------------------------------------------------------


def write_cdi(places: Places, kind: str, edits: dict[str, object], devices: dict[str, dict[str, object]]) -> None:
    places.cdi.mkdir(exist_ok=True)
    content = {
        "cdiVersion": "0.7.0",
        "kind": kind,
        "containerEdits": edits,
        "devices": [{"name": name, "containerEdits": each} for name, each in devices.items()],
    }
    (places.cdi / f"{kind.replace('/', '-')}.json").write_text(json.dumps(content))


@pytest.fixture
def gophers(places: Places, tmp_path: Path) -> None:
    """CDI devices with everything that the engines know."""
    (tmp_path / "driver").write_text("driver file\n")
    hook = {"hookName": "createContainer", "path": "/bin/sh", "args": ["sh", "-c", f"echo $H > {tmp_path}/hook"]}
    write_cdi(
        places,
        "vendor.example/gopher",
        {
            "env": ["FROM_CDI=yes"],
            "mounts": [
                {"hostPath": f"{tmp_path}/driver", "containerPath": "/run/driver", "options": ["bind", "ro"]},
            ],
        },
        {
            "g0": {
                "env": ["GOPHER=g0"],
                "deviceNodes": [{"path": "/dev/gopher0", "hostPath": "/dev/fuse", "permissions": "rw"}],
                "hooks": [{**hook, "env": ["H=hooked"]}],
            },
            "g1": {
                "deviceNodes": [
                    {"path": "/dev/g1", "type": "c", "major": 1, "minor": 5, "fileMode": 0o644, "uid": 7, "gid": 8}
                ],
                "additionalGids": [777],
            },
        },
    )


SHOW = "echo $FROM_CDI $GOPHER; cat /run/driver; stat -c '%n %t:%T %a %u:%g' /dev/g*[0-9] | sort; id -G"


@needs_fuse
@pytest.mark.usefixtures("gophers")
@pytest.mark.parametrize("carrier", ["field", "annotation", "both"])
async def test_cdi_devices_are_injected(places: Places, spec: ContainerSpec, carrier: str, tmp_path: Path) -> None:
    names = ("vendor.example/gopher=g0", "vendor.example/gopher=g1")
    annotations = {"cdi.k8s.io/vendor_g": ",".join(names), "example.com/kept": "x"}
    edits = ContainerEdits(
        cdi_devices=names if carrier != "annotation" else (), annotations=annotations if carrier != "field" else {}
    )
    async with runtime_on(places) as runtime:
        text = await output_of(runtime, replace(sh(spec, SHOW), env={"GOPHER": "pod"}, edits=edits))
    assert text.splitlines() == [
        "yes g0",
        "driver file",
        "/dev/g1 1:5 644 7:8",
        f"/dev/gopher0 a:e5 {os.stat('/dev/fuse').st_mode & 0o777:o} 0:0",
        "0 777",
    ]
    assert (tmp_path / "hook").read_text() == "hooked\n"


@pytest.mark.usefixtures("gophers")
@pytest.mark.parametrize(
    ("edits", "text"),
    [
        (
            ContainerEdits(cdi_devices=("vendor.example/gopher=g9", "no.example/x=y")),
            "CDI device injection failed: unresolvable CDI devices vendor.example/gopher=g9, no.example/x=y",
        ),
        (ContainerEdits(annotations={"cdi.k8s.io/x": "gopher"}), "CDI device injection failed: .*unqualified"),
    ],
)
async def test_cdi_devices_that_nobody_defines_fail_the_start(
    places: Places, spec: ContainerSpec, edits: ContainerEdits, text: str
) -> None:
    async with runtime_on(places) as runtime:
        with pytest.raises(ContainerStartError, match=text) as caught:
            await runtime.start(replace(spec, edits=edits))
        assert caught.value.reason == "CreateContainerError"
        assert await runtime.list() == []


@pytest.mark.parametrize(
    ("visible", "seen"),
    [
        ("0", "gpu0"),
        ("1,0,1", "gpu0 gpu1"),
        ("GPU-8f1c2a3b-0000-0000-0000-000000000001", "gpu1"),
        ("all", "gpu0 gpu1"),
        ("management.nvidia.com/gpu=all", "ctl"),
        ("none", ""),
        ("void", ""),
        ("", ""),
        (None, ""),
    ],
)
async def test_handler_nvidia_gives_what_the_environment_names(
    places: Places, spec: ContainerSpec, tmp_path: Path, visible: str | None, seen: str
) -> None:
    (tmp_path / "libcuda").write_text("driver\n")
    mount = {"hostPath": f"{tmp_path}/libcuda", "containerPath": "/run/libcuda", "options": ["bind", "ro"]}
    gpus: list[dict[str, object]] = [
        {"deviceNodes": [{"path": f"/dev/gpu{number}", "type": "c", "major": 1, "minor": 3 + 2 * number}]}
        for number in (0, 1)
    ]
    both: dict[str, object] = {"deviceNodes": [each["deviceNodes"][0] for each in gpus]}  # type: ignore[index]  # ours
    write_cdi(
        places,
        "nvidia.com/gpu",
        {"mounts": [mount]},
        {"0": gpus[0], "1": gpus[1], "GPU-8f1c2a3b-0000-0000-0000-000000000001": gpus[1], "all": both},
    )
    control: dict[str, object] = {"deviceNodes": [{"path": "/dev/ctl", "type": "c", "major": 1, "minor": 7}]}
    write_cdi(places, "management.nvidia.com/gpu", {"mounts": [mount]}, {"all": control})
    env = {} if visible is None else {"NVIDIA_VISIBLE_DEVICES": visible}
    script = "cd /dev; echo $(ls -d gpu* ctl 2>/dev/null); cat /run/libcuda 2>/dev/null; true"
    async with runtime_on(places) as runtime:
        wanted = replace(sh(spec, script), env=env, runtime_class="nvidia")
        given = (await output_of(runtime, wanted)).splitlines()
        plain = await output_of(runtime, replace(wanted, runtime_class="", attempt=1))
    assert given == ([seen, "driver"] if seen else [""])
    assert plain == "\n", "only the handler looks at the variable"


async def test_handler_nvidia_refuses_what_is_not_there(places: Places, spec: ContainerSpec) -> None:
    async with runtime_on(places) as runtime:
        wanted = replace(spec, env={"NVIDIA_VISIBLE_DEVICES": "7"}, runtime_class="nvidia")
        with pytest.raises(ContainerStartError, match=r"unresolvable CDI devices nvidia\.com/gpu=7"):
            await runtime.start(wanted)


# --- rights and limits ---------------------------------------------------------------------------------------------


async def test_security_settings_arrive(places: Places, spec: ContainerSpec) -> None:
    security = Security(
        run_as_user=1000,
        run_as_group=2000,
        supplemental_groups=(3000,),
        dropped_capabilities=("ALL",),
        allow_privilege_escalation=False,
    )
    script = "id -u; id -G; grep -E 'CapEff|CapBnd|NoNewPrivs' /proc/self/status"
    async with runtime_on(places) as runtime:
        text = await output_of(runtime, replace(sh(spec, script), security=security))
    assert text.split() == [
        *("1000", "2000", "3000", "CapBnd:", "0" * 16, "CapEff:", "0" * 16, "NoNewPrivs:", "1"),
    ] or text.split() == ["1000", "2000", "3000", "CapEff:", "0" * 16, "CapBnd:", "0" * 16, "NoNewPrivs:", "1"]


async def test_capabilities_are_added_and_dropped(places: Places, spec: ContainerSpec) -> None:
    async with runtime_on(places) as runtime:
        script = "grep CapEff /proc/self/status"
        usual = int((await output_of(runtime, sh(spec, script))).split()[1], 16)
        assert usual == 0xA80425FB, "what containerd gives a container that asks for nothing"
        changed = Security(added_capabilities=("NET_ADMIN",), dropped_capabilities=("CHOWN",))
        text = await output_of(runtime, replace(sh(spec, script), attempt=1, security=changed))
        assert int(text.split()[1], 16) == usual & ~1 | 1 << 12


async def test_limits_are_those_of_the_cgroup(places: Places, spec: ContainerSpec) -> None:
    limits = CgroupLimits(cpu_shares=512, cpu_quota_us=50_000, memory_bytes=64 * 2**20)
    async with runtime_on(places) as runtime:
        files = "*/memory.limit_in_bytes */memory.memsw.limit_in_bytes memory.max */cpu.shares */cpu.cfs_quota_us"
        script = f"cd /sys/fs/cgroup; cat {files} cpu.max; echo swap $(cat memory.swap.max)"
        state = await runtime.start(replace(sh(spec, f"({script}) 2>/dev/null"), limits=limits))
        await runtime.wait(state.id)
        words = (await whole_log(runtime, state.id)).split()
    if accounts_swap(proc_root=PROC):
        assert words[-1] == "0" or words.count(str(64 * 2**20)) == 2, "it swaps nothing"
    assert str(64 * 2**20) in words
    assert "50000" in words


LITTLE = CgroupLimits(memory_bytes=32 * 2**20)
needs_limited_swap = pytest.mark.skipif(
    not accounts_swap(proc_root=PROC) and len((PROC / "swaps").read_text().splitlines()) > 1,
    reason="whoever wants too much memory would fill the swap first, which nobody can limit here",
)


@pytest.mark.parametrize("keeps", [True, False], ids=["as it is", "older engine"])
async def test_container_that_has_ended_leaves_no_cgroup(places: Places, spec: ContainerSpec, *, keeps: bool) -> None:
    if not keeps:
        places.engine = replace(places.engine, keep_options=())
    pod = pod_cgroup(places.cgroup_parent, POD)
    async with runtime_on(places) as runtime:
        for attempt, end in enumerate(("exit 0", "exit 1")):
            state = await runtime.start(replace(sh(spec, end), attempt=attempt, limits=LITTLE))
            await runtime.wait(state.id)
            assert [each for root in CGROUPS for each in root.glob(f"{pod}/*/")] == []


@needs_limited_swap
async def test_want_of_memory_is_the_reason_for_the_end(places: Places, spec: ContainerSpec) -> None:
    if not places.engine.keep_options and not any(Path(each, "cgroup.controllers").exists() for each in CGROUPS):
        pytest.skip("with this engine only cgroups of version 2 tell")
    async with runtime_on(places) as runtime:
        state = await runtime.start(replace(spec, argv=("tail", "/dev/zero"), limits=LITTLE))
        ended = await runtime.wait(state.id)
        assert (ended.state, ended.exit_code, ended.reason) == (RunState.EXITED, 137, "OOMKilled")
        assert await places.runtime().list() == [ended], "a later node says the same"
        other = await runtime.start(replace(sh(spec, "exit 137"), attempt=1, limits=LITTLE))
        ended = await runtime.wait(other.id)
        assert (ended.exit_code, ended.reason) == (137, "Error"), "the code alone says nothing"


@needs_limited_swap
async def test_node_that_was_away_learns_of_want_of_memory(places: Places, spec: ContainerSpec) -> None:
    if not places.engine.keep_options:
        pytest.skip("this engine removes the cgroup that tells")
    async with runtime_on(places) as runtime:
        script = "while ! test -e /tmp/go; do sleep 0.1; done; exec tail /dev/zero"
        state = await start_and_die(places, replace(sh(spec, script), limits=LITTLE))
        wrapper = processes_of(places, state.id)["wrapper"]
        assert (await run(runtime, state.id, "touch", "/tmp/go"))[2] == 0
        await until_ended(wrapper)
        (ended,) = await runtime.list()
        assert (ended.exit_code, ended.reason) == (137, "OOMKilled")


# --- last words ----------------------------------------------------------------------------------------------------

FALLS_BACK = TerminationMessage(policy=MessagePolicy.FALLBACK_TO_LOGS)


@pytest.mark.parametrize(
    ("script", "message", "said"),
    [
        ("echo logged; echo told > /dev/termination-log; exit 3", DEFAULT_MESSAGE, "told\n"),
        ("echo told > /dev/termination-log", FALLS_BACK, "told\n"),
        ("echo told > /tmp/words/last", TerminationMessage("/tmp/words/last"), "told\n"),
        ("echo told > /run/last", TerminationMessage("run/last"), "told\n"),
        ("echo logged; exit 3", DEFAULT_MESSAGE, ""),
        ("echo logged", FALLS_BACK, ""),
        ("seq 100; exit 3", FALLS_BACK, "".join(f"{number}\n" for number in range(21, 101))),
    ],
)
async def test_last_words_come_from_the_file_or_the_log(
    places: Places, spec: ContainerSpec, script: str, message: TerminationMessage, said: str
) -> None:
    security = Security(run_as_user=1000)
    async with runtime_on(places) as runtime:
        state = await runtime.start(replace(sh(spec, script), message=message, security=security))
        assert (await runtime.wait(state.id)).message == said


async def test_place_for_last_words_that_cannot_be_is_refused(places: Places, spec: ContainerSpec) -> None:
    async with runtime_on(places) as runtime:
        with pytest.raises(ContainerStartError, match="terminationMessagePath: /usr/last-words is not there"):
            await runtime.start(replace(spec, message=TerminationMessage("/usr/last-words")))


async def test_a_root_file_system_of_choice(places: Places, spec: ContainerSpec, tmp_path: Path) -> None:
    busybox = shutil.which("busybox")
    if busybox is None:
        pytest.skip("needs a static busybox")
    root = tmp_path / "root"
    (root / "bin").mkdir(parents=True)
    shutil.copy(busybox, root / "bin" / "busybox")
    (root / "sh").symlink_to("bin/busybox")
    (root / "hello").write_text("from its root\n")
    grounds = Grounds(root, places.cgroup_parent, (), (), shares_of=lambda pod: UNSHARED)
    runtime = ProcessRuntime(
        places.instances,
        environ=os.environ,
        clock=lambda: datetime.now(UTC),
        confinement=OciConfinement(places.engine, grounds),
    )
    before = sorted(str(each) for each in root.rglob("*"))
    async with asyncio.timeout(DEADLINE_S):
        wanted = replace(spec, argv=("/sh", "-c", "read line < /hello; echo $line; echo /*"))
        text = await output_of(runtime, wanted)
        for state in await runtime.list():
            await runtime.remove(state.id)
    assert text.splitlines() == ["from its root", "/bin /dev /hello /proc /run /sh /sys /tmp"]
    assert sorted(str(each) for each in root.rglob("*")) == before, "nothing is made in it"


# --- commands beside a container -----------------------------------------------------------------------------------


async def test_a_command_runs_in_the_container(places: Places, spec: ContainerSpec) -> None:
    async with runtime_on(places) as runtime:
        state = await runtime.start(replace(spec, env={"OWN": "x"}, working_dir="/usr"))
        script = "echo $OWN; pwd; hostname; echo problem >&2; exit 5"
        assert await run(runtime, state.id, "sh", "-c", script) == ("x\n/usr\ngopher-pod\n", "problem\n", 5)


async def test_a_command_is_given_input(places: Places, spec: ContainerSpec) -> None:
    async with runtime_on(places) as runtime:
        state = await runtime.start(spec)
        given = ExecInput(Console.PIPES)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(run(runtime, state.id, "cat", given=given))
            await given.send(b"hello")
            await given.end()
        assert running.result() == ("hello", "", 0)


async def test_a_command_has_a_terminal_of_its_own(places: Places, spec: ContainerSpec) -> None:
    async with runtime_on(places) as runtime:
        state = await runtime.start(spec)
        given = ExecInput(Console.TERMINAL)
        given.resize(TerminalSize(100, 40))
        script = "test -t 0 && echo terminal; echo $TERM; while [ \"$(stty size)\" != '40 100' ]; do :; done; echo size"
        out, _, code = await run(runtime, state.id, "sh", "-c", script, given=given)
        assert (out.split(), code) == (["terminal", "xterm", "size"], 0), out


async def test_a_terminal_has_the_variables_of_the_container_and_its_devices(
    places: Places, spec: ContainerSpec
) -> None:
    write_cdi(places, "vendor.example/gopher", {"env": ["FROM_CDI=yes", "OWN=cdi"]}, {"g0": {"env": ["GOPHER=g0"]}})
    edits = ContainerEdits(env={"FROM_PLUGIN": "yes"}, cdi_devices=("vendor.example/gopher=g0",))
    async with runtime_on(places) as runtime:
        state = await runtime.start(replace(spec, env={"OWN": "pod", "SPACED": "a  b"}, edits=edits))
        command = ("printenv", "FROM_CDI", "OWN", "GOPHER", "FROM_PLUGIN", "SPACED", "HOSTNAME", "TERM")
        out, _, code = await run(runtime, state.id, *command, given=ExecInput(Console.TERMINAL))
        assert (out.splitlines(), code) == (["yes", "cdi", "g0", "yes", "a  b", "gopher-pod", "xterm"], 0)


async def test_exec_of_what_cannot_run(places: Places, spec: ContainerSpec) -> None:
    async with runtime_on(places) as runtime:
        state = await runtime.start(spec)
        with pytest.raises(ExecFailed, match=r"executable file .*not found"):
            await run(runtime, state.id, "nope")


RUNNING = 'for each in /proc/[0-9]*; do grep -q "^State:.Z" $each/status || cat $each/comm; done 2>/dev/null'
"""Names of what has not ended: nobody may have reaped the others."""


@pytest.mark.parametrize("script", ["echo $$; sleep 600; true", "echo $$; sleep 600 & wait"])
async def test_leaving_a_command_kills_it_in_the_container(places: Places, spec: ContainerSpec, script: str) -> None:
    async with runtime_on(places) as runtime:
        state = await runtime.start(spec)
        own = processes_in(places)
        async with aclosing(runtime.exec(state.id, ("sh", "-c", script))) as items:
            assert isinstance(await anext(items), ExecOutput)
            command = processes_in(places) - own
            assert command
        for pid in command:  # what is killed ends a little later
            await until_ended(pid)
        out, _, _ = await run(runtime, state.id, "sh", "-c", RUNNING)
        assert sorted(out.split()) == ["sh", "sleep"], "the container's own sleep is the only one"


async def test_a_command_ends_with_its_container(places: Places, spec: ContainerSpec) -> None:
    async with runtime_on(places) as runtime:
        state = await runtime.start(spec)
        items = runtime.exec(state.id, ("sh", "-c", "echo ready; sleep 600"))
        assert isinstance(await anext(items), ExecOutput)
        await runtime.stop(state.id, grace_s=0)
        assert [item async for item in items if isinstance(item, ExecExit)] == [ExecExit(137)]


# --- what survives -------------------------------------------------------------------------------------------------

NODE = """
import asyncio, pickle, sys
from tests.contract.test_oci_runtime import Places

async def main():
    spec, root = pickle.load(sys.stdin.buffer)
    places = Places(root)
    places.cgroup_parent = sys.argv[1]
    state = await places.runtime().start(spec)
    sys.stdout.buffer.write(pickle.dumps(state))
    sys.stdout.buffer.flush()
    await asyncio.Event().wait()

asyncio.run(main())
"""


async def start_and_die(places: Places, spec: ContainerSpec) -> ContainerState:
    """Start a container in a node that is SIGKILLed as soon as it runs."""
    argv = (sys.executable, "-c", NODE, places.cgroup_parent)
    node = await asyncio.create_subprocess_exec(*argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert node.stdin is not None
    assert node.stdout is not None
    try:
        node.stdin.write(pickle.dumps((spec, places.instances.parent)))
        node.stdin.close()
        pickled = b""
        while not pickled.endswith(b"."):
            pickled += await node.stdout.read(100_000) or pytest.fail("the node did not start the container")
    finally:
        node.kill()
        await node.wait()
    state = pickle.loads(pickled)
    assert isinstance(state, ContainerState)
    return state


async def test_a_new_node_adopts_what_runs(places: Places, spec: ContainerSpec) -> None:
    async with runtime_on(places) as runtime:
        state = await start_and_die(places, sh(spec, "trap 'echo bye; exit 4' TERM; echo hello; sleep 600 & wait"))
        assert await runtime.list() == [state]
        assert await first_line(runtime, state.id) == "hello"
        assert await run(runtime, state.id, "hostname") == ("gopher-pod\n", "", 0)
        ended = await runtime.stop(state.id, grace_s=DEADLINE_S)
        assert (ended.state, ended.exit_code) == (RunState.EXITED, 4)
        assert await whole_log(runtime, state.id) == "hello\nbye\n"


@pytest.mark.parametrize("victims", [("wrapper",), ("process",), ("wrapper", "process")])
async def test_a_container_whose_keepers_were_killed_is_ended(
    places: Places, spec: ContainerSpec, victims: tuple[str, ...]
) -> None:
    """Without the wrapper nobody would see its end; without the engine's process nobody holds its output."""
    async with runtime_on(places) as runtime:
        state = await runtime.start(spec)
        processes = processes_of(places, state.id)
        for victim in victims:
            os.kill(processes[victim], signal.SIGKILL)
        ended = await runtime.wait(state.id)
        assert ended.state is (RunState.LOST if "wrapper" in victims else RunState.EXITED)
        await until_ended(processes["inner"])


async def test_an_engine_that_fails_is_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = f"by-{os.getpid()}"  # tests beside this one try engines, too
    monkeypatch.setattr("plugbay.node.runtimes.oci.engines.secrets.token_hex", lambda _: own)
    bad = tmp_path / "badrun"
    bad.write_text("#!/bin/sh\necho no luck today >&2\nexit 1\n")
    bad.chmod(0o755)
    assert probe(str(bad)) == "no luck today"
    with pytest.raises(EngineUnusable, match=r"no OCI engine runs containers here: .*badrun: no luck today"):
        choose_engine(str(bad), search_path="", state_dir=tmp_path)
    with pytest.raises(EngineUnusable, match="crun: not found; runc: not found"):
        choose_engine(None, search_path="", state_dir=tmp_path)
    engine = choose_engine(None, search_path=os.environ["PATH"], state_dir=tmp_path)
    assert isinstance(engine, Engine)
    assert engine.version.split()[0] in ("crun", "runc")
    assert not [each for root in hierarchies(proc_root=PROC) for each in root.glob(f"plugbay-probe-{own}")]
