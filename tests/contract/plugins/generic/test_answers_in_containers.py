"""Containers of a real engine with devices of this machine by rules: the granted node opens, and no other does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from plugbay.model.edits import ContainerEdits
from plugbay.model.ids import ResourceName
from plugbay.plugins.generic.answers.answering import answer
from plugbay.plugins.generic.answers.devices import device_of
from plugbay.plugins.generic.config.reading import read_config
from plugbay.plugins.generic.machine.machine import SysMachine
from plugbay.plugins.generic.selecting.selection import select
from plugbay.plugins.generic.selecting.tree import HostTree
from plugbay.runtimes.port import ContainerSpec
from tests.contract.rigs.oci import Places, needs_fuse, output_of, places, runtime_on, spec, why_not
from tests.contract.rigs.process import sh

__all__ = ["places", "spec"]

pytestmark = [pytest.mark.root, pytest.mark.skipif(bool(why_not()), reason=why_not())]
needs_tun = pytest.mark.skipif(not Path("/dev/net/tun").exists(), reason="needs /dev/net/tun")

LINK = "/dev/serial/by-id/usb-Acme_Stick-if00"
CONFIG = """
domain: example.com
devices:
- name: fuse
  paths: [{path: /dev/fuse, mountPath: /dev/given/}]
  count: 2
  links: true
  env: {"NODE_${index}": "{path}", NODES: "{name}"}
- name: tun
  match: {subsystem: misc, name: tun}
"""


def granted(resource: str) -> ContainerEdits:
    """The answer of a plugin for all devices of a resource on this machine; udev has made a link to each node."""
    config = read_config(CONFIG, source="devices.yaml")
    machine = SysMachine(Path("/sys"), Path("/dev"))
    units = select(config, machine, HostTree(Path("/"))).units[ResourceName(resource)]
    return answer([(unit, device_of(unit, links_of=lambda node: [LINK])) for unit in units])


@needs_fuse
async def test_a_pod_opens_the_granted_node_and_cannot_open_another(places: Places, spec: ContainerSpec) -> None:
    """The number is not that of the tunnel's node, which older versions of runc allow to every container."""
    script = (
        "exec 3<>/dev/given/fuse && echo open; ls /dev/fuse /dev/net 2>/dev/null; "
        "mknod /dev/other c 10 235; (exec 4<>/dev/other) 2>&1 | grep -o 'not permitted'"
    )
    async with runtime_on(places) as runtime:
        assert await output_of(runtime, replace(sh(spec, script), edits=granted("example.com/fuse"))) == (
            "open\nnot permitted\n"
        )


@needs_tun
async def test_a_device_by_its_properties_opens_at_its_own_path(places: Places, spec: ContainerSpec) -> None:
    script = "exec 3<>/dev/net/tun && echo open; ls /dev/fuse 2>/dev/null || echo none"
    async with runtime_on(places) as runtime:
        text = await output_of(runtime, replace(sh(spec, script), edits=granted("example.com/tun")))
    assert text == "open\nnone\n"


@needs_fuse
async def test_a_kept_link_is_the_node_itself_at_the_path_of_the_link(places: Places, spec: ContainerSpec) -> None:
    script = f"exec 3<>{LINK} && echo open; stat -c %t:%T {LINK} /dev/given/fuse | uniq -c | wc -l"
    async with runtime_on(places) as runtime:
        text = await output_of(runtime, replace(sh(spec, script), edits=granted("example.com/fuse")))
    assert text.split() == ["open", "1"]


@needs_fuse
async def test_variables_name_each_device_of_the_container(places: Places, spec: ContainerSpec) -> None:
    script = "echo $NODE_0 $NODE_1 $NODES"
    async with runtime_on(places) as runtime:
        text = await output_of(runtime, replace(sh(spec, script), edits=granted("example.com/fuse")))
    assert text == "/dev/given/fuse /dev/given/fuse fuse\n"
