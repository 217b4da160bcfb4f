"""The rights of a DaemonSet with rules of the generic plugin, each with its reason."""

import pytest

from plugbay.errors import NeedsRefused
from plugbay.plugins.generic.answers.needs import generic_needs
from plugbay.plugins.generic.config.nodes import ConfigFormat
from plugbay.plugins.generic.config.reading import read_config
from plugbay.sdk.author.needs import HostDirectory, Need, check_needs

DEV = HostDirectory("/dev", "the device nodes of the host")


def needs(entry: str) -> list[Need]:
    text = f"domain: example.com\ndevices:\n- name: thing\n  groups:\n  - {entry}\n"
    found = generic_needs(read_config(text, source="c.yaml", language=ConfigFormat.YAML))
    check_needs("generic", found)
    return list(found)


@pytest.mark.parametrize(
    ("group", "beside"),
    [
        ("paths: [{path: /dev/ttyUSB*}, {path: /sys/class/gpio, type: Mount}]", []),
        ("usb: [{vendor: '10c4', product: 'ea60'}]", []),
        (
            "match: {or: [{subsystem: tty}, {not: {property: {ID_BUS: usb}}}]}",
            [HostDirectory("/run/udev", "udev's properties of devices, by which example.com/thing chooses")],
        ),
        (
            "{match: {subsystem: tty}, nodes: [{property: {ID_BUS: usb}}]}",
            [HostDirectory("/run/udev", "udev's properties of devices, by which example.com/thing chooses")],
        ),
        ("match: {subsystem: tty, attr: {speed: 480}}", []),
        (
            "paths: [{path: /var/lib/cal/*/x, type: Mount}]",
            [HostDirectory("/var/lib/cal", "example.com/thing looks whether /var/lib/cal/*/x exists")],
        ),
        (
            "{paths: [{path: /dev/fuse}], mounts: [{hostPath: '/opt/{name}/x', containerPath: /x}]}",
            [HostDirectory("/opt", "example.com/thing looks whether /opt/{name}/x exists")],
        ),
        (
            "{paths: [{path: /dev/fuse}], cdi: example.com/fuse}",
            [HostDirectory("/var/run/cdi", "the CDI spec of example.com/fuse", writable=True)],
        ),
    ],
)
def test_rules_need_what_they_look_at(group: str, beside: list[Need]) -> None:
    assert needs(group) == [DEV, *beside]


def test_tokens_need_nothing() -> None:
    assert needs("tokens: 3") == []


@pytest.mark.parametrize(
    ("field", "privilege"),
    [
        ("health: {open: true}", "health checks of example.com/thing open device nodes of the host"),
        ("health: {exec: [true]}", "the health command of example.com/thing may open device nodes of the host"),
        ("release: {exec: [true]}", "the release command of example.com/thing acts on devices of the host"),
    ],
)
def test_a_privileged_container_is_needed_only_by_what_opens_devices(field: str, privilege: str) -> None:
    found = needs(f"{{paths: [{{path: /dev/fuse}}], {field}}}")
    assert [each.reason for each in found if type(each).__name__ == "Privileged"] == [privilege]
    assert any(type(each).__name__ == "OneAtATime" for each in found) is field.startswith("release")


def test_the_root_of_the_host_is_too_much_to_mount() -> None:
    with pytest.raises(NeedsRefused, match=r"^example.com/thing looks for /x\*, and the host's root is too much"):
        needs("paths: [{path: '/x*', type: Mount}]")
