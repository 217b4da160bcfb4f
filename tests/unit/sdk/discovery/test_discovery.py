from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from plugbay import Device, DevicePlugin, unhealthy
from plugbay.model.ids import DeviceId
from plugbay.sdk.discovery.discovery import FIRST_RECHECK_S, Discovery
from plugbay.sdk.discovery.listing import Listing
from plugbay.sdk.watching import watching

DEADLINE_S = 30


class Scripted(DevicePlugin):
    """Finds, one time after the other, what a test says."""

    resource_name = "example.com/thing"

    def __init__(self, *outcomes: list[Device] | Exception) -> None:
        self.outcomes = list(outcomes)

    def discover(self) -> Iterable[Device]:
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


async def until_found(plugin: DevicePlugin) -> list[str]:
    """The IDs of the first list."""
    published: list[str] = []
    discovery = Discovery(plugin, Listing(lambda devices: published.extend(device.id for device in devices)))
    async with asyncio.timeout(DEADLINE_S), watching() as watches, asyncio.TaskGroup() as tasks:
        running = tasks.create_task(discovery.run(watches))
        await discovery.found.wait()
        running.cancel()
    return published


async def test_a_list_we_refuse_is_one_sentence(caplog: pytest.LogCaptureFixture) -> None:
    assert await until_found(Scripted([Device("a"), Device("a")], [Device("b")])) == ["b"]
    [refused] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert refused.getMessage().startswith(
        "example.com/thing: looking for devices failed, nothing is registered before there is a list: "
        "device ID 'a' occurs twice in one list (test_discovery.py:"
    )
    assert refused.exc_info is None


async def test_an_authors_mistake_comes_with_its_place(caplog: pytest.LogCaptureFixture) -> None:
    assert await until_found(Scripted(ValueError("no such bus"), [Device("b")])) == ["b"]
    [failed] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "before there is a list: ValueError: no such bus (test_discovery.py:" in failed.getMessage()
    assert failed.exc_info is not None


async def _device() -> Device:
    return Device("a")


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (None, "discover() gave None; does it lack a `return`? No devices are an empty list"),
        (_device, "discover() gave one Device, a; put it in a list"),
        (5, "discover() gave 5 instead of a list of plugbay.Device values"),
    ],
)
async def test_what_is_not_a_list_of_devices_is_a_sentence(
    caplog: pytest.LogCaptureFixture, given: object, problem: str
) -> None:
    class Wrong(DevicePlugin):
        resource_name = "example.com/thing"
        looks = 0

        def discover(self) -> Any:
            self.looks += 1
            if self.looks > 1:
                return [Device("b")]
            return given() if callable(given) else given

    assert await until_found(Wrong()) == ["b"]
    [failed] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert f"before there is a list: {problem} (test_discovery.py:" in failed.getMessage()


async def test_no_devices_at_first_are_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    assert await until_found(Scripted([])) == []
    assert caplog.messages == ["example.com/thing: discover() has found no devices yet; a kubelet is offered 0"]


async def test_a_missing_path_means_no_devices_and_the_log_names_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plugin = Scripted(FileNotFoundError("the author's"))
    plugin.watch = tmp_path / "absent"
    assert await until_found(plugin) == []
    [warning] = caplog.messages
    assert f"discover() has found no devices yet (there is no {tmp_path}/absent)" in warning


def test_devices_that_could_not_be_given_wait_for_a_look_on_a_fresh_machine_too() -> None:
    """The loop's time counts from the start of the machine."""
    loop = YoungLoop()
    try:
        loop.run_until_complete(fail_to_give())
    finally:
        loop.close()


class YoungLoop(asyncio.SelectorEventLoop):
    """Of a machine that has run for a second, and goes on doing so."""

    def time(self) -> float:
        return 1.0


async def fail_to_give() -> None:
    listing = Listing(lambda _: None)
    discovery = Discovery(Scripted(), listing)
    for expected_s in (FIRST_RECHECK_S, 2 * FIRST_RECHECK_S):
        listing.allocation_failed({DeviceId("a"): unhealthy("Stuck")})
        assert discovery._recheck is not None
        assert discovery._recheck.when() == 1.0 + expected_s


@pytest.mark.skipif(os.geteuid() == 0, reason="root may look everywhere")
async def test_a_watched_path_that_is_closed_to_us_does_not_end_discovery(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    plugin = Scripted(FileNotFoundError("the author's"))
    plugin.watch = (tmp_path, closed / "bus")
    assert await until_found(plugin) == []
