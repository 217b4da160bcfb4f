"""Hooks around serving that take their time, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from plugbay import Device, DevicePlugin
from plugbay.sdk.serving.preparation import SLOW_SET_UP_S, TEAR_DOWN_S, set_up, tear_down
from tests.unit.sdk.virtual_loop import VirtualLoop


class Hanging(DevicePlugin):
    resource_name = "example.com/thing"

    def discover(self) -> Sequence[Device]:
        return []

    async def set_up(self) -> None:
        await asyncio.sleep(2 * SLOW_SET_UP_S)

    async def tear_down(self) -> None:
        await asyncio.Event().wait()


def test_hanging_tear_down_is_given_up(loop: VirtualLoop, caplog: pytest.LogCaptureFixture) -> None:
    began = loop.time()
    loop.run_until_complete(tear_down(Hanging()))
    assert loop.time() - began == pytest.approx(TEAR_DOWN_S)
    assert [record.getMessage() for record in caplog.records] == [
        "example.com/thing: tear_down() took more than 10 s and is given up"
    ]


def test_slow_set_up_is_told_once_and_waited_for(loop: VirtualLoop, caplog: pytest.LogCaptureFixture) -> None:
    loop.run_until_complete(set_up(Hanging(), lambda: pytest.fail("it has not failed")))
    assert [record.getMessage() for record in caplog.records] == ["example.com/thing: set_up() still runs"]
