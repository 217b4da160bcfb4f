"""The section of a config of MicroShift."""

from __future__ import annotations

import pytest

from plugbay.plugins.generic.config.reading import examine_config, read_config
from plugbay.plugins.generic.config.rules import Usb, UsbRule

SECTION = """\
dns:
  baseDomain: example.com
genericDevicePlugin:
  status: Enabled
  devices:
    - name: serial
      groups:
        - usbs: [{vendor: "0451", product: "16a8"}, {}]
    - name: fuse
      groups:
        - paths: [{path: /dev/fuse}]
"""


def test_the_section_is_read_and_the_rest_of_the_file_is_not_ours() -> None:
    config = read_config(SECTION, source="config.yaml")
    assert [(each.domain, each.name) for each in config.entries] == [
        ("device.microshift.io", "serial"),
        ("device.microshift.io", "fuse"),
    ]
    assert config.entries[0].groups[0].what == Usb((UsbRule(0x0451, 0x16A8),))


@pytest.mark.parametrize("status", ["  status: Disabled\n", ""])
def test_a_section_that_is_not_enabled_is_refused(status: str) -> None:
    (problem,) = examine_config(SECTION.replace("  status: Enabled\n", status), source="f").errors
    assert "write status: Enabled" in problem.sentence


def test_a_path_of_two_devices_is_refused() -> None:
    text = SECTION.replace('- usbs: [{vendor: "0451", product: "16a8"}, {}]', "- paths: [{path: /dev/fuse}]")
    (problem,) = examine_config(text, source="f").errors
    assert problem.sentence.startswith("f:11:19: /dev/fuse is a path of serial already, in line 6; write shared: true")


def test_problems_have_the_path_of_the_section() -> None:
    (problem,) = examine_config(SECTION.replace("name: fuse", "name: fuse\n      tail: 3"), source="f").errors
    assert problem.sentence.startswith("f:10:7: genericDevicePlugin.devices[1].tail: is not a known field")


def test_an_empty_usb_rule_is_refused_elsewhere() -> None:
    text = 'domain: a.b\ndevices: [{name: aa, usb: [{vendor: "0451"}, {}]}]'
    (problem,) = examine_config(text, source="f").errors
    assert problem.sentence.startswith("f:2:46: devices[0].usb[1]: has none of vendor, product and serial")
