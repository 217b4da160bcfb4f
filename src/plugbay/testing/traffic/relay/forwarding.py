"""Pass the calls on one socket on to another, whatever their method: every byte of a message, and every status.

A status keeps its code and its text; its details and the metadata of answers are not passed on, and a kubelet reads
neither. Metadata of requests and deadlines are.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

from plugbay.testing.traffic.faults import FaultSwitches
from plugbay.testing.traffic.transport import DisturbedChannel
from plugbay.traffic.recorder import TrafficRecorder
from plugbay.traffic.records import Party
from plugbay.values import dataclass
from plugbay.wire.calls import CallChannel
from plugbay.wire.grpc.channel import Channel
from plugbay.wire.grpc.metadata import Metadata
from plugbay.wire.grpc.server import serve_grpc
from plugbay.wire.grpc.services import Forwarded
from plugbay.wire.message_values import LIST_AND_WATCH, METHODS

Change = Callable[[str, bytes], bytes]
"""Makes the answer that arrives from the path of the method and the answer that was given."""


@dataclass(frozen=True, slots=True)
class TrafficWatch:
    """Everything that a relay passes on is recorded and disturbed here.

    Attributes:
        recorder: gets a record of it.
        switches: disturb it.
    """

    recorder: TrafficRecorder
    switches: FaultSwitches

    def over(self, channel: Channel, resource: str = "", *, caller: Party = Party.KUBELET) -> DisturbedChannel:
        """A channel to a server on either side, looked at."""
        return DisturbedChannel(channel, resource, self.recorder, self.switches, caller=caller)


def forwarded(channel: CallChannel, path: str, change: Change | None = None) -> Forwarded:
    """The method at ``path``, answered by the server behind ``channel``.

    Args:
        change: makes another answer of that of a unary method.
    """
    is_unary = path in METHODS and path != LIST_AND_WATCH

    async def answers(request: bytes, metadata: Metadata, left_s: float | None) -> AsyncGenerator[bytes, None]:
        if is_unary:
            answer = await channel.unary(path, request, timeout_s=left_s, metadata=metadata)
            yield answer if change is None else change(path, answer)
            return
        async with aclosing(channel.stream(path, request, timeout_s=left_s, metadata=metadata)) as messages:
            async for message in messages:
                yield message

    return Forwarded(answers)


@asynccontextmanager
async def forward(socket: Path, channel: CallChannel) -> AsyncIterator[None]:
    """Serve ``socket`` until the block ends: all its calls go to the server behind ``channel``.

    Raises:
        PathTooLong, PathUnusable: see `serve_grpc`.
    """
    async with serve_grpc(socket, [], otherwise=lambda path: forwarded(channel, path)):
        yield
