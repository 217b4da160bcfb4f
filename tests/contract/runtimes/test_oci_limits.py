"""Rights and limits of containers of real engines, and the end for want of memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from plugbay.kernel.cgroups import accounts_swap, hierarchies
from plugbay.model.limits import CgroupLimits
from plugbay.model.security import Security
from plugbay.runtimes.oci.confinement import pod_cgroup
from plugbay.runtimes.port import ContainerSpec, RunState
from tests.container_specs import changed
from tests.contract.rigs.oci import (
    POD,
    Places,
    needs_limited_swap,
    output_of,
    places,
    processes_of,
    run,
    runtime_on,
    spec,
    start_and_die,
    whole_log,
    why_not,
)
from tests.contract.rigs.process import PROC, sh, until_ended

__all__ = ["places", "spec"]

pytestmark = [pytest.mark.root, pytest.mark.skipif(bool(why_not()), reason=why_not())]

CGROUPS = hierarchies(proc_root=PROC)


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
        text = await output_of(runtime, changed(sh(spec, script), security=security))
    assert text.split() == [
        *("1000", "2000", "3000", "CapBnd:", "0" * 16, "CapEff:", "0" * 16, "NoNewPrivs:", "1"),
    ] or text.split() == ["1000", "2000", "3000", "CapEff:", "0" * 16, "CapBnd:", "0" * 16, "NoNewPrivs:", "1"]


async def test_capabilities_are_added_and_dropped(places: Places, spec: ContainerSpec) -> None:
    async with runtime_on(places) as runtime:
        script = "grep CapEff /proc/self/status"
        usual = int((await output_of(runtime, sh(spec, script))).split()[1], 16)
        assert usual == 0xA80425FB, "what containerd gives a container that asks for nothing"
        security = Security(added_capabilities=("NET_ADMIN",), dropped_capabilities=("CHOWN",))
        text = await output_of(runtime, changed(sh(spec, script), attempt=1, security=security))
        assert int(text.split()[1], 16) == usual & ~1 | 1 << 12


async def test_limits_are_those_of_the_cgroup(places: Places, spec: ContainerSpec) -> None:
    limits = CgroupLimits(cpu_shares=512, cpu_quota_us=50_000, memory_bytes=64 * 2**20)
    async with runtime_on(places) as runtime:
        files = "*/memory.limit_in_bytes */memory.memsw.limit_in_bytes memory.max */cpu.shares */cpu.cfs_quota_us"
        script = f"cd /sys/fs/cgroup; cat {files} cpu.max; echo swap $(cat memory.swap.max)"
        state = await runtime.start(changed(sh(spec, f"({script}) 2>/dev/null"), limits=limits))
        await runtime.wait(state.id)
        words = (await whole_log(runtime, state.id)).split()
    if accounts_swap(proc_root=PROC):
        assert words[-1] == "0" or words.count(str(64 * 2**20)) == 2, "it swaps nothing"
    assert str(64 * 2**20) in words
    assert "50000" in words


LITTLE = CgroupLimits(memory_bytes=32 * 2**20)


@pytest.mark.parametrize("keeps", [True, False], ids=["as it is", "older engine"])
async def test_container_that_has_ended_leaves_no_cgroup(places: Places, spec: ContainerSpec, *, keeps: bool) -> None:
    if not keeps:
        places.engine = replace(places.engine, keep_options=())
    pod = pod_cgroup(places.cgroup_parent, POD)
    async with runtime_on(places) as runtime:
        for attempt, end in enumerate(("exit 0", "exit 1")):
            state = await runtime.start(changed(sh(spec, end), attempt=attempt, limits=LITTLE))
            await runtime.wait(state.id)
            assert [each for root in CGROUPS for each in root.glob(f"{pod}/*/")] == []


@needs_limited_swap
async def test_want_of_memory_is_the_reason_for_the_end(places: Places, spec: ContainerSpec) -> None:
    if not places.engine.keep_options and not any(Path(each, "cgroup.controllers").exists() for each in CGROUPS):
        pytest.skip("with this engine only cgroups of version 2 tell")
    async with runtime_on(places) as runtime:
        state = await runtime.start(changed(spec, argv=("tail", "/dev/zero"), limits=LITTLE))
        ended = await runtime.wait(state.id)
        assert (ended.state, ended.exit_code, ended.reason) == (RunState.EXITED, 137, "OOMKilled")
        assert await places.runtime().list() == [ended], "a later node says the same"
        other = await runtime.start(changed(sh(spec, "exit 137"), attempt=1, limits=LITTLE))
        ended = await runtime.wait(other.id)
        assert (ended.exit_code, ended.reason) == (137, "Error"), "the code alone says nothing"


@needs_limited_swap
async def test_node_that_was_away_learns_of_want_of_memory(places: Places, spec: ContainerSpec) -> None:
    if not places.engine.keep_options:
        pytest.skip("this engine removes the cgroup that tells")
    async with runtime_on(places) as runtime:
        script = "while ! test -e /tmp/go; do sleep 0.1; done; exec tail /dev/zero"
        state = await start_and_die(places, changed(sh(spec, script), limits=LITTLE))
        wrapper = processes_of(places, state.id)["wrapper"]
        assert (await run(runtime, state.id, "touch", "/tmp/go"))[2] == 0
        await until_ended(wrapper)
        (ended,) = await runtime.list()
        assert (ended.exit_code, ended.reason) == (137, "OOMKilled")
