"""Commands in containers over SPDY, as kubectl before 1.31 runs them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from plugbay.wire.spdy.session import SpdySession, SpdyStream
from tests.contract.rigs.node_run import DEADLINE_S
from tests.contract.rigs.spdy_client import ApiNode, api_node, ask, session, whole

V4 = "v4.channel.k8s.io"
KUBECTL = (V4, "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io")


@pytest.fixture
async def api(sockets: Path) -> AsyncIterator[ApiNode]:
    async with api_node(sockets) as api:
        yield api


class Command:
    """A command, with its streams open."""

    def __init__(self, client: SpdySession) -> None:
        self.client = client
        self.streams: dict[str, SpdyStream] = {}

    async def open(self, *kinds: str) -> None:
        for kind in kinds:
            self.streams[kind] = await self.client.open({"streamtype": kind})

    async def end(self) -> Any:
        """The Status."""
        return json.loads(await whole(self.streams["error"]))


@asynccontextmanager
async def running(
    api: ApiNode, *command: str, versions: tuple[str, ...] = KUBECTL, **wanted: str
) -> AsyncIterator[Command]:
    """As kubectl does: the error stream first, then the input, the output, and the size of the terminal."""
    answer, pipe = await ask(api, "exec", *versions, command=list(command), **wanted)
    assert (answer.status, answer.headers["upgrade"].lower()) == (101, "spdy/3.1")
    assert answer.headers["x-stream-protocol-version"] == versions[0]
    async with session(pipe) as client:
        made = Command(client)
        kinds = [kind for kind in ("stdin", "stdout", "stderr") if kind in wanted]
        await made.open("error", *kinds, *(["resize"] if "tty" in wanted and versions[0] in KUBECTL[:2] else []))
        yield made


async def test_output_and_success(api: ApiNode) -> None:
    async with running(api, "sh", "-c", "echo out; echo err >&2", stdout="true", stderr="true") as command:
        assert await whole(command.streams["stdout"]) == b"out\n"
        assert await whole(command.streams["stderr"]) == b"err\n"
        assert await command.end() == {"metadata": {}, "status": "Success"}


async def test_an_exit_code_is_told_as_a_cause(api: ApiNode) -> None:
    async with running(api, "sh", "-c", "exit 7", stdout="true") as command:
        status = await command.end()
        assert (status["reason"], status["details"]["causes"]) == (
            "NonZeroExitCode",
            [{"reason": "ExitCode", "message": "7"}],
        )


@pytest.mark.parametrize("version", KUBECTL[1:])
async def test_versions_without_a_status_tell_the_end_in_words(api: ApiNode, version: str) -> None:
    async with running(api, "true", versions=(version,), stdout="true") as command:
        assert await whole(command.streams["error"]) == b""
    async with running(api, "sh", "-c", "exit 7", versions=(version,), stdout="true") as command:
        assert await whole(command.streams["error"]) == b"command terminated with non-zero exit code: exit status 7"


async def test_a_command_that_cannot_run_is_told_in_words(api: ApiNode) -> None:
    async with running(api, "no-such-program", stdout="true") as command:
        status = await command.end()
        assert (status["status"], status["code"]) == ("Failure", 500)
        assert "no-such-program" in status["message"]


async def test_much_goes_both_ways_whole_and_ends_by_itself(api: ApiNode) -> None:
    sent = bytes(range(256)) * 40_000
    async with running(api, "cat", stdin="true", stdout="true") as command, asyncio.TaskGroup() as tasks:
        received = tasks.create_task(whole(command.streams["stdout"]))
        await command.streams["stdin"].write(sent)
        await command.streams["stdin"].end()
        assert await received == sent
        assert (await command.end())["status"] == "Success"


async def test_a_command_that_reads_no_input_ends_as_well(api: ApiNode) -> None:
    """The client sends far more than may wait for the command, and can send all of it."""
    async with running(api, "sh", "-c", "read line; exit 3", stdin="true", stdout="true") as command:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(command.streams["stdin"].write(b"line\n" + b"x" * 20_000_000))
            assert (await command.end())["details"]["causes"][0]["message"] == "3"


async def test_a_terminal_has_the_size_of_the_clients(api: ApiNode) -> None:
    async with running(api, "sh", "-c", "read line; stty size", stdin="true", stdout="true", tty="true") as command:
        await command.streams["resize"].write(b'{"Width": 80, "Height": 25}\n{"Width": 91,')
        await command.streams["resize"].write(b' "Height": 37}\n')
        await command.streams["stdin"].write(b"go\n")
        assert b"37 91" in await whole(command.streams["stdout"])


async def test_output_that_is_not_wanted_is_dropped(api: ApiNode) -> None:
    async with running(api, "sh", "-c", "echo out; echo err >&2", stderr="true") as command:
        assert await whole(command.streams["stderr"]) == b"err\n"
        assert (await command.end())["status"] == "Success"


async def test_streams_that_were_not_announced_are_reset(api: ApiNode) -> None:
    async with running(api, "cat", stdin="true", stdout="true") as command:
        for kind in ("stdin", "stderr", "data"):
            other = await command.client.open({"streamtype": kind})
            with pytest.raises(ConnectionResetError):
                await other.read()
        await command.streams["stdin"].write(b"still there")
        assert await command.streams["stdout"].read() == b"still there"


async def test_a_client_that_leaves_ends_the_command(api: ApiNode) -> None:
    async with running(api, "sh", "-c", "echo $$; sleep 1000", stdout="true") as command:
        pid = int(await command.streams["stdout"].read())
    async with asyncio.timeout(DEADLINE_S):
        while Path(f"/proc/{pid}").exists():  # noqa: ASYNC110 - another process's end, of which nothing tells us
            await asyncio.sleep(0.02)


async def test_a_size_that_is_none_ends_the_stream_of_sizes_only(api: ApiNode) -> None:
    async with running(api, "cat", stdin="true", stdout="true", tty="true") as command:
        await command.streams["resize"].write(b'{"Width": -1}')
        with pytest.raises(ConnectionResetError):
            await command.streams["resize"].read()
        await command.streams["stdin"].write(b"x\n")
        assert b"x" in await command.streams["stdout"].read()


@pytest.mark.parametrize(
    ("versions", "query", "status", "words"),
    [
        (("v9.channel.k8s.io",), {"stdout": "true"}, 403, "client supports [v9.channel.k8s.io]"),
        ((), {"stdout": "true"}, 400, "X-Stream-Protocol-Version is required"),
        ((V4,), {}, 400, "at least 1 of stdin, stdout, stderr"),
        ((V4,), {"stdout": "true", "container": "x"}, 400, "x"),
        ((V4,), {"stdout": "true", "command": ""}, 400, "1 command"),
    ],
)
async def test_a_request_that_cannot_be_served_is_refused(
    api: ApiNode, versions: tuple[str, ...], query: dict[str, Any], status: int, words: str
) -> None:
    command = query.pop("command", ["true"])
    answer, pipe = await ask(api, "exec", *versions, **query, **({"command": command} if command else {}))
    pipe.writer.transport.abort()
    assert answer.status == status
    assert words in answer.body["message"]
