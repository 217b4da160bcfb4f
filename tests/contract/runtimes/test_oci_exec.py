"""Commands beside a container of a real engine."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from plugbay.errors import ExecFailed
from plugbay.model.edits import ContainerEdits
from plugbay.runtimes.exec_input import Console, ExecInput, TerminalSize
from plugbay.runtimes.port import ContainerSpec, ExecExit, ExecOutput
from tests.container_specs import changed
from tests.contract.rigs.oci import Places, places, processes_in, run, runtime_on, spec, why_not, write_cdi
from tests.contract.rigs.process import until_ended

__all__ = ["places", "spec"]

pytestmark = [pytest.mark.root, pytest.mark.skipif(bool(why_not()), reason=why_not())]


async def test_a_command_runs_in_the_container(places: Places, spec: ContainerSpec) -> None:
    async with runtime_on(places) as runtime:
        state = await runtime.start(changed(spec, env={"OWN": "x"}, working_dir="/usr"))
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
        state = await runtime.start(changed(spec, env={"OWN": "pod", "SPACED": "a  b"}, edits=edits))
        command = ("printenv", "FROM_CDI", "OWN", "GOPHER", "FROM_PLUGIN", "SPACED", "HOSTNAME", "TERM")
        out, _, code = await run(runtime, state.id, *command, given=ExecInput(Console.TERMINAL))
        assert (out.splitlines(), code) == (["yes", "cdi", "g0", "yes", "a  b", "gopher-pod", "xterm"], 0)


async def test_nothing_is_lost_that_a_short_command_prints_on_a_terminal(places: Places, spec: ContainerSpec) -> None:
    """An engine in the foreground loses it, or ends its lines twice, in one run of ten: it copies what it reads."""
    words = tuple(f"word-{number}" for number in range(3))
    async with runtime_on(places) as runtime:
        state = await runtime.start(spec)

        async def print_words() -> tuple[str, str, int]:
            return await run(runtime, state.id, "printf", r"%s\n", *words, given=ExecInput(Console.TERMINAL))

        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(print_words()) for _ in range(40)]
        assert {each.result() for each in running} == {("".join(f"{word}\r\n" for word in words), "", 0)}
        assert not list(places.instances.rglob("terminal-*")), "the files for handing over are gone"


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
