from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from pathlib import Path

import pytest

from plugbay.kernel.uevent import Uevent, UeventsLost, is_from_kernel, open_uevents, parse_uevent

DEADLINE_S = 30
NULL = Path("/sys/class/mem/null/uevent")
needs_root = pytest.mark.skipif(not os.access(NULL, os.W_OK), reason="only root may have the kernel send uevents")

TTY = (
    b"add@/devices/platform/serial8250/tty/ttyS4\0ACTION=add\0DEVPATH=/devices/platform/serial8250/tty/ttyS4\0"
    b"SUBSYSTEM=tty\0MAJOR=4\0MINOR=68\0DEVNAME=ttyS4\0SEQNUM=1510\0"
)


def test_message_is_parsed() -> None:
    event = parse_uevent(TTY)
    assert event is not None
    assert (event.action, event.path) == ("add", "/devices/platform/serial8250/tty/ttyS4")
    assert event.properties == {
        "ACTION": "add",
        "DEVPATH": "/devices/platform/serial8250/tty/ttyS4",
        "SUBSYSTEM": "tty",
        "MAJOR": "4",
        "MINOR": "68",
        "DEVNAME": "ttyS4",
        "SEQNUM": "1510",
    }
    assert str(event) == "uevent add /devices/platform/serial8250/tty/ttyS4"


@pytest.mark.parametrize(
    ("message", "event"),
    [
        pytest.param(b"", None, id="nothing"),
        pytest.param(b"libudev\0\xfe\xed\xca\xfe\0\0\0(", None, id="udev"),
        pytest.param(b"add@\0A=b\0", None, id="no path"),
        pytest.param(b"@/devices/x\0", None, id="no action"),
        pytest.param(b"add@devices/x\0", None, id="no sysfs path"),
        pytest.param(b"add@/x", Uevent("add", "/x", {}), id="cut after the head"),
        pytest.param(b"add@/x\0A=b=c\0NONE\0=d\0E=", Uevent("add", "/x", {"A": "b=c", "E": ""}), id="odd variables"),
        pytest.param(b"add@/x@y\0N=\xff\0", Uevent("add", "/x@y", {"N": "\N{REPLACEMENT CHARACTER}"}), id="bytes"),
    ],
)
def test_odd_messages(message: bytes, event: Uevent | None) -> None:
    assert parse_uevent(message) == event


def test_only_the_kernel_is_believed() -> None:
    assert is_from_kernel((0, 1))
    assert not is_from_kernel((os.getpid(), 1))


@needs_root
async def test_real_event_arrives() -> None:
    async with asyncio.timeout(DEADLINE_S), open_uevents() as uevents:
        NULL.write_text("change")
        async for event in uevents:  # the machine may have others to tell
            if isinstance(event, Uevent) and event.properties.get("DEVNAME") == "null":
                assert (event.action, event.properties["SUBSYSTEM"]) == ("change", "mem")
                return


@needs_root
async def test_overrun_is_told_and_events_go_on() -> None:
    async with asyncio.timeout(DEADLINE_S), open_uevents() as uevents:
        uevents._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        for _ in range(50):
            NULL.write_text("change")
        while not isinstance(await anext(uevents), UeventsLost):
            pass
        uevents._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        NULL.write_text("change")
        while isinstance(await anext(uevents), UeventsLost):
            pass


async def test_cancelled_wait_leaves_nothing_behind() -> None:
    async with open_uevents() as uevents:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.01):
                while True:
                    await anext(uevents)
        assert not asyncio.get_running_loop().remove_reader(uevents._socket)
    assert uevents._socket.fileno() == -1
