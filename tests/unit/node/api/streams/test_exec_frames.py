import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.node.api.streams.exec_frames import InputDecoder, encode
from plugbay.node.api.streams.frames import ExecChannel, Frame
from plugbay.runtimes.exec_input import TerminalSize
from plugbay.runtimes.port import ExecExit, ExecOutput, ExecStream


def frame(channel: ExecChannel, payload: bytes) -> bytes:
    return Frame(channel, payload).encode()


items = st.lists(st.binary(max_size=20) | st.builds(TerminalSize, st.integers(0, 65535), st.integers(0, 65535)))


@given(items, st.integers(1, 7))
def test_what_a_client_sends_is_read_whatever_the_pieces(sent: list[bytes | TerminalSize], piece: int) -> None:
    wire = b"".join(
        frame(ExecChannel.STDIN, item)
        if isinstance(item, bytes)
        else frame(ExecChannel.RESIZE, json.dumps({"width": item.width, "height": item.height}).encode())
        for item in sent
    )
    decoder = InputDecoder()
    read = [item for at in range(0, len(wire), piece) for item in decoder.feed(wire[at : at + piece])]
    assert read == sent


@pytest.mark.parametrize(
    ("chunk", "problem"),
    [
        (frame(ExecChannel.STDOUT, b"x"), "a client has no channel 1"),
        (b"\0\xff\xff\xff\xff", "too large"),
        (b"\x09\0\0\0\0", "there is no channel 9"),
        (frame(ExecChannel.RESIZE, b"{}"), "the size of a terminal must be"),
        (frame(ExecChannel.RESIZE, b'{"width": 70000, "height": 1}'), "the size of a terminal must be"),
        (frame(ExecChannel.RESIZE, b'{"width": true, "height": 1}'), "the size of a terminal must be"),
        (frame(ExecChannel.RESIZE, b'{"width": 1.5, "height": 1}'), "the size of a terminal must be"),
        (
            frame(ExecChannel.RESIZE, b'{"width": 80, "height": 25, "x": ' + b"[" * 100_000),
            "the size of a terminal must be",
        ),
        (frame(ExecChannel.RESIZE, b"[" * 100_000), "the size of a terminal must be"),
        (frame(ExecChannel.RESIZE, b"80x25"), "the size of a terminal must be"),
        (frame(ExecChannel.RESIZE, b"\xff"), "the size of a terminal must be"),
    ],
)
def test_what_no_client_may_say_is_refused(chunk: bytes, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        list(InputDecoder().feed(chunk))


def test_output_and_exit_are_frames() -> None:
    assert encode(ExecOutput(ExecStream.STDERR, b"oh")) == b"\x02\0\0\0\x02oh"
    assert encode(ExecExit(3)) == b'\x03\0\0\0\x0f{"exitCode": 3}'
