"""Devices for units: variables, mounts, annotations, links, and what a device's own words may not do."""

from dataclasses import replace

import pytest

from plugbay.cdi.names import CdiKind
from plugbay.cdi.spec import NetDevice
from plugbay.errors import InvalidDevice
from plugbay.model.edits import DeviceNode, Mount, NetworkInterface
from plugbay.plugins.generic.answers.devices import cdi_kind_of, device_of
from plugbay.plugins.generic.config.rules import Gifts, Interfaces, MountRule, Where
from plugbay.plugins.generic.selecting.units import Unit
from plugbay.plugins.generic.templates.places import container_path, filled_path
from plugbay.plugins.generic.templates.template import TemplateProblem
from plugbay.sdk.cdi.entries import entries_of, spec_of
from tests.unit.plugins.generic.answers.units import NO_GIFTS, group, tty, unit

BY_ID = "/dev/serial/by-id/usb-Acme_Stick_0000-if00-port0"


def test_a_device_is_what_its_unit_and_its_templates_say() -> None:
    gifts = Gifts(
        env={"SERIAL": "{path}", "SERIAL_${index}": "{path}", "MODEL_OF_{serial}": "{model}"},
        mounts=(MountRule("/etc/cal/{serial}", "/cal/", is_read_only=True),),
        annotations={"example.com/{name}": "{serial}"},
    )
    device = device_of(tty(0, gifts, numa_nodes=frozenset({1})))
    assert device.edits.env == {"SERIAL": "/dev/ttyUSB0", "MODEL_OF_0000": ""}
    assert device.edits.mounts == (Mount("/etc/cal/0000", container_path="/cal/0000", read_only=True),)
    assert device.edits.device_nodes == (DeviceNode("/dev/ttyUSB0"),)
    assert device.edits.annotations == {"example.com/ttyUSB0": "0000"}
    assert device.numa_nodes == {1}
    assert device.health.is_healthy


def test_kept_links_are_the_node_at_further_paths() -> None:
    links = {"/dev/ttyUSB0": [BY_ID]}
    kept = device_of(tty(0, Gifts(keeps_links=True)), links_of=lambda node: links[node])
    assert kept.edits.device_nodes == (
        DeviceNode("/dev/ttyUSB0"),
        DeviceNode("/dev/ttyUSB0", container_path=BY_ID),
    )
    assert device_of(tty(0), links_of=lambda node: links[node]).edits.device_nodes == (DeviceNode("/dev/ttyUSB0"),)


def test_a_link_that_the_rules_give_already_is_given_once() -> None:
    both = [DeviceNode("/dev/ttyUSB0"), DeviceNode("/dev/ttyUSB0", container_path=BY_ID)]
    kept = unit("tty0", group(Gifts(keeps_links=True)), nodes=both)
    assert device_of(kept, links_of=lambda node: [BY_ID]).edits.device_nodes == tuple(both)


def test_a_directory_is_its_nodes_in_a_cdi_spec_and_itself_in_an_answer() -> None:
    nodes = {"/dev/snd": ["/dev/snd/by/controlC0", "/dev/snd/seq"], "/dev/empty": []}
    given = [DeviceNode("/dev/snd", container_path="/dev/sound/", permissions="rw"), DeviceNode("/dev/fuse")]
    spelt = unit("snd", group(Gifts(cdi_kind="example.com/sound")), nodes=given)
    assert device_of(spelt, nodes_in=nodes.get).edits.device_nodes == (
        DeviceNode("/dev/snd/by/controlC0", container_path="/dev/sound/by/controlC0", permissions="rw"),
        DeviceNode("/dev/snd/seq", container_path="/dev/sound/seq", permissions="rw"),
        DeviceNode("/dev/fuse"),
    )
    assert device_of(unit("snd", nodes=given), nodes_in=nodes.get).edits.device_nodes == tuple(given)
    with pytest.raises(InvalidDevice, match="/dev/empty has no device node, and a CDI spec names nodes only"):
        device_of(replace(spelt, nodes=(DeviceNode("/dev/empty"),)), nodes_in=nodes.get)


def test_annotations_stay_beside_cdi_which_has_no_place_for_them() -> None:
    gifts = Gifts(cdi_kind="example.com/serial", annotations={"example.com/a": "b"})
    assert cdi_kind_of(tty(0, gifts).entry) == "example.com/serial"
    assert device_of(tty(0, gifts)).edits.annotations == {}


@pytest.mark.parametrize(
    ("gifts", "problem"),
    [
        (Gifts(env={"OF_{model}": "x"}), "its variable cannot be made: OF_{model}: the device has no model"),
        (Gifts(env={"{name}": "x", "{path}": "y"}), "'/dev/ttyUSB0' is not usable as an environment variable"),
        (Gifts(env={"{name}": "x", "ttyUSB0": "y"}), "two templates of its variables come to the same name ttyUSB0"),
        (Gifts(annotations={"a{": "x"}), "its annotation cannot be made: this { has no }"),
        (
            Gifts(mounts=(MountRule("/cal/{model}", "/cal"),)),
            "its mount cannot be made: /cal/{model}: the device has no",
        ),
        (
            Gifts(mounts=(MountRule("/a", "/cal"), MountRule("/b", "/cal"))),
            "/cal is wanted twice in one container, for /a and /b: give them other mountPaths",
        ),
    ],
)
def test_templates_that_come_to_nothing_usable_are_told(gifts: Gifts, problem: str) -> None:
    with pytest.raises(InvalidDevice) as caught:
        device_of(tty(0, gifts))
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("template", "facts", "path"),
    [
        ("", {}, "/dev/ttyUSB0"),
        ("/dev/zigbee", {}, "/dev/zigbee"),
        ("/dev/serial/", {}, "/dev/serial/ttyUSB0"),
        ("/dev/serial/{serial}", {"serial": "A/B"}, "/dev/serial/A-B"),
        ("/dev/serial/{serial}/", {"serial": "../../etc"}, "/dev/serial/..-..-etc/ttyUSB0"),
        ("/host{path}", {"path": "/dev/snd/controlC0"}, "/host/dev/snd/controlC0"),
    ],
)
def test_a_path_in_the_container_is_where_its_template_says(template: str, facts: dict[str, str], path: str) -> None:
    assert container_path(template, "/dev/ttyUSB0", facts) == path


@pytest.mark.parametrize(
    ("template", "facts", "problem"),
    [
        (
            "/dev/{serial}/x",
            {"serial": ".."},
            "/dev/{serial}/x is '/dev/../x' for this device, which is not a plain path",
        ),
        (
            "/dev/{serial}",
            {"serial": "a\nb"},
            "/dev/{serial} is '/dev/a\\nb' for this device, which is not a plain path",
        ),
        (
            "{serial}",
            {"serial": "/etc/passwd"},
            "{serial} is '-etc-passwd' for this device, which is not a path from the root",
        ),
        ("/dev/{serial}", {}, "/dev/{serial}: the device has no serial"),
    ],
)
def test_a_serial_number_cannot_lead_elsewhere(template: str, facts: dict[str, str], problem: str) -> None:
    assert filled_path(template, facts) == TemplateProblem(problem, 0)


INTERFACES = Interfaces(Where("driver", ("mlx5_core",)))


def nic(name: str, what: Interfaces = INTERFACES, gifts: Gifts = NO_GIFTS) -> Unit:
    return replace(unit(name, group(gifts, what=what), facts={"name": name}), interfaces=(name,))


def test_an_interface_moves_by_cdi_under_its_own_name_or_one_by_a_template() -> None:
    assert device_of(nic("enp1s0")).edits.interfaces == (NetworkInterface("enp1s0", "enp1s0"),)
    named = replace(INTERFACES, container_name="fast-{name}")
    assert device_of(nic("ib0", named)).edits.interfaces == (NetworkInterface("ib0", "fast-ib0"),)
    assert cdi_kind_of(nic("ib0").entry) == "example.com/serial"
    assert cdi_kind_of(replace(nic("ib0").entry, name="{vendor}-{model}")) == "plugbay.interfaces/net"
    assert cdi_kind_of(nic("ib0", gifts=Gifts(cdi_kind="a.example/b")).entry) == "a.example/b"


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("eth0", "interface enp1s0 cannot be eth0 in a pod, which has one of that name"),
        ("a-very-long-{name}", "'a-very-long-enp1s0' is not the name of a network interface: 1 to 15 characters"),
        ("{serial}", "its interface cannot be made: {serial}: the device has no serial"),
    ],
)
def test_a_name_that_no_interface_of_a_pod_can_have_is_told(template: str, problem: str) -> None:
    with pytest.raises(InvalidDevice) as caught:
        device_of(nic("enp1s0", replace(INTERFACES, container_name=template)))
    assert problem in str(caught.value)


def test_the_spec_of_an_interface_is_of_the_first_version_that_has_them() -> None:
    spec = spec_of(CdiKind("example.com", "serial"), {"ib0": entries_of(device_of(nic("ib0")))})
    assert spec.version == "1.1.0"
    assert [entry.edits.net_devices for entry in spec.devices] == [(NetDevice("ib0", "ib0"),)]
