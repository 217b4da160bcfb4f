from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.errors import InvalidDocument
from plugbay.sdk.process.config import Config, ConfigEntry, Difference, difference
from plugbay.sdk.process.node_configs import parse_configs

GOPHERS = ConfigEntry("directory", {"resource": "example.com/gopher", "path": "/g", "env": "G"})
CARDS = ConfigEntry("cards.py")


def test_yaml_and_json_are_read() -> None:
    yaml = "plugins:\n- target: cards.py\n- {target: 'cards.py:Cards', settings: {slots: 4}}\n"
    json = '{"plugins": [{"target": "cards.py"}, {"target": "cards.py:Cards", "settings": {"slots": 4}}]}'
    expected = Config((CARDS, ConfigEntry("cards.py:Cards", {"slots": 4})))
    assert parse_configs(yaml, source="f") == parse_configs(json, source="f")
    assert parse_configs(yaml, source="f").default == expected


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        pytest.param("", "f: is empty; it has to say `plugins:`", id="empty"),
        pytest.param("plugins: []\n---\nplugins: []\n", "f: holds more than one document", id="two"),
        pytest.param("- target: x\n", "f:1: wants a mapping, found a list", id="list"),
        pytest.param("plugin: []\n", "f:1: plugin: unknown field", id="typo"),
        pytest.param("{}", "f:1: wants the field plugins", id="no-plugins"),
        pytest.param("plugins:\n", "f:1: plugins: wants a list, found nothing", id="nothing"),
        pytest.param("plugins:\n- a.py\n", "f:2: plugins[0]: wants a mapping, found a text", id="text"),
        pytest.param("plugins:\n- settings: {}\n", "f:2: plugins[0]: wants the field target", id="no-target"),
        pytest.param("plugins:\n- target: 3\n", "f:2: plugins[0].target: wants a text, found a number", id="number"),
        pytest.param("plugins:\n- target: a\n  path: /x\n", "f:3: plugins[0].path: unknown field", id="unknown"),
        pytest.param(
            "plugins:\n- target: a\n  settings: [1]\n",
            "f:3: plugins[0].settings: wants a mapping, found a list",
            id="args",
        ),
        pytest.param("plugins:\n- target: a\n  target: b\n", "f:3: plugins[0].target: duplicate key", id="twice"),
        pytest.param("plugins: [\n", "f:2: not valid YAML", id="syntax"),
    ],
)
def test_what_is_wrong_is_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(InvalidDocument) as caught:
        parse_configs(text, source="f")
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        pytest.param([GOPHERS], [GOPHERS], [], id="same"),
        pytest.param([GOPHERS, CARDS], [CARDS, GOPHERS], [], id="order"),
        pytest.param([], [GOPHERS], ["added: directory resource=example.com/gopher path=/g env=G"], id="added"),
        pytest.param([CARDS, CARDS], [CARDS], ["removed: cards.py"], id="one-of-two"),
        pytest.param(
            [GOPHERS],
            [ConfigEntry("directory", {"resource": "example.com/gopher", "path": "/h", "every": 3})],
            ["changed: directory example.com/gopher: path /g -> /h, env G removed, every 3 added"],
            id="changed",
        ),
        pytest.param(
            [GOPHERS],
            [ConfigEntry("directory", {"resource": "example.com/mole"})],
            [
                "removed: directory resource=example.com/gopher path=/g env=G",
                "added: directory resource=example.com/mole",
            ],
            id="another-resource",
        ),
        pytest.param(
            [ConfigEntry("c:C", {"slot": 1}), ConfigEntry("c:C", {"slot": 2})],
            [ConfigEntry("c:C", {"slot": 2}), ConfigEntry("c:C", {"slot": 3})],
            ["changed: c:C: slot 1 -> 3"],
            id="equal-ones-first",
        ),
    ],
)
def test_difference_is_told_field_by_field(
    before: list[ConfigEntry], after: list[ConfigEntry], lines: list[str]
) -> None:
    assert difference(Config(tuple(before)), Config(tuple(after))).lines() == lines


entries = st.builds(
    ConfigEntry,
    st.sampled_from(["directory", "a.py", "b:C"]),
    st.dictionaries(st.sampled_from(["resource", "x"]), st.integers(0, 1), max_size=2),
)
configs = st.lists(entries, max_size=4).map(lambda found: Config(tuple(found)))


def in_order(entries: Iterable[ConfigEntry]) -> list[str]:
    return sorted(f"{entry.target} {sorted(entry.settings.items())}" for entry in entries)


@given(configs, configs)
def test_difference_applied_to_one_gives_the_other(before: Config, after: Config) -> None:
    found = difference(before, after)
    result = list(before.plugins)
    for entry in (*found.removed, *(old for old, _ in found.changed)):
        result.remove(entry)
    result += [*found.added, *(new for _, new in found.changed)]
    assert in_order(result) == in_order(after.plugins)
    assert (found == Difference()) == (in_order(before.plugins) == in_order(after.plugins))
