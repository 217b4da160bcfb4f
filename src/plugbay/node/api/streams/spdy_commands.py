"""Containers over SPDY, as kubectl before 1.31 speaks it: a stream for each of what goes in and out.

Source: Kubernetes 1.36 ``kubelet/pkg/cri/streaming/remotecommand/httpstream.go``,
``client-go/tools/remotecommand/v4.go``.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from contextlib import aclosing
from functools import partial
from typing import Final

from plugbay.documents import Json
from plugbay.errors import ExecFailed, InstanceNotFound, InstanceUnreadable
from plugbay.node.api.parameters import is_set
from plugbay.node.api.streams.exec_status import SessionOutput, exit_status, failed_status
from plugbay.node.api.streams.spdy_upgrades import SPDY, negotiated
from plugbay.node.api.streams.terminal_sizes import SizeReader
from plugbay.ops.routing import HttpError, Request, UpgradedStream, UpgradeResponse
from plugbay.ops.tasks import first
from plugbay.runtimes.exec_input import ExecInput
from plugbay.runtimes.port import ExecExit, ExecOutput, ExecStream
from plugbay.wire.spdy.connection import SpdyRole
from plugbay.wire.spdy.frames import SpdyFault
from plugbay.wire.spdy.session import SpdySession, SpdyStream

_V4: Final = "v4.channel.k8s.io"
_VERSIONS: Final = (_V4, "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io")
"""The first tells the end of a command as a Status, the others as a text. The third and fourth have no resizing."""
_STREAMS_S: Final = 30.0
"""The time that a client has to open the streams that it has announced."""
_MAX_STREAMS: Final = 10
_CLIENT_LEAVES_S: Final = 1.0
"""Closing while the client still sends could destroy what it has not read."""
_ERROR: Final = "error"
_STDIN: Final = "stdin"
_RESIZE: Final = "resize"
_OUTPUTS: Final = {"stdout": ExecStream.STDOUT, "stderr": ExecStream.STDERR}


def over_spdy(request: Request, output: SessionOutput, given: ExecInput) -> UpgradeResponse:
    """Switch to SPDY, and pass ``output`` to the client and its input to ``given``.

    Args:
        output: is begun once the client has opened its streams, and closed at the end.

    Raises:
        HttpError: the client wants none of the streams, or speaks no version of ours.
    """
    is_terminal = is_set(request, "tty")
    wanted = {kind for kind in (_STDIN, *_OUTPUTS) if is_set(request, kind)}
    if is_terminal:
        wanted.discard("stderr")
    if not wanted:
        raise HttpError(400, "BadRequest", "you must specify at least 1 of stdin, stdout, stderr")
    version, header = negotiated(request, _VERSIONS)
    wanted.add(_ERROR)
    if is_terminal and version in _VERSIONS[:2]:
        wanted.add(_RESIZE)
    serve = partial(_serve, wanted=frozenset(wanted), version=version, output=output, given=given)
    return UpgradeResponse(SPDY, serve, (header,))


async def _serve(
    connection: UpgradedStream, *, wanted: frozenset[str], version: str, output: SessionOutput, given: ExecInput
) -> None:
    session = SpdySession(connection, SpdyRole.SERVER, max_streams=_MAX_STREAMS)
    async with aclosing(output):  # it kills the command when the client goes first
        try:
            await first(session.receive(), connection.until_gone(), _run(session, wanted, version, output, given))
        except* (SpdyFault, ConnectionError):
            pass  # the client is gone, or does not speak SPDY


async def _run(
    session: SpdySession, wanted: frozenset[str], version: str, output: SessionOutput, given: ExecInput
) -> None:
    try:
        async with asyncio.timeout(_STREAMS_S):
            streams = await _opened(session, wanted)
    except TimeoutError:
        return
    async with asyncio.TaskGroup() as tasks:
        inputs = [tasks.create_task(_refuse_others(session))]
        if _STDIN in streams:
            inputs.append(tasks.create_task(_pass_input(streams[_STDIN], given)))
        if _RESIZE in streams:
            inputs.append(tasks.create_task(_pass_sizes(streams[_RESIZE], given)))
        status = await _pass_output(streams, output)
        await streams[_ERROR].write(_told(status, version))
        for stream in streams.values():
            await stream.end()
        for task in inputs:
            task.cancel()
        await first(_drop(streams.get(_STDIN)), asyncio.sleep(_CLIENT_LEAVES_S))
    await session.leave()


async def _opened(session: SpdySession, wanted: frozenset[str]) -> dict[str, SpdyStream]:
    """The wanted streams by their kinds; others are reset."""
    streams: dict[str, SpdyStream] = {}
    while streams.keys() != wanted:
        stream = await session.arrivals.get()
        if stream is None:
            raise ConnectionAbortedError("the client left before it opened its streams")
        kind = stream.headers.get("streamtype", "")
        if kind in wanted and kind not in streams:
            streams[kind] = stream
            await stream.accept()
        else:
            await stream.reset()
    return streams


async def _refuse_others(session: SpdySession) -> None:
    while (stream := await session.arrivals.get()) is not None:
        await stream.reset()


async def _pass_input(stdin: SpdyStream, given: ExecInput) -> None:
    with contextlib.suppress(ConnectionError):
        while chunk := await stdin.read():
            await given.send(chunk)
    await given.end()


async def _drop(stdin: SpdyStream | None) -> None:
    """Read input that has no reader any more: it would hold up a client that sends it."""
    with contextlib.suppress(ConnectionError):
        while stdin is not None and await stdin.read():
            pass
    await asyncio.Event().wait()


async def _pass_sizes(resize: SpdyStream, given: ExecInput) -> None:
    reader = SizeReader()
    with contextlib.suppress(ConnectionError):
        while chunk := await resize.read():
            try:
                for size in reader.feed(chunk):
                    given.resize(size)
            except ValueError:
                await resize.reset()
                return


async def _pass_output(streams: dict[str, SpdyStream], output: SessionOutput) -> Json:
    """Pass on what the command prints; returns the Status of its end."""
    by_output = {kind: streams[name] for name, kind in _OUTPUTS.items() if name in streams}
    try:
        async for item in output:
            match item:
                case ExecExit(code):
                    return exit_status(code)
                case ExecOutput(kind, chunk) if kind in by_output:
                    await by_output[kind].write(chunk)
    except (ExecFailed, InstanceNotFound, InstanceUnreadable) as error:
        return failed_status(str(error))
    return exit_status(0)


def _told(status: Json, version: str) -> bytes:
    """The end of a command for a client of that version: before the fourth, success is silent."""
    if version == _V4:
        return json.dumps(status).encode()
    return b"" if status["status"] == "Success" else str(status["message"]).encode()
