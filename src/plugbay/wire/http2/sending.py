"""The sending half of a connection: frames on their way out, as far as the peer's windows let them through.

Source: RFC 9113 sections 5.2, 6.9 and 8.1.
"""

from __future__ import annotations

from collections import deque

from plugbay.wire.http2 import frames
from plugbay.wire.http2.budgets import MOST_ANSWERS, SMALL_DATA, Budget
from plugbay.wire.http2.codes import ConnectionFault, ErrorCode
from plugbay.wire.http2.frames import DATA, END_STREAM, HEAD
from plugbay.wire.http2.header_blocks import EMPTY_TABLE
from plugbay.wire.http2.settings import Settings
from plugbay.wire.http2.stream_states import Happening
from plugbay.wire.http2.streams import Queued, Sent, Stream, StreamTable
from plugbay.wire.http2.windows import DEFAULT_WINDOW


class Sender:
    """Writes frames, and queues what has to wait.

    Attributes:
        window: so many bytes of DATA the peer takes on all streams together.

    Args:
        remote: the peer's settings, as they are at each moment.
        cheap: the peer's budget, to which frames of use give something back.
    """

    def __init__(self, streams: StreamTable, remote: Settings, cheap: Budget) -> None:
        self.window = DEFAULT_WINDOW
        self._streams = streams
        self._remote = remote
        self._cheap = cheap
        self._out: list[bytes | memoryview] = []
        self._answers = 0
        self._before_block = EMPTY_TABLE
        self._last_served = 0

    def take(self) -> bytes:
        """All bytes that are to be sent now; they are not given again."""
        out = self._out
        if not out:
            return b""
        taken = b"".join(out)
        out.clear()
        self._answers = 0
        return taken

    def write(self, frame: bytes) -> None:
        """Send a frame that no window holds back."""
        self._out.append(frame)

    def answer(self, frame: bytes) -> None:
        """Send a frame that the peer has made us send.

        Raises:
            ConnectionFault: it does not read the others.
        """
        self._answers += 1
        if self._answers > MOST_ANSWERS:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, f"{MOST_ANSWERS} answers to the peer lie unread")
        self._out.append(frame)

    def headers(self, stream: Stream, block: bytes, *, ends: bool) -> None:
        """Send the first HEADERS or trailers, the latter behind what is queued."""
        if stream.sent is Sent.END or (stream.sent is Sent.HEADERS and not ends):
            raise RuntimeError(f"HEADERS on stream {stream.id} after its {stream.sent.value} cannot be sent")
        stream.sent = Sent.END if ends else Sent.HEADERS
        if stream.queue:
            stream.queue.append(Queued(block, is_block=True, ends=ends))
        else:
            self._write_headers(stream, block, ends)

    def data(self, stream: Stream, content: bytes, *, ends: bool) -> None:
        """Send DATA, or queue what the windows do not let through."""
        if stream.sent is not Sent.HEADERS:
            raise RuntimeError(f"DATA on stream {stream.id} after {stream.sent.value} cannot be sent")
        if ends:
            stream.sent = Sent.END
        elif not content:
            return
        size = len(content)
        if not (stream.queue or size > self._remote.max_frame_bytes or size > stream.send_window or size > self.window):
            self._write_data(stream, content, ends)
            return
        if stream.queue is None:
            stream.queue = deque()
        stream.queue.append(Queued(memoryview(content), is_block=False, ends=ends))
        stream.unsent += size
        self.advance(stream)

    def advance(self, stream: Stream) -> bool:
        """Send as much of one stream's queue as its windows let through; return whether that was all."""
        while stream.queue and self._may_send(stream):
            self._send_queued(stream)
        return not stream.queue

    def advance_all(self) -> list[int]:
        """Send what the windows let through, a frame of each stream in turn; return the streams that have no more."""
        drained = []
        waiting = [stream for stream in self._streams.open.values() if stream.queue]
        # The turn is where it was left, so that small windows do not all go to the first stream.
        moving = sorted(waiting, key=lambda stream: (stream.id <= self._last_served, stream.id))
        while moving:
            for stream in moving:
                if self._may_send(stream):
                    self._send_queued(stream)
                    self._last_served = stream.id
            drained += [stream.id for stream in moving if not stream.queue]
            moving = [stream for stream in moving if stream.queue and self._may_send(stream)]
        return drained

    def drop(self, stream: Stream) -> None:
        """Forget what is queued on a stream that is closed."""
        stream.queue = None
        stream.unsent = 0

    def _may_send(self, stream: Stream) -> bool:
        """Whether the windows let through something of what is first in the queue, which is not empty."""
        assert stream.queue
        first = stream.queue[0]
        return first.is_block or not first.content or (self.window > 0 and stream.send_window > 0)

    def _send_queued(self, stream: Stream) -> None:
        """Send one frame of a queue, which the windows let through."""
        assert stream.queue
        content, is_block, ends = stream.queue.popleft()
        if is_block:
            self._write_headers(stream, bytes(content), ends)
            return
        size = len(content)
        fits = min(size, self._remote.max_frame_bytes, max(stream.send_window, 0), max(self.window, 0))
        stream.unsent -= fits
        if fits < size:
            stream.queue.appendleft(Queued(content[fits:], is_block=False, ends=ends))
            content, ends = content[:fits], False
        if size > fits and fits < SMALL_DATA:
            self._write_frame(stream, bytes(content), ends)  # a crumb, of which a view would take several times as much
        else:
            self._write_data(stream, content, ends)

    def _write_headers(self, stream: Stream, block: bytes, ends: bool) -> None:
        if self._before_block:
            block, self._before_block = self._before_block + block, b""
        self._out.extend(frames.headers(stream.id, block, END_STREAM if ends else 0, self._remote.max_frame_bytes))
        self._cheap.earn()
        if ends:
            self._streams.change(stream, Happening.END_SENT)

    def _write_data(self, stream: Stream, content: bytes | memoryview, ends: bool) -> None:
        self._write_frame(stream, content, ends)
        self._cheap.earn()

    def _write_frame(self, stream: Stream, content: bytes | memoryview, ends: bool) -> None:
        size = len(content)
        self.window -= size
        stream.send_window -= size
        self._out.append(HEAD.pack(size << 8 | DATA, END_STREAM if ends else 0, stream.id))
        self._out.append(content)
        if ends:
            self._streams.change(stream, Happening.END_SENT)
