"""A container of a real engine opens the device that the generic plugin gave it, and no other one of its resource."""

from __future__ import annotations

import asyncio
import os
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from plugbay.plugins.generic.config.rules import AllOf, Entry, GenericConfig, Gifts, Match, RuleGroup, Where
from plugbay.runtimes.port import ContainerSpec
from tests.contract.rigs.generic_node import DEADLINE_S, generic_node
from tests.contract.rigs.made_devices import CONTROL, NUMBER, loop_device
from tests.contract.rigs.oci import Places, output_of, places, runtime_on, spec, why_not
from tests.contract.rigs.process import sh

__all__ = ["places", "spec"]

pytestmark = [pytest.mark.root, pytest.mark.skipif(bool(why_not()), reason=why_not())]


async def test_a_container_opens_its_device_and_no_other(places: Places, spec: ContainerSpec, sockets: Path) -> None:
    if not CONTROL.exists():
        pytest.skip("there are no loop devices")
    with ExitStack() as made:
        mine, other = (made.enter_context(loop_device(NUMBER + each)) for each in (1, 2))
        what = Match(AllOf((Where("subsystem", ("block",)), Where("name", (mine, other)))))
        group = RuleGroup(what, gifts=Gifts(env={"LOOP_${index}": "{path}"}))
        config = GenericConfig("generic.yaml", (Entry("loop", "example.com", (group,)),))
        async with generic_node(sockets, config, root=Path("/")) as node:
            plugin = await node.resource("example.com/loop")
            async with asyncio.timeout(DEADLINE_S):
                while len(plugin.devices) != 2:
                    await plugin.next_list()
            device = next(each for each in plugin.devices if mine in each)
            answer = await plugin.client.allocate([device])
        assert answer is not None
        assert [each.host_path for each in answer.edits.device_nodes] == [f"/dev/{mine}"]
        number = os.stat(f"/dev/{other}").st_rdev
        script = (
            'echo "$LOOP_0"; (exec 3<"$LOOP_0") && echo open; ls /dev/loop*;'
            f" mknod /dev/other b {os.major(number)} {os.minor(number)}; (exec 3</dev/other) 2>&1 || true"
        )
        async with runtime_on(places) as runtime:
            given, opened, listed, refused = (
                await output_of(runtime, replace(sh(spec, script), edits=answer.edits))
            ).splitlines()
        assert (given, opened, listed) == (f"/dev/{mine}", "open", f"/dev/{mine}")
        assert "not permitted" in refused
