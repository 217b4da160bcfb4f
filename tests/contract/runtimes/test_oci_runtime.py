"""The oci runtime with real engines and containers: how they start and end, and what survives a node."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from plugbay.errors import ContainerStartError, EngineUnusable
from plugbay.kernel.cgroups import hierarchies, remove_cgroup
from plugbay.model.edits import ContainerEdits, Mount
from plugbay.model.ids import PodUid
from plugbay.model.limits import CgroupLimits
from plugbay.model.security import Security
from plugbay.model.termination import DEFAULT_MESSAGE, MessagePolicy, TerminationMessage
from plugbay.node.config import NodeConfig, OciConfig
from plugbay.node.runtimes.oci import find_engine, open_oci
from plugbay.ops.clock import SystemClock
from plugbay.runtimes.oci.confinement import pod_cgroup
from plugbay.runtimes.oci.engines import OciEngine, choose_engine, probe
from plugbay.runtimes.oci.leftovers import sweep_engine
from plugbay.runtimes.port import ContainerRuntime, ContainerSpec, RunState
from tests.container_specs import changed
from tests.contract.rigs.oci import (
    Places,
    output_of,
    places,
    processes_of,
    run,
    runtime_on,
    spec,
    start_and_die,
    until_nothing,
    whole_log,
    why_not,
)
from tests.contract.rigs.process import DEADLINE_S, PROC, first_line, sh, until_ended

__all__ = ["places", "spec"]

pytestmark = [pytest.mark.root, pytest.mark.skipif(bool(why_not()), reason=why_not())]


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
        state = await runtime.start(sh(spec, "echo ready; exec sleep 600"))
        assert await first_line(runtime, state.id) == "ready"  # until then it is runc, which ends
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
            await runtime.start(changed(spec, argv=argv))
        assert caught.value.reason == "StartError"
        assert re.search(text, str(caught.value)), "each engine has its words"
        assert await runtime.list() == []


async def test_a_missing_mount_fails_the_start(places: Places, spec: ContainerSpec, tmp_path: Path) -> None:
    async with runtime_on(places) as runtime:
        edits = ContainerEdits(mounts=(Mount(tmp_path / "nope", container_path="/opt"),))
        with pytest.raises(ContainerStartError, match="nope: no such file") as caught:
            await runtime.start(changed(spec, edits=edits))
        assert caught.value.reason == "CreateContainerError"
        assert not (tmp_path / "nope").exists()


async def test_odd_pod_uids_and_names_make_no_odd_engine_ids(places: Places, spec: ContainerSpec) -> None:
    odd = changed(spec, uid=PodUid("ä/../b c"))
    async with runtime_on(places) as runtime:
        state = await runtime.start(odd)
        assert (await run(runtime, state.id, "echo", "x"))[0] == "x\n"
        await runtime.remove(state.id)
    until_nothing(lambda: remove_cgroup(pod_cgroup(places.cgroup_parent, odd.pod.uid), proc_root=PROC))


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
        state = await runtime.start(changed(sh(spec, script), message=message, security=security))
        assert (await runtime.wait(state.id)).message == said


async def test_read_only_root_has_room_for_last_words_and_mounts_alone(
    places: Places, spec: ContainerSpec, tmp_path: Path
) -> None:
    """As in an image, where /tmp and /run belong to the root."""
    (tmp_path / "there").mkdir()
    script = "touch /tmp/x || touch /run/x || test -d /run/deep/there && echo told > /tmp/last"
    security = Security(read_only_root=True, dropped_capabilities=("ALL",))
    asked = changed(sh(spec, script), message=TerminationMessage("/tmp/last"), security=security)
    mount = Mount(str(tmp_path / "there"), container_path="/run/deep/there", read_only=True)
    async with runtime_on(places) as runtime:
        state = await runtime.start(replace(asked, mounts=(mount,)))
        assert (await runtime.wait(state.id)).message == "told\n"
        assert (await whole_log(runtime, state.id)).count("Read-only file system") == 2


async def test_place_for_last_words_that_cannot_be_is_refused(places: Places, spec: ContainerSpec) -> None:
    async with runtime_on(places) as runtime:
        with pytest.raises(ContainerStartError, match="terminationMessagePath: /usr/last-words is not there"):
            await runtime.start(changed(spec, message=TerminationMessage("/usr/last-words")))


# --- what survives -------------------------------------------------------------------------------------------------


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


async def test_what_an_engine_could_not_delete_is_swept_at_the_next_start(
    places: Places, spec: ContainerSpec, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    engine = places.engine
    lazy = tmp_path / "lazy"
    lazy.write_text(
        f'#!/bin/sh\ncase " $* " in *" delete "*) echo no luck >&2; exit 1;; esac\nexec {engine.program} "$@"\n'
    )
    lazy.chmod(0o755)
    places.engine = replace(engine, program=str(lazy))
    async with runtime_on(places) as runtime:
        gone = await runtime.start(replace(spec, limits=CgroupLimits(memory_bytes=2**26)))
        await runtime.remove(gone.id)
        assert await runtime.list() == []
    places.engine = engine
    assert engine.knows(gone.id) or not engine.keep_options
    (engine.state_dir / gone.id).mkdir(exist_ok=True)  # crun deletes it by itself
    async with runtime_on(places) as runtime:
        kept = await runtime.start(replace(spec, attempt=5))
        sweep_engine(engine, places.instances, proc_root=PROC)
        assert (engine.knows(gone.id), engine.knows(kept.id)) == (False, True)
        shutil.rmtree(places.instances / kept.id)
        sweep_engine(engine, places.instances, proc_root=PROC)
        assert engine.knows(kept.id), "its wrapper runs, though its record is lost"
        await runtime.remove(kept.id)
    sweep_engine(engine, places.instances, proc_root=PROC)
    assert [each.levelname for each in caplog.records if "is left of" in each.getMessage()] == []


async def test_an_engine_that_cannot_delete_does_not_keep_a_node_from_starting(
    places: Places, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (places.engine.state_dir / "old").mkdir(parents=True)
    sweep_engine(replace(places.engine, program="/bin/false"), places.instances, proc_root=PROC)
    assert f"{places.engine.state_dir}/old is left of a container that has ended" in caplog.text
    sweep_engine(places.engine, tmp_path / "none", proc_root=PROC)
    assert not places.engine.knows("old")


async def test_what_a_node_left_that_was_killed_while_it_tried_an_engine_is_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tmp").mkdir()
    os.mkfifo(tmp_path / "said")
    hung = tmp_path / "hung"
    hung.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/said\nexec sleep 600\n")
    hung.chmod(0o755)
    script = "import sys; from plugbay.runtimes.oci.engines import probe; probe(sys.argv[1])"
    node = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, str(hung), env={**os.environ, "TMPDIR": str(tmp_path / "tmp")}
    )
    try:
        async with asyncio.timeout(DEADLINE_S):
            engine = int(await asyncio.to_thread((tmp_path / "said").read_text))
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
        (used,) = (tmp_path / "tmp").iterdir()
        assert probe("/bin/false")
        assert list((tmp_path / "tmp").iterdir()) == [used], "its node is still trying"
    finally:
        node.kill()
        await node.wait()
    os.kill(engine, signal.SIGKILL)
    (tmp_path / "tmp/plugbay-probe-file").touch()
    assert probe("/bin/false")
    assert [each.name for each in (tmp_path / "tmp").iterdir()] == ["plugbay-probe-file"]


async def test_a_node_sweeps_its_engine_when_it_starts(tmp_path: Path) -> None:
    config = NodeConfig(tmp_path / "node")
    engine = find_engine(config, None, environ=os.environ)
    left = config.oci_dir / "engine" / engine.kind / "old"
    left.mkdir(parents=True)
    await asyncio.to_thread(
        open_oci, config, OciConfig(None, None, (), None, ()), environ=os.environ, clock=SystemClock()
    )
    assert not left.exists()


async def test_an_engine_that_fails_is_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = f"plugbay-probe-{os.getpid()}-"  # tests beside this one try engines, too
    monkeypatch.setattr("plugbay.runtimes.oci.engines._PROBE", own)
    bad = tmp_path / "badrun"
    bad.write_text("#!/bin/sh\necho no luck today >&2\nexit 1\n")
    bad.chmod(0o755)
    assert probe(str(bad)) == "no luck today"
    with pytest.raises(EngineUnusable, match=r"no OCI engine runs containers here: .*badrun: no luck today"):
        choose_engine(str(bad), search_path="", state_dir=tmp_path)
    with pytest.raises(EngineUnusable, match="crun: not found; runc: not found"):
        choose_engine(None, search_path="", state_dir=tmp_path)
    engine = choose_engine(None, search_path=os.environ["PATH"], state_dir=tmp_path)
    assert isinstance(engine, OciEngine)
    assert engine.version.split()[0] in ("crun", "runc")
    assert not [each for root in hierarchies(proc_root=PROC) for each in root.glob(f"{own}*")]
