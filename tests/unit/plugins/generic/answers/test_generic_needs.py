"""The rights of a DaemonSet with rules of the generic plugin, each with its reason."""

from pathlib import Path

import pytest

from plugbay.errors import NeedsRefused
from plugbay.plugins.generic.answers.needs import generic_needs, root_in_pod
from plugbay.plugins.generic.config.nodes import ConfigFormat
from plugbay.plugins.generic.config.reading import read_config
from plugbay.plugins.generic.config.rules import GenericConfig
from plugbay.sdk.author.needs import HostDirectory, Need, check_needs

DEV = HostDirectory("/dev", "the device nodes of the host")


def read(entry: str) -> GenericConfig:
    text = f"domain: example.com\ndevices:\n- name: thing\n  groups:\n  - {entry}\n"
    return read_config(text, source="c.yaml", language=ConfigFormat.YAML)


def needs(entry: str, root: Path = Path("/")) -> list[Need]:
    found = generic_needs(read(entry), root)
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
            "{paths: [{path: /dev/fuse}], mounts: [{hostPath: '/opt/cards/{name}/x', containerPath: /x}]}",
            [HostDirectory("/opt/cards", "example.com/thing looks whether /opt/cards/{name}/x exists")],
        ),
        ("paths: [{path: /proc/driver/card, type: Mount}]", []),
        (
            "paths: [{path: /sys/class/net/*/device, type: Mount}]",
            [HostDirectory("/sys", "example.com/thing looks whether /sys/class/net/*/device exists")],
        ),
        (
            "paths: [{path: /sys/fs/bpf/x, type: Mount}]",
            [HostDirectory("/sys/fs/bpf", "example.com/thing looks whether /sys/fs/bpf/x exists")],
        ),
        (
            "{paths: [{path: /dev/fuse}], cdi: example.com/fuse}",
            [HostDirectory("/var/run/cdi", "the CDI spec of example.com/fuse", writable=True)],
        ),
    ],
)
def test_rules_need_what_they_look_at(group: str, beside: list[Need]) -> None:
    assert needs(group) == [DEV, *beside]


@pytest.mark.parametrize(
    ("path", "above"),
    [
        ("/usr/lib/libmali.so", "/usr/lib"),
        ("/usr/bin/nvidia-smi", "/usr/bin"),
        ("/lib/modules", "/lib"),
        ("/etc/alsa.conf", "/etc"),
        ("/run/x.sock", "/run"),
        ("/opt/*/x", "/opt"),
    ],
)
def test_machine_is_elsewhere_where_the_container_would_not_see_its_own(path: str, above: str) -> None:
    entry = f"paths: [{{path: {path}, type: Mount}}, {{path: /sys/class/x, type: Mount}}]"
    assert root_in_pod(read(entry)) == Path("/host")
    with pytest.raises(NeedsRefused, match=rf"^example.com/thing looks whether .* with {above} of the host"):
        needs(entry)
    dev, sys, own, also = needs(entry, Path("/host"))
    assert isinstance(own, HostDirectory)
    assert (own.path, own.place) == (above, f"/host{above}")
    assert [(each.path, each.place) for each in (dev, sys, also) if isinstance(each, HostDirectory)] == [
        ("/dev", "/host/dev"),
        ("/sys", "/host/sys"),
        ("/sys/class", "/host/sys/class"),
    ]
    assert root_in_pod(read("paths: [{path: /etc/cards/x, type: Mount}]")) == Path("/")


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
