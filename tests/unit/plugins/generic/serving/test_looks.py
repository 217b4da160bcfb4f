"""Looks at a machine of files."""

from __future__ import annotations

from pathlib import Path

from plugbay.model.ids import DeviceId, ResourceName
from plugbay.plugins.generic.config.rules import Entry, GenericConfig, PathRule, Paths, RuleGroup
from plugbay.plugins.generic.serving.looks import RuleLooks

TTY = ResourceName("example.com/tty")


def test_devices_that_are_known_to_be_held_after_a_look_that_failed_keep_their_ids(tmp_path: Path) -> None:
    """The next look begins with what the kubelet's checkpoint says by then."""
    for name in ("dev", "sys"):
        (tmp_path / name).mkdir()
    (tmp_path / "dev/ttyUSB0").touch()
    group = RuleGroup(Paths((PathRule("/dev/ttyUSB0", takes_any_file=True),)))
    config, looks = GenericConfig("generic.yaml", (Entry("tty", "example.com", (group,)),)), RuleLooks(tmp_path)
    looks.begin({})
    looks.look(config, None)
    looks.begin({TTY: {DeviceId("held"): ["/dev/ttyUSB0"]}})
    [unit] = looks.look(config, None).selected.units[TTY]
    assert unit.id == "held"
