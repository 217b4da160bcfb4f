"""Clients of containers, and what every runtime with wrappers does for them; tests of a runtime say how to open it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager

import pytest

from plugbay.errors import ExecFailed
from plugbay.runtimes.exec_input import Console, ExecInput, TerminalSize
from plugbay.runtimes.port import ContainerId, ContainerSpec, ExecStream, LogLines
from plugbay.runtimes.supervised.runtime import SupervisedRuntime
from tests.container_specs import changed

Opener = Callable[[], AbstractAsyncContextManager[SupervisedRuntime]]
ECHO = "while read line; do echo got $line; echo err $line >&2; done; echo end"


class Client:
    """A client that is attached.

    Attributes:
        has_left: set when it was told that the container has ended, or has left by itself.
    """

    def __init__(self, given: ExecInput) -> None:
        self.given = given
        self.texts = dict.fromkeys(ExecStream, b"")
        self.has_left = asyncio.Event()
        self._changed = asyncio.Event()

    async def until(self, text: bytes, stream: ExecStream = ExecStream.STDOUT) -> None:
        while text not in self.texts[stream]:
            assert not self.has_left.is_set(), self.texts
            self._changed.clear()
            await self._changed.wait()

    async def read(self, runtime: SupervisedRuntime, container: ContainerId, *, gives_input: bool) -> None:
        try:
            async with aclosing(runtime.attach(container, self.given, gives_input=gives_input)) as items:
                async for item in items:
                    self.texts[item.stream] += item.chunk
                    self._changed.set()
        finally:
            self.has_left.set()
            self._changed.set()


@asynccontextmanager
async def attached(
    runtime: SupervisedRuntime, container: ContainerId, console: Console = Console.PIPES, *, gives_input: bool = True
) -> AsyncIterator[Client]:
    client = Client(ExecInput(console))
    reading = asyncio.create_task(client.read(runtime, container, gives_input=gives_input))
    try:
        yield client
        if reading.done():
            reading.result()
    finally:
        reading.cancel()
        await asyncio.wait({reading})


def talking(spec: ContainerSpec, script: str, *, once: bool = False, tty: bool = False) -> ContainerSpec:
    return changed(spec, argv=("sh", "-c", script), stdin=True, stdin_once=once, tty=tty)


async def every_client_sees_what_the_container_prints(open_runtime: Opener, spec: ContainerSpec) -> None:
    async with open_runtime() as runtime:
        state = await runtime.start(talking(spec, ECHO))
        async with attached(runtime, state.id) as one, attached(runtime, state.id, gives_input=False) as other:
            await one.given.send(b"1\n")
            await one.until(b"got 1\n")
            await one.given.end()
            await one.given.send(b"lost")
            async with attached(runtime, state.id) as third:
                await third.given.send(b"2\n")
                for each in (one, third):
                    await each.until(b"got 2\n")
                    await each.until(b"err 2\n", ExecStream.STDERR)
            await other.until(b"got 2\n")
        async with attached(runtime, state.id) as later:
            await later.given.send(b"3\n")
            await later.until(b"got 3\n")
            await later.until(b"err 3\n", ExecStream.STDERR)
            assert later.texts[ExecStream.STDOUT] == b"got 3\n", "what was printed before is in the log only"
        lines = LogLines(stream=ExecStream.STDERR)
        assert b"".join([each async for each in runtime.log(state.id, lines=lines)]) == b"err 1\nerr 2\nerr 3\n"


async def the_first_client_ends_the_input_of_a_container_for_one(open_runtime: Opener, spec: ContainerSpec) -> None:
    async with open_runtime() as runtime:
        state = await runtime.start(talking(spec, f"echo begun; {ECHO}", once=True))
        async with attached(runtime, state.id) as client:
            await client.until(b"begun\n")
            await client.given.send(b"x\n")
            await client.given.end()
            await client.has_left.wait()
        assert client.texts[ExecStream.STDOUT] == b"begun\ngot x\nend\n"
        assert (await runtime.wait(state.id)).exit_code == 0


async def a_client_that_leaves_ends_the_input_of_a_container_for_one(open_runtime: Opener, spec: ContainerSpec) -> None:
    async with open_runtime() as runtime:
        state = await runtime.start(talking(spec, ECHO, once=True))
        async with attached(runtime, state.id) as client:
            await client.given.send(b"x\n")
            await client.until(b"got x\n")
        assert (await runtime.wait(state.id)).exit_code == 0


async def a_terminal_has_a_size_and_is_the_containers_own(open_runtime: Opener, spec: ContainerSpec) -> None:
    script = (
        'tty; echo $TERM; read size; stty size; trap "stty size; exit 4" WINCH; echo ready; while :; do sleep 0.1; done'
    )
    async with open_runtime() as runtime:
        state = await runtime.start(talking(spec, script, once=True, tty=True))
        async with attached(runtime, state.id, Console.TERMINAL) as client:
            client.given.resize(TerminalSize(100, 40))
            await client.until(b"xterm\r\n")
            await client.given.send(b"\n")
            await client.until(b"40 100\r\n")
            await client.until(b"ready\r\n")
            client.given.resize(TerminalSize(80, 20))
            await client.until(b"20 80\r\n")
            await client.has_left.wait()
        assert client.texts[ExecStream.STDOUT].startswith(b"/dev/pts/")
        assert (await runtime.wait(state.id)).exit_code == 4


async def a_container_talks_on_after_its_node_was_restarted(open_runtime: Opener, spec: ContainerSpec) -> None:
    async with open_runtime() as runtime:
        state = await runtime.start(talking(spec, ECHO, tty=True))
        async with attached(runtime, state.id, Console.TERMINAL) as client:
            await client.given.send(b"1\n")
            await client.until(b"got 1\r\n")
        async with open_runtime() as later, attached(later, state.id, Console.TERMINAL) as client:
            await client.given.send(b"2\n")
            await client.until(b"got 2\r\n")


async def much_goes_both_ways(open_runtime: Opener, spec: ContainerSpec) -> None:
    """More than all buffers on the way hold, to a container that reads nothing for a while."""
    size = 3_000_000
    async with open_runtime() as runtime:
        container = talking(spec, "read go; cat", once=True)
        state = await runtime.start(container)
        async with attached(runtime, state.id) as client:
            await client.given.send(b"go\n")
            for number in range(size // 100_000):
                await client.given.send(bytes([number]) * 100_000)
            await client.given.end()
            await client.has_left.wait()
        expected = b"".join(bytes([number]) * 100_000 for number in range(size // 100_000))
        assert client.texts[ExecStream.STDOUT] == expected


async def a_client_that_reads_nothing_holds_no_end_up(open_runtime: Opener, spec: ContainerSpec) -> None:
    async with open_runtime() as runtime:
        state = await runtime.start(talking(spec, "read go; head -c 3000000 /dev/zero; sleep 600"))
        given = ExecInput(Console.PIPES)
        async with aclosing(runtime.attach(state.id, given, gives_input=True)) as items, asyncio.TaskGroup() as tasks:
            tasks.create_task(given.send(b"go\n"))
            await anext(items)  # and no more, so that all pipes fill
            assert (await runtime.stop(state.id, grace_s=0)).exit_code == 137


async def a_client_that_reads_nothing_is_left_after_a_while(open_runtime: Opener, spec: ContainerSpec) -> None:
    script = "read go; head -c 3000000 /dev/zero; echo; read more; echo got $more"
    async with open_runtime() as runtime:
        state = await runtime.start(talking(spec, script))
        given = ExecInput(Console.PIPES)
        async with aclosing(runtime.attach(state.id, given, gives_input=True)) as items:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(given.send(b"go\n"))
                await anext(items)
            async with aclosing(runtime.log(state.id, follow=True)) as chunks:
                async for chunk in chunks:
                    if chunk.endswith(b"\n"):
                        break  # the container has gone on, although the client has not read
            with pytest.raises(ExecFailed, match="the client has read nothing"):
                [item async for item in items]
        async with attached(runtime, state.id) as client:
            await client.given.send(b"1\n")
            await client.until(b"got 1\n")
