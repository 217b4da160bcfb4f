from __future__ import annotations

import pytest

from plugbay.errors import InvalidWatch
from plugbay.sdk.author.uevent_patterns import matches, patterns_of

ADDED = {"ACTION": "add", "SUBSYSTEM": "tty", "DEVNAME": "ttyUSB0"}


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ({"SUBSYSTEM": "tty"}, True),
        ({"SUBSYSTEM": "tty", "DEVNAME": "ttyUSB*"}, True),
        ({"SUBSYSTEM": "tty", "DEVNAME": "ttyS*"}, False),
        ({"SUBSYSTEM": "tty", "DRIVER": "*"}, False),
        ({"SUBSYSTEM": "TTY"}, False),
        ([{"SUBSYSTEM": "block"}, {"ACTION": "add"}], True),
        ([{"SUBSYSTEM": "block"}, {"ACTION": "remove"}], False),
        ((), False),
    ],
)
def test_all_of_one_pattern_have_to_match(written: dict[str, str], meant: bool) -> None:
    assert matches(patterns_of("example.com/thing", written), ADDED) is meant


@pytest.mark.parametrize("wrong", ["tty", [{}], [("SUBSYSTEM", "tty")], {"MINOR": 1}], ids=repr)
def test_other_things_are_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(InvalidWatch, match=r"^example\.com/thing: watch_uevents: "):
        patterns_of("example.com/thing", wrong)
