"""Files of squat's generic-device-plugin: what they mean, as its documentation says."""

from __future__ import annotations

import pytest

from plugbay.plugins.generic.config.reading import DEFAULT_DOMAIN, ReadOptions, examine_config, read_config
from plugbay.plugins.generic.config.rules import Entry, GenericConfig, PathKind, PathRule, Paths, Usb, UsbRule

DOCUMENTED = """\
domain: devic.es
devices:
  - name: serial
    groups:
      - paths: [{path: "/dev/ttyUSB*", mountPath: /dev/serial/}]
      - paths: [{path: "/dev/ttyACM*"}]
  - name: zigbee
    groups:
      - usb: [{vendor: "10c4", product: "ea60", serial: "0001"}]
  - name: fuse
    groups:
      - count: 10
        paths: [{path: /dev/fuse}]
"""


def read(text: str, *, is_lenient: bool = False) -> GenericConfig:
    return read_config(text, source="config.yaml", options=ReadOptions(is_lenient=is_lenient))


def entry(group: str) -> str:
    """A file with a single group, in YAML's flow style, in line 4."""
    return f"domain: example.com\ndevices:\n  - name: gopher\n    groups: [{group}]\n"


def only_path(path: str) -> PathRule:
    what = read(entry(f"{{paths: [{path}]}}")).entries[0].groups[0].what
    assert isinstance(what, Paths)
    return what.rules[0]


def test_documented_file_means_what_squats_plugin_makes_of_it() -> None:
    config = read(DOCUMENTED)
    serial, zigbee, fuse = config.entries
    assert [(each.domain, each.name) for each in config.entries] == [
        ("devic.es", "serial"),
        ("devic.es", "zigbee"),
        ("devic.es", "fuse"),
    ]
    assert [group.what for group in serial.groups] == [
        Paths((PathRule("/dev/ttyUSB*", mount_path="/dev/serial/"),)),
        Paths((PathRule("/dev/ttyACM*"),)),
    ]
    assert zigbee.groups[0].what == Usb((UsbRule(0x10C4, 0xEA60, "0001"),))
    assert (fuse.groups[0].what, fuse.groups[0].count) == (Paths((PathRule("/dev/fuse"),)), 10)
    assert config.warnings == ()


def test_defaults_are_squats() -> None:
    device, mount = only_path("{path: /dev/x}"), only_path("{path: /etc/x, type: Mount}")
    assert (device.kind, device.permissions, device.limit, device.is_optional) == (PathKind.DEVICE, "mrw", 1, False)
    assert (mount.kind, mount.permissions, mount.is_read_only) == (PathKind.MOUNT, "", False)


def test_zero_and_nothing_count_as_absent() -> None:
    assert only_path("{path: /dev/x, limit: 0, permissions: '', mountPath: '', type: ''}") == PathRule("/dev/x")
    assert only_path("{path: /dev/x, limit: , optional: ~}") == PathRule("/dev/x")
    assert read(entry("{count: 0, paths: [{path: /dev/x}]}")).entries[0].groups[0].count == 1


def test_keys_match_in_any_case() -> None:
    text = 'DOMAIN: a.b\nDevice:\n- NAME: " tt "\n  Groups: [{PATHS: [{Path: " /dev/x ", MOUNTPATH: /y/}]}]\n'
    (only,) = read(text).entries
    assert (only.name, only.domain) == ("tt", "a.b")
    assert only.groups[0].what == Paths((PathRule("/dev/x", mount_path="/y/"),))


def test_patterns_are_normalised_before_they_are_matched() -> None:
    assert only_path("{path: '/dev/../dev//x[01]/'}").pattern == "/dev/x[01]"


def test_microshifts_word_for_usb_is_known() -> None:
    (only,) = read(entry('{usbs: [{vendor: "0451", product: "16a8"}]}')).entries
    assert only.groups[0].what == Usb((UsbRule(0x0451, 0x16A8),))


def test_a_file_without_a_domain_has_the_latest_default_and_says_so() -> None:
    config = read(DOCUMENTED.removeprefix("domain: devic.es\n"))
    assert {each.domain for each in config.entries} == {DEFAULT_DOMAIN}
    (warning,) = config.warnings
    assert "squat.ai" in warning.sentence


def test_settings_are_kept_as_texts() -> None:
    config = read("listen: ':9000'\nlog-level: warn\nplugin-directory: /run/kubelet\n" + DOCUMENTED)
    assert config.settings == {
        "domain": "devic.es",
        "listen": ":9000",
        "log-level": "warn",
        "plugin-directory": "/run/kubelet",
    }


def test_moved_lines_are_not_another_config() -> None:
    assert read(DOCUMENTED) == read("# moved\n\n" + DOCUMENTED)


IGNORED = {
    "unknown key": ("{paths: [{path: /dev/x}], owner: me}", "groups[0].owner: is not a known field"),
    "unknown type": ("{paths: [{path: /dev/x, type: device}]}", 'did you mean "Device"?'),
    "bad permissions": ("{paths: [{path: /dev/x, permissions: rwx}]}", "'rwx' is not a set of permissions"),
    "empty group": ("{}", "has none of paths, usb, match, interfaces, tokens"),
    "empty paths": ("{paths: []}", "is empty, so that the group has no device"),
    "read-only device": ("{paths: [{path: /dev/x, readOnly: true}]}", "counts for type: Mount only"),
}


@pytest.mark.parametrize(("group", "words"), IGNORED.values(), ids=IGNORED)
def test_what_squats_plugin_ignores_is_an_error_and_to_the_lenient_a_warning(group: str, words: str) -> None:
    strict = examine_config(entry(group), source="config.yaml")
    assert strict.config is None
    assert any(words in each.sentence and each.sentence.startswith("config.yaml:4:") for each in strict.errors)
    lenient = examine_config(entry(group), source="config.yaml", options=ReadOptions(is_lenient=True))
    assert lenient.errors == ()
    assert lenient.config is not None
    assert any(words in each.sentence for each in lenient.warnings)


@pytest.mark.parametrize(("text", "kept"), [("R", "r"), ("RW", "rw"), ("rwx", "rw"), ("rr", "r"), ("r, w", "rw")])
def test_the_lenient_never_permit_more_for_misspelt_permissions(text: str, kept: str) -> None:
    found = read(entry(f"{{paths: [{{path: /dev/x, permissions: '{text}'}}]}}"), is_lenient=True)
    assert found.entries[0].groups[0].what == Paths((PathRule("/dev/x", permissions=kept),))
    assert f"it is taken for '{kept}'" in found.warnings[0].sentence


@pytest.mark.parametrize("text", ["x", "+", "6"])
def test_permissions_without_a_letter_are_an_error_to_the_lenient_too(text: str) -> None:
    config = entry(f"{{paths: [{{path: /dev/x, permissions: '{text}'}}]}}")
    (found,) = examine_config(config, source="config.yaml", options=ReadOptions(is_lenient=True)).errors
    assert f"'{text}' is not a set of permissions" in found.sentence


def test_the_lenient_never_choose_more_devices_for_a_misspelt_id() -> None:
    (only,) = read(entry('{usb: [{vendr: "10c4", product: "ea60"}]}'), is_lenient=True).entries
    assert only.groups[0].what == Usb((UsbRule(0, 0xEA60),))


def test_old_behaviour_is_a_switch_away() -> None:
    text = "compat: squat\n" + entry("{usb: [{vendor: 1209, product: 0407}]}, {paths: [/dev/x]}")
    config = read(text)
    (only,) = config.entries
    assert config.has_compat_ids
    assert only.is_shared
    assert only.groups[0].what == Usb((UsbRule(1209, 0o407),), bundles=True)
    assert only.groups[1].what == Paths((PathRule("/dev/x", takes_any_file=True),))


def test_switches_are_off_by_default() -> None:
    config = read(entry("{usb: [{vendor: 1209, product: '0407'}]}, {paths: [/dev/x]}"))
    (only,) = config.entries
    assert not config.has_compat_ids
    assert only == Entry("gopher", "example.com", only.groups)
    assert only.groups[0].what == Usb((UsbRule(0x1209, 0x0407),))
    assert only.groups[1].what == Paths((PathRule("/dev/x"),))
