"""Configuration files: the two of the documentation that Kubernetes prints, and everything that is none."""

from __future__ import annotations

import contextlib
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.cni.config import NetworkConfig, parse_list, parse_plugin, parse_single, with_extra
from plugbay.documents import JsonObject, JsonValue
from plugbay.documents.go_json import parse_plain
from plugbay.errors import InvalidNetworkConfig


def network(**members: JsonValue) -> NetworkConfig:
    document: JsonObject = {"name": "n", "cniVersion": "1.0.0", "plugins": [{"type": "bridge"}], **members}
    return parse_list(json.dumps(document).encode(), source="n.conflist")


def test_list_is_read() -> None:
    config = network(
        plugins=[
            {"type": "bridge", "name": "first", "ipam": {"type": "host-local"}, "vendor.example/x": [1, 2.5, None]},
            {"TYPE": "portmap", "Capabilities": {"portMappings": True, "bandwidth": False}},
        ],
        disableCheck="TRUE",
    )
    bridge, portmap = config.plugins
    assert (config.name, config.version, config.disable_check, config.disable_gc) == ("n", "1.0.0", True, False)
    assert (bridge.type, bridge.name, bridge.ipam_type) == ("bridge", "first", "host-local")
    assert bridge.document["vendor.example/x"] == [1, 2.5, None]
    assert (portmap.type, portmap.capabilities) == ("portmap", frozenset({"portMappings"}))
    assert config.capabilities == {"portMappings"}


def test_newest_known_version_is_chosen() -> None:
    assert network(cniVersion="0.4.0", cniVersions=["0.3.1", "1.0.0", "99.0.0"]).version == "1.0.0"


def test_list_without_version_is_of_the_first() -> None:
    assert parse_list(b'{"name":"n","plugins":[{"type":"a"}]}', source="x").version == "0.1.0"


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ({"name": None}, "no name"),
        ({"name": ""}, "no name"),
        ({"name": 5}, "invalid name type: it is a number"),
        ({"name": "a b"}, "invalid characters found in network name 'a b'"),
        ({"name": "a\n"}, "invalid characters found in network name"),
        ({"name": "../x"}, "invalid characters found in network name"),
        ({"cniVersion": None}, "invalid cniVersion type: it is null"),
        ({"cniVersions": None}, "invalid cniVersions type: it is null"),
        ({"disableCheck": None}, "invalid value for disableCheck"),
        ({"cniVersion": 1}, "invalid cniVersion type: it is a number"),
        ({"cniVersion": "one"}, "invalid cniVersion: 'one' is not a version"),
        ({"cniVersions": "1.0.0"}, "invalid cniVersions type: it is a text"),
        ({"cniVersions": ["1.0.0", 2]}, "invalid cniVersions entry: it is a number"),
        ({"cniVersions": ["x"]}, "invalid cniVersion: 'x' is not a version"),
        ({"disableCheck": "yes"}, "invalid value for disableCheck"),
        ({"disableGC": 1}, "invalid value for disableGC"),
        ({"plugins": None}, "invalid 'plugins' type: it is null"),
        ({"plugins": {}}, "invalid 'plugins' type: it is an object"),
        ({"plugins": []}, "no plugins in list"),
        ({"plugins": ["bridge"]}, "plugins[0] is a text, not an object"),
        ({"plugins": [{"type": "a"}, {}]}, "plugins[1]: missing 'type'"),
        ({"plugins": [{"type": 5}]}, "plugins[0]: invalid type: it is a number"),
        ({"plugins": [{"type": "a", "capabilities": ["x"]}]}, "plugins[0].capabilities is a list"),
        ({"plugins": [{"type": "a", "capabilities": {"x": "true"}}]}, "plugins[0].capabilities.x is a text"),
    ],
)
def test_broken_list_is_refused(members: JsonObject, problem: str) -> None:
    with pytest.raises(InvalidNetworkConfig) as refusal:
        network(**members)
    assert refusal.value.problem.startswith("error parsing configuration list: ")
    assert problem in refusal.value.problem


def test_refusal_says_where() -> None:
    content = b'{\n  "name": "n",\n  "plugins": [\n    {"type": "a"},\n    {"typ": "b"}\n  ]\n}\n'
    with pytest.raises(InvalidNetworkConfig) as refusal:
        parse_list(content, source="n.conflist")
    assert str(refusal.value) == "n.conflist:5:5: error parsing configuration list: plugins[1]: missing 'type'"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "f: is empty"),
        (b"\xef\xbb\xbf{}", "f:1:1: not JSON: "),
        (b'{"name": "n",\n "plugins": [}', "f:2:14: not JSON: expecting value"),
        (b'{"name": NaN}', "f: not JSON: NaN is not a valid number"),
        (b'{"name": -1e400}', "f: not JSON that can be used: -1e400 is too large"),
        (b"[1]", "f: is a list, not an object"),
        (b"[" * 100_000, "f: not JSON that can be used: it is nested too deep"),
        (b"[" * 700 + b"]" * 700, "f: not JSON that can be used: it is nested too deep"),
        (
            b'{"a": ' + b"9" * 5000 + b"}",
            f"f: not JSON that can be used: {'9' * 40} is too large",
        ),
        (
            b'{"type": "bridge", "name": "n"}',
            "f: error parsing configuration list: no 'plugins' key; a file with a single",
        ),
    ],
    ids=["empty", "bom", "syntax", "nan", "infinite", "list", "deep list", "deep whole list", "digits", "single"],
)
def test_what_is_no_list_is_refused(content: bytes, message: str) -> None:
    with pytest.raises(InvalidNetworkConfig) as refusal:
        parse_list(content, source="f")
    assert str(refusal.value).startswith(message)


def test_single_plugin_becomes_a_list() -> None:
    config = parse_single(b'{"name":"n","cniVersion":"0.4.0","type":"bridge","bridge":"br0"}', source="n.conf")
    assert (config.name, config.version, config.loads_extra) == ("n", "0.4.0", False)
    assert [each.type for each in config.plugins] == ["bridge"]
    again = parse_list(config.content, source="cache")
    assert (again.name, again.version, again.plugins) == (config.name, config.version, config.plugins)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b'{"name":"n"}', "missing 'type'"),
        (b'{"type":"a"}', "no name"),
        (b'{"name":"n","plugins":[]}', "ends in .conflist"),
    ],
)
def test_broken_single_plugin_is_refused(content: bytes, problem: str) -> None:
    with pytest.raises(InvalidNetworkConfig, match=f"error parsing configuration: .*{problem}"):
        parse_single(content, source="n.conf")


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ({"name": 5}, "name is a number, not a text"),
        ({"cniVersion": []}, "cniVersion is a list, not a text"),
        ({"IPAM": "host-local"}, "IPAM is a text, not an object"),
        ({"ipam": {"type": 1}}, "ipam.type is a number, not a text"),
        ({"dns": []}, "dns is a list, not an object"),
        ({"dns": {"nameservers": "1.1.1.1"}}, "dns.nameservers is a text, not a list"),
        ({"dns": {"search": ["a", 1]}}, "dns.search[1] is a number, not a text"),
        ({"prevResult": "x"}, "prevResult is a text, not an object"),
        ({"cni.dev/valid-attachments": [{"containerID": 1}]}, "containerID is a number, not a text"),
    ],
)
def test_members_that_engines_read_themselves_have_to_be_what_they_read(members: JsonObject, problem: str) -> None:
    with pytest.raises(InvalidNetworkConfig, match=re.escape(problem)) as caught:
        network(plugins=[{"type": "a"}, {"type": "b", **members}])
    assert caught.value.problem.startswith("error parsing configuration list: plugins[1].")
    assert caught.value.column is not None


def test_null_is_nothing_to_engines() -> None:
    nothing: JsonObject = {"ipam": None, "dns": {"search": None, "options": [None]}, "name": None}
    (plugin,) = network(plugins=[{"type": "a", **nothing}]).plugins
    assert (plugin.name, plugin.ipam_type) == ("", "")


def test_single_plugin_is_matched_without_regard_to_case_and_offers_one_version() -> None:
    content = b'{"Name":"n","CNIVersion":"0.4.0","cniVersions":["1.0.0"],"type":"bridge"}'
    config = parse_single(content, source="x.conf")
    assert (config.name, config.version, config.offered) == ("n", "0.4.0", ("0.4.0",))


def test_extra_plugins_come_last_and_into_the_cache() -> None:
    extra = parse_plugin(b'{"type":"tuning"}', source="n/1.conf")
    config = with_extra(network(), [extra])
    assert [each.type for each in config.plugins] == ["bridge", "tuning"]
    again = parse_list(config.content, source="cache")
    assert again.plugins == config.plugins
    assert not again.loads_extra


def test_some_plugin_is_needed() -> None:
    empty = parse_list(b'{"name":"n"}', source="n.conflist")
    assert empty.loads_extra
    with pytest.raises(InvalidNetworkConfig, match="no plugin configs found"):
        with_extra(empty, [])
    with pytest.raises(InvalidNetworkConfig, match="no 'plugins' key"):
        parse_list(b'{"name":"n","loadOnlyInlinedPlugins":true}', source="n.conflist")


JSON: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
MEMBERS = st.dictionaries(
    st.sampled_from(["name", "cniVersion", "cniVersions", "plugins", "disableCheck", "type", "capabilities"])
    | st.text(),
    JSON,
)


@given(MEMBERS | st.lists(MEMBERS).map(lambda plugins: {"name": "n", "plugins": plugins}))
def test_strange_documents_are_refused_in_words(document: JsonObject) -> None:
    content = json.dumps(document, indent=1).encode()
    for read in (parse_list, parse_single, parse_plugin):
        with contextlib.suppress(InvalidNetworkConfig):
            read(content, source="f")


@given(st.binary(max_size=40))
def test_strange_bytes_are_refused_in_words(content: bytes) -> None:
    with pytest.raises(InvalidNetworkConfig):
        parse_list(content, source="f")


def test_surrogates_can_be_given_to_plugins() -> None:
    config = parse_list(b'{"name":"n","plugins":[{"type":"a","x":"\\ud800"}]}', source="f")
    assert parse_plain(config.content) is not None
