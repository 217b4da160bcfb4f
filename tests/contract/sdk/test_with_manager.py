"""The SDK's health checks as our manager sees them, over real sockets."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from plugbay import Device, DevicePlugin, health
from plugbay.sdk.process.runner import serving
from plugbay.sdk.process.targets import load_plugins
from tests.contract.rigs.logs import Log, log
from tests.contract.rigs.manager import GOPHER, bench, pod
from tests.contract.sdk.test_health import HANGING

__all__ = ["log"]

OFTEN_S = 0.01


class Flapping(DevicePlugin):
    """One device, whose check says in turn what ``verdicts`` hold, the last one for ever."""

    resource_name = GOPHER

    def __init__(self) -> None:
        self.verdicts: list[bool] = [True]
        self.asked = 0

    def discover(self) -> Iterable[Device]:
        return [Device("a")]

    @health(every=OFTEN_S, fall=3, rise=3)
    def check(self, device: Device) -> bool:
        self.asked += 1
        return self.verdicts.pop(0) if len(self.verdicts) > 1 else self.verdicts[0]


async def test_flapping_health_reaches_the_manager_only_when_it_lasts(sockets: Path) -> None:
    flapping = Flapping()
    async with bench(sockets) as b:
        seen: list[int] = []
        async with serving([flapping], paths=b.paths):
            await b.counts(1, 1)
            flapping.verdicts = [False, False, True] * 20 + [False]

            def fallen() -> bool:
                seen.append(b.manager.resources()[GOPHER].allocatable)
                return seen[-1] == 0

            await b.until(fallen)
            assert len(flapping.verdicts) == 1, "it fell while it was flapping"
            flapping.verdicts = [True, True, False] * 20 + [True]
            await b.counts(1, 1)
            assert len(flapping.verdicts) == 1, "it rose while it was flapping"
            await b.admit(pod("p"))
            assert b.gophers_of("p") == {"app": {"a"}}


async def test_isolated_checks_that_abort_or_hang_cost_our_manager_one_device(sockets: Path, log: Log) -> None:
    target = sockets / "isolated.py"
    target.write_text(HANGING)
    [isolated] = load_plugins(str(target))
    assert isinstance(isolated, DevicePlugin)
    resource = isolated.resource_name
    async with bench(sockets / "root") as b, serving([isolated], paths=b.paths):
        await b.counts(2, 2, resource=resource)
        for order, reason in (("abort", "CheckCrashed"), ("hang", "CheckTimedOut")):
            whole = sockets / "order"
            whole.write_text(order)
            whole.rename(sockets / "a")
            await b.counts(2, 1, resource=resource)
            await log.seen(reason)
            (sockets / "a").unlink()
            await b.counts(2, 2, resource=resource)
