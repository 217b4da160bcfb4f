"""Files of smarter-device-manager, as its users have them."""

from __future__ import annotations

import pytest

from plugbay.plugins.generic.config.nodes import ConfigFormat
from plugbay.plugins.generic.config.reading import ReadOptions, examine_config, read_config
from plugbay.plugins.generic.config.rules import DevNames

FILE = """\
- devicematch: ^snd$
  nummaxdevices: 20
- devicematch: ^video[0-9]*$
  nummaxdevices: 1
"""


def test_each_expression_is_a_group_of_one_entry_that_makes_a_resource_of_each_file() -> None:
    config = read_config(FILE, source="conf.yaml")
    (entry,) = config.entries
    assert (entry.domain, entry.name) == ("smarter-devices", "{name}")
    assert [(group.count, group.spot.line) for group in entry.groups] == [(20, 1), (1, 3)]
    kinds = [group.what for group in entry.groups]
    assert [kind.expression.pattern for kind in kinds if isinstance(kind, DevNames)] == ["^snd$", "^video[0-9]*$"]
    assert config.warnings == ()


def test_it_may_be_json() -> None:
    text = '[{"devicematch": "^fuse$", "nummaxdevices": 2}]'
    assert read_config(text, source="f", language=ConfigFormat.JSON).entries[0].groups[0].count == 2


def test_a_domain_from_outside_counts() -> None:
    assert read_config(FILE, source="f", options=ReadOptions(domain="example.com")).entries[0].domain == "example.com"


def test_devices_from_outside_count_in_place_of_all_of_it() -> None:
    assert read_config(FILE, source="f", options=ReadOptions(skips_devices=True)).entries == ()


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("- devicematch: '^a('\n  nummaxdevices: 1\n", "f:1:16: [0].devicematch: '^a(' is not a regular expression: "),
        ("- devicematch: '[[:digit:]]'\n  nummaxdevices: 1\n", "holds [:digit:], which is not read here"),
        ("- devicematch: 'a(?=b)'\n  nummaxdevices: 1\n", "holds (?=, which is not read here"),
        ("- nummaxdevices: 1\n", "f:1:3: [0]: has no devicematch, which it needs"),
        ("- devicematch: ''\n  nummaxdevices: 1\n", "is empty, so that it would match every file of /dev"),
        ("- devicematch: a\n", "f:1:3: [0]: has no nummaxdevices, which it needs"),
        ("- devicematch: a\n  nummaxdevices: -1\n", "f:2:18: [0].nummaxdevices: wants a whole number from 0 to 100000"),
        ("- devicematch: a\n  numMaxDevice: 1\n", 'did you mean "nummaxdevices"?'),
        ("- devicematch: a\n  nummaxdevices: 1\n- tty\n", "f:3:3: [1]: wants a mapping, found the text 'tty'"),
    ],
)
def test_mistakes_are_told_with_their_place(text: str, wanted: str) -> None:
    problems = [each.sentence for each in examine_config(text, source="f").errors]
    assert any(wanted in each for each in problems), problems


def test_a_number_that_is_none_is_an_error_and_nothing_else() -> None:
    found = examine_config('- devicematch: a\n  nummaxdevices: "2"\n', source="f")
    assert (len(found.errors), found.warnings) == (1, ())


def test_a_list_below_devices_is_told_to_stand_alone() -> None:
    problems = examine_config("domain: a.b\ndevices:\n- devicematch: a\n", source="f").errors
    assert any("is such a list alone, without devices: above it" in each.sentence for each in problems)


def test_what_gives_no_device_is_told() -> None:
    text = "- devicematch: nvidia-gpu\n  nummaxdevices: 10\n- devicematch: ^rtc0$\n  nummaxdevices: 0\n"
    found = examine_config(text, source="f")
    assert found.config is not None
    assert found.config.entries[0].groups == ()
    assert [each.sentence for each in found.warnings] == [
        "f:1:3: [0].devicematch: GPUs are not served by this plugin, so that this entry gives none; see `plugbay serve"
        " nvidia`",
        "f:4:3: [1].nummaxdevices: is 0, so that this entry gives no device",
    ]
