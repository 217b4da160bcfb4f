"""Rules about what udev found out: it tells later than the kernel, and by files only."""

from __future__ import annotations

import asyncio
from pathlib import Path

from plugbay.plugins.generic.config.rules import Entry, GenericConfig, Match, RuleGroup, Where
from plugbay.plugins.generic.serving.events import MachineEvents
from plugbay.sdk.watching import watching
from tests.contract.rigs.generic_node import generic_node
from tests.sysfs_trees import lay_out

RULE = Match(Where("property:ID_MODEL", ("FT232R*",)), is_each=True)
CONFIG = GenericConfig("generic.yaml", (Entry("ftdi", "example.com", (RuleGroup(RULE),)),))


async def test_a_device_is_listed_when_udev_has_named_it(sockets: Path) -> None:
    root = sockets / "machine"
    lay_out("usb-sticks", root)
    files = root / "run/udev/data"
    files.mkdir(parents=True)
    async with generic_node(sockets, CONFIG, root=root) as node:
        plugin = await node.resource("example.com/ftdi")
        assert await plugin.next_list() == ()
        for name, count in (("c188:4", 1), ("c189:6", 2)):  # the tty, then the device that it is part of
            (files / ".new").write_text("E:ID_MODEL=FT232R_USB_UART\n")
            (files / ".new").rename(files / name)
            while len(plugin.devices) < count:
                await plugin.next_list()


async def test_a_directory_counts_as_changed_when_it_begins_to_be_watched(sockets: Path) -> None:
    """What came between the look and the watch has no event."""
    async with watching() as watches, MachineEvents.following(watches, asyncio.Event()) as events:
        assert events.watch([sockets])
        assert events.take().directories == {sockets}
        assert not events.watch([sockets])
        assert not events.take().directories
