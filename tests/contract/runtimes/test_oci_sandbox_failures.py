"""Sandboxes of the oci runtime that cannot be made or removed."""

from __future__ import annotations

import json
import os

import pytest

from plugbay.errors import SandboxFailed
from plugbay.model.ports import ContainerPort
from plugbay.runtimes.sandboxes import Network
from tests.container_specs import wanting
from tests.contract.rigs.fake_cni import MAKES, PASSES
from tests.contract.rigs.oci_sandboxes import POD, SPEC, Place, place

__all__ = ["place"]

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]


async def test_host_port_that_no_plugin_serves_is_refused_before_anything_is_made(place: Place) -> None:
    document = {"cniVersion": "1.0.0", "name": "net", "plugins": [{"type": "first"}, {"type": "second"}]}
    (place.root / "conf" / "10-net.conflist").write_text(json.dumps(document))
    with pytest.raises(SandboxFailed, match="no plugin with the capability portMappings"):
        await place.node().run(wanting(SPEC, ports=(ContainerPort(80, 8080),)))
    assert (place.left(), place.machine.calls) == ([], [])
    assert await place.node().run(wanting(SPEC, ports=(ContainerPort(80),))), "a port of the container's own needs none"
    await place.node().remove(POD)


@pytest.mark.parametrize("default", Network)
async def test_value_that_the_kernel_refuses_leaves_nothing(place: Place, default: Network) -> None:
    problem = r"^spec\.securityContext\.sysctls: kernel\.msgmax cannot be 'many': Invalid argument$"
    with pytest.raises(SandboxFailed, match=problem):
        await place.node(default).run(wanting(SPEC, sysctls={"kernel.msgmax": "many"}))
    assert place.left() == []


async def test_without_a_network_the_node_says_that_it_is_not_ready(place: Place) -> None:
    (place.root / "conf" / "10-net.conflist").unlink()
    with pytest.raises(SandboxFailed, match="NetworkReady=false reason:NetworkPluginNotReady"):
        await place.node().run(SPEC)
    assert place.left() == []


async def test_network_that_fails_leaves_nothing_and_may_be_tried_again(place: Place) -> None:
    place.machine.install("second", 'if command == "ADD": fail(11, "not now")')
    with pytest.raises(SandboxFailed, match=r"failed to setup network for sandbox .*not now"):
        await place.node().run(SPEC)
    assert place.left() == []
    place.machine.install("second", PASSES)
    assert await place.node().run(SPEC)
    await place.node().remove(POD)


async def test_removal_that_fails_can_be_tried_again(place: Place) -> None:
    node = place.node()
    await node.run(SPEC)
    place.machine.install("first", 'if command == "DEL": fail(11, "busy")')
    with pytest.raises(SandboxFailed, match="busy"):
        await node.remove(POD)
    assert await node.pods() == {POD}
    place.machine.install("first", MAKES)
    await node.remove(POD)
    assert place.left() == []
