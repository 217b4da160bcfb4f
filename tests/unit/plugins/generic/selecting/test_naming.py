"""Resources named by templates."""

from __future__ import annotations

from pathlib import Path

import pytest

from plugbay.plugins.generic.config.rules import Match, RuleGroup
from plugbay.plugins.generic.selecting.naming import EntryNames, Unnamed
from tests.unit.plugins.generic.selecting.machines import Bench, nodes_of, where
from tests.unit.plugins.generic.selecting.trees import entry


def test_one_rule_makes_several_resources(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.stick(1, "ttyUSB0")
    bench.stick(2, "ttyUSB1", product=0xEA70)
    bench.stick(3, "ttyUSB2", product=0xEA70)
    rules = entry("{vendor}-{product}", RuleGroup(Match(where(subsystem="tty"))))
    selection = bench.selection(rules)
    assert {name: nodes_of(units) for name, units in selection.look().units.items()} == {
        "example.com/10c4-ea60": [["/dev/ttyUSB0"]],
        "example.com/10c4-ea70": [["/dev/ttyUSB1"], ["/dev/ttyUSB2"]],
    }
    [unit] = bench.look(entry("{model}", RuleGroup(Match(where(name="ttyUSB0"))))).units["example.com/cp2102-bridge"]  # type: ignore[index]
    assert unit.facts["model"] == "CP2102 Bridge"


def test_what_has_no_such_property_is_told_and_has_no_resource(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.stick(1, "ttyUSB0")
    found = bench.look(entry("by-{serial}", RuleGroup(Match(where(subsystem="tty")))))
    assert found.units == {}
    assert "has no serial, so 'by-{serial}' does not name it" in found.troubles[0].text


@pytest.mark.parametrize(
    ("name", "facts", "wanted"),
    [
        ("{model}", {"model": "Zigbee  Stick (v2)"}, "example.com/zigbee-stick-v2"),
        ("{model}", {"model": "../../etc"}, "example.com/etc"),
        ("a-{model}.x", {"model": "Ü"}, None),
        ("a-{model}", {"model": "x" * 61}, "example.com/a-" + "x" * 61),
        ("a-{model}", {"model": "x" * 62}, None),
        ("-{model}", {"model": "x"}, None),
        ("UPPER", {}, "example.com/UPPER"),
        ("a b", {}, None),
        ("{", {}, None),
    ],
)
def test_names_are_made_to_fit_and_checked(name: str, facts: dict[str, str], wanted: str | None) -> None:
    found = EntryNames(entry(name)).of(facts, "The stick")
    assert (None if isinstance(found, Unnamed) else found) == wanted
    assert not isinstance(found, Unnamed) or found.text


def test_an_entry_whose_name_is_refused_is_told() -> None:
    assert EntryNames(entry("a b")).problem == (
        "Kubernetes does not take 'example.com/a b' as the name of a resource. The entry has no resource."
    )
    assert "is not a template: this { has no } behind it" in EntryNames(entry("{")).problem
    assert EntryNames(entry("x" * 64)).problem.startswith(f"The name '{'x' * 64}' has 64 characters")
