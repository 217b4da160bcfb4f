"""Commands of rules at work: health checks that go both ways, and releases between two pods."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from plugbay.model.edits import DeviceNode
from plugbay.model.ids import DeviceId, PodUid, ResourceName
from plugbay.plugins.generic.answers.devices import device_of
from plugbay.plugins.generic.config.rules import CommandRule, Entry, HealthRule, PathRule, Paths, RuleGroup
from plugbay.plugins.generic.selecting.units import Unit
from plugbay.plugins.generic.serving.offers import GenericOffer
from plugbay.plugins.generic.serving.plugin import GenericPlugin
from plugbay.plugins.generic.serving.surroundings import PluginSurroundings
from plugbay.sdk.author.release_settings import ReleasePolicy
from tests.contract.rigs.generic_node import until
from tests.contract.rigs.manager import GOPHER, Bench, pod
from tests.contract.rigs.release import gated
from tests.contract.rigs.sdk_release import run_pod
from tests.contract.rigs.serving import serving

NULL = DeviceNode("/dev/null")


def plugin_of(
    *names: str,
    health: HealthRule | None = None,
    release: CommandRule | None = None,
    facts: Mapping[str, str],
    are_shares: bool = False,
) -> GenericPlugin:
    """A plugin with some units, as one look found them.

    Args:
        are_shares: whether they are shares of one device.
    """
    group = RuleGroup(Paths((PathRule("/dev/null"),)), health=health or HealthRule(), release=release)
    entry = Entry("gopher", "example.com", (group,))
    units = {
        DeviceId(name): Unit(
            DeviceId(name),
            ResourceName(GOPHER),
            entry,
            group,
            copy if are_shares else 0,
            nodes=(NULL,),
            physical="shared" if are_shares else name,
            facts={"name": name, **facts},
        )
        for copy, name in enumerate(names)
    }
    around = PluginSurroundings(Path("/"), {"PATH": os.environ["PATH"]})
    devices = {name: device_of(unit) for name, unit in units.items()}
    return GenericPlugin(GenericOffer(ResourceName(GOPHER), entry, devices, units, found=len(units)), around)


def shell(script: str, *arguments: str, timeout_s: float = 10.0, every_s: float = 0.02) -> CommandRule:
    return CommandRule(("sh", "-c", script, "sh", *arguments), timeout_s, every_s)


async def test_a_command_judges_each_device_both_ways(sockets: Path, tmp_path: Path) -> None:
    check = shell('if test -e "$1/$2"; then echo worn out; exit 1; fi', "{place}", "{name}")
    plugin = plugin_of("a", "b", health=HealthRule(command=check), facts={"place": str(tmp_path)})
    async with gated(sockets) as b, serving(plugin, sockets) as server:
        await b.counts(2, 2)
        (tmp_path / "b").touch()
        await b.counts(2, 1)
        [sick] = [each for each in server.history.devices.values() if not each.health.is_healthy]
        assert (sick.id, sick.health.reason, sick.health.message) == ("b", "CommandFailed", "worn out")
        (tmp_path / "b").unlink()
        await b.counts(2, 2)
    assert plugin.checked["ok"] > 0
    assert plugin.checked["failed"] > 0


async def test_a_command_runs_once_a_round_for_all_shares_of_a_device(sockets: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    check = shell('echo run >> "$1"', str(runs), every_s=3600)
    shares = [f"s{number:02}" for number in range(30)]
    plugin = plugin_of(*shares, health=HealthRule(command=check), facts={}, are_shares=True)
    async with gated(sockets) as b, serving(plugin, sockets):
        await b.counts(30, 30)
        assert runs.read_text().split() == ["run"]
        assert plugin.checked["ok"] == 1


async def test_each_round_judges_all_shares_of_a_device_anew(sockets: Path, tmp_path: Path) -> None:
    check = shell('! test -e "$1"', str(tmp_path / "ill"))
    plugin = plugin_of("a", "b", "c", health=HealthRule(command=check), facts={}, are_shares=True)
    async with gated(sockets) as b, serving(plugin, sockets):
        await b.counts(3, 3)
        (tmp_path / "ill").touch()
        await b.counts(3, 0)
        (tmp_path / "ill").unlink()
        await b.counts(3, 3)


async def test_a_command_that_hangs_makes_its_device_unhealthy(sockets: Path) -> None:
    plugin = plugin_of("a", health=HealthRule(command=shell("exec sleep 600", timeout_s=0.2)), facts={})
    async with gated(sockets) as b, serving(plugin, sockets) as server:
        await until(lambda: any(each.health.reason == "CommandTimedOut" for each in server.history.devices.values()))
        await b.counts(1, 0)
    assert plugin.checked["late"] > 0


async def test_a_command_knows_its_device(sockets: Path, tmp_path: Path) -> None:
    told = tmp_path / "told"
    check = shell('env | grep ^PLUGBAY_ | sort > "$1.new"; mv "$1.new" "$1"', str(told))
    plugin = plugin_of("a", health=HealthRule(command=check), facts={"attr:speed": "480"})
    async with gated(sockets), serving(plugin, sockets):
        await until(told.exists)
    assert told.read_text().splitlines() == [
        "PLUGBAY_DEVICE_ATTR_SPEED=480",
        "PLUGBAY_DEVICE_ID=a",
        "PLUGBAY_DEVICE_NAME=a",
        "PLUGBAY_DEVICE_NODES=/dev/null",
        f"PLUGBAY_RESOURCE={GOPHER}",
    ]


async def test_a_command_without_its_property_makes_the_health_unknown(sockets: Path) -> None:
    plugin = plugin_of("a", health=HealthRule(command=shell("true", "{serial}")), facts={})
    async with gated(sockets) as b, serving(plugin, sockets) as server:
        await until(lambda: any(each.health.reason == "CommandUnusable" for each in server.history.devices.values()))
        await b.counts(1, 0)


async def test_a_device_is_released_before_it_is_given_again(sockets: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    plugin = plugin_of("a", release=shell('echo "$1 $PLUGBAY_DEVICE_ID" >> "$2"', "{name}", str(log)), facts={})
    assert plugin.release_policy is ReleasePolicy.STRICT
    async with gated(sockets) as b, serving(plugin, sockets):
        await b.counts(1, 1)
        await run_pod(b, "p")
        assert log.read_text() == "a a\n"
        await run_pod(b, "q")
    assert log.read_text() == "a a\n" * 2
    assert plugin.released == {"ok": 2}


async def test_a_device_whose_release_fails_is_unhealthy_until_it_succeeds(sockets: Path, tmp_path: Path) -> None:
    works = tmp_path / "works"
    plugin = plugin_of("a", "b", release=shell('if test ! -e "$1"; then echo jammed; exit 4; fi', str(works)), facts={})
    async with gated(sockets) as b, serving(plugin, sockets) as server:
        await b.counts(2, 2)
        done = await start_release(b)
        await until(lambda: not all(each.health.is_healthy for each in server.history.devices.values()))
        [sick] = [each for each in server.history.devices.values() if not each.health.is_healthy]
        assert (sick.id, sick.health.reason) == ("a", "ReleaseFailed")
        assert sick.health.message == "sh ended with exit code 4 (jammed)"
        await b.counts(2, 1)
        works.touch()
        await b.clock.sleep_through(0.5)
        await b.manager.until_deallocated(done)
        await b.counts(2, 2)
    assert plugin.released == {"failed": 1, "ok": 1}


async def test_a_shared_device_is_released_with_its_last_share(sockets: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    rule = shell('echo "$PLUGBAY_DEVICE_ID" >> "$1"', str(log))
    async with gated(sockets) as b:
        plugin = plugin_of("a", "b", "c", release=rule, facts={}, are_shares=True)
        async with serving(plugin, sockets):
            await b.counts(3, 3)
            for name in ("p", "q"):
                await b.manager.admit(pod(name))
                await b.prepare(name)
            await b.release("q")
            await b.manager.until_deallocated(PodUid("q"))
            assert not log.exists(), "p has a share of it"
        again = plugin_of("a", "b", "c", release=rule, facts={}, are_shares=True)
        async with serving(again, sockets):  # another process knows of p by the journal
            await b.counts(3, 3)
            await run_pod(b, "r")
            assert not log.exists(), "p has a share of it"
            await b.release("p")
            await b.manager.until_deallocated(PodUid("p"))
    assert log.read_text() == "a\n"


async def start_release(b: Bench) -> PodUid:
    await b.manager.admit(pod("p"))
    await b.prepare("p")
    await b.release("p")
    return PodUid("p")
