"""The config of a node among those of a file."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from plugbay.errors import InvalidDocument
from plugbay.sdk.process.node_configs import choose, differences, parse_configs

POOLS = """\
nodeLabel: example.com/config
plugins: [{target: all.py}]
configs:
- {name: cards, nodeNames: ["card-*", big], plugins: [{target: cards.py}]}
- name: edge
  nodeNames: ["edge-?"]
  nodeLabels: {example.com/pool: "e*"}
  plugins: [{target: edge.py}]
- {name: arm, nodeLabels: {kubernetes.io/arch: arm64}, plugins: []}
- {name: only-named, plugins: [{target: named.py}]}
"""


@pytest.mark.parametrize(
    ("node", "labels", "name"),
    [
        ("n1", {}, ""),
        ("card-1", {}, "cards"),
        ("big", {}, "cards"),
        ("bigger", {}, ""),
        ("edge-1", {}, ""),
        ("edge-1", {"example.com/pool": "east"}, "edge"),
        ("edge-1", {"example.com/pool": "west"}, ""),
        ("edge-12", {"example.com/pool": "east"}, ""),
        ("n1", {"example.com/pool": "east"}, ""),
        ("n1", {"kubernetes.io/arch": "arm64"}, "arm"),
        ("n1", {"example.com/config": "only-named"}, "only-named"),
        ("card-1", {"example.com/config": "only-named"}, "only-named"),
        ("card-1", {"example.com/config": ""}, "cards"),
    ],
)
def test_config_of_a_node(node: str, labels: Mapping[str, str], name: str) -> None:
    assert choose(parse_configs(POOLS, source="f"), node, labels).name == name


@pytest.mark.parametrize(
    ("node", "labels", "problem"),
    [
        (
            "card-1",
            {"kubernetes.io/arch": "arm64"},
            "f: configs: node card-1: both cards and arm are for it; let one of them leave it out, or name one by a "
            "nodeLabel",
        ),
        (
            "n1",
            {"example.com/config": "crads"},
            "f: configs: node n1: label example.com/config names the config 'crads', which does not exist (there are: "
            "cards, edge, arm, only-named)",
        ),
    ],
)
def test_a_node_without_one_config_is_told(node: str, labels: Mapping[str, str], problem: str) -> None:
    with pytest.raises(InvalidDocument) as caught:
        choose(parse_configs(POOLS, source="f"), node, labels)
    assert str(caught.value) == problem


def test_a_node_that_no_config_is_for_is_told_unless_there_is_one_for_all() -> None:
    configs = parse_configs("configs: [{name: a, nodeNames: [x], plugins: []}]", source="f")
    with pytest.raises(InvalidDocument, match="node n1: no config is for it, and there are no `plugins` for all"):
        choose(configs, "n1", {})
    assert choose(configs, "x", {}).name == "a"


@pytest.mark.parametrize(
    ("text", "wants_name", "wants_labels"),
    [
        ("plugins: []", False, False),
        ("configs: [{name: a, nodeNames: [x], plugins: []}]", True, False),
        ("configs: [{name: a, nodeLabels: {x: z}, plugins: []}]", True, True),
        ("nodeLabel: x\nconfigs: [{name: a, plugins: []}]", True, True),
    ],
)
def test_nothing_is_asked_for_that_chooses_nothing(text: str, wants_name: bool, wants_labels: bool) -> None:
    configs = parse_configs(text, source="f")
    assert (configs.wants_name, configs.wants_labels) == (wants_name, wants_labels)
    assert [type(each).__name__ for each in configs.needs] == (
        ["NodeReader"] if wants_labels else ["NodeName"] if wants_name else []
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("configs: []", "f:1: wants the field plugins"),
        ("plugins: []\nnodeLabel: a b\n", "f:2: nodeLabel: 'a b' is not the name of a label, such as"),
        ("plugins: []\nnodeLabel: a\n", "f:2: nodeLabel: there are no `configs` that it could name"),
        ("configs:\n- {name: a/b, plugins: []}", "f:2: configs[0].name: 'a/b' is not a name that a label can have"),
        ("configs:\n- {name: a, plugins: []}", "f:2: configs[0]: nothing chooses it: it wants nodeNames or nodeLabels"),
        ("configs:\n- {name: a, nodeNames: [], plugins: []}", "f:2: configs[0]: nothing chooses it"),
        ("configs:\n- {name: a, nodeNames: [Big], plugins: []}", "f:2: configs[0].nodeNames[0]: no node is called"),
        ("configs:\n- {name: a, nodeNames: x, plugins: []}", "f:2: configs[0].nodeNames: wants a list, found a text"),
        ("configs:\n- {name: a, nodeLabels: {'-': x}, plugins: []}", "f:2: configs[0].nodeLabels[-]: '-' is not the"),
        ("configs:\n- {name: a, nodeLabels: {x: 'a b'}, plugins: []}", "f:2: configs[0].nodeLabels.x: 'a b' is not"),
        ("configs:\n- {name: a, nodeLabels: {x: true}, plugins: []}", "f:2: configs[0].nodeLabels: wants a text"),
        ("configs:\n- {name: a, nodes: [x], plugins: []}", "f:2: configs[0].nodes: unknown field"),
        ("configs:\n- {nodeNames: [x], plugins: []}", "f:2: configs[0]: wants the field name"),
        ("configs:\n- {name: a, nodeNames: [x]}", "f:2: configs[0]: wants the field plugins"),
        (
            "configs:\n- {name: a, nodeNames: [x], plugins: []}\n- {name: a, nodeNames: [z], plugins: []}",
            "f:3: configs[1].name: configs[0] has the name 'a' as well",
        ),
    ],
)
def test_a_wrong_file_is_told_with_its_place(text: str, sentence: str) -> None:
    with pytest.raises(InvalidDocument) as caught:
        parse_configs(text, source="f")
    assert str(caught.value).startswith(sentence)


def test_differences_are_told_by_config() -> None:
    after = POOLS.replace("all.py", "other.py").replace("edge-?", "edge-*").replace("cards.py", "new.py")
    after = after.replace("only-named", "another").replace("example.com/config", "example.com/c")
    assert differences(parse_configs(POOLS, source="a"), parse_configs(after, source="b")) == [
        "removed: all.py",
        "added: other.py",
        "changed: nodeLabel example.com/config -> example.com/c",
        "removed: config only-named",
        "config cards: removed: cards.py",
        "config cards: added: new.py",
        "changed: config edge: it is for other nodes",
        "added: config another",
    ]
    assert differences(parse_configs(POOLS, source="a"), parse_configs(POOLS, source="b")) == []
