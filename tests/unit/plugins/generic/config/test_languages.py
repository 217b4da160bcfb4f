"""YAML, JSON and TOML say the same, and each problem has its line and column in all of them."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.errors import InvalidGenericConfig
from plugbay.plugins.generic.config.json_nodes import read_json
from plugbay.plugins.generic.config.nodes import ConfigFormat, Keys, Node, Scalar, ScalarKind, Series, format_of
from plugbay.plugins.generic.config.reading import ReadOptions, ReadOutcome, examine_config, read_config
from plugbay.plugins.generic.config.spots import Spot
from plugbay.plugins.generic.config.toml_nodes import read_toml

YAML = """\
domain: example.com
devices:
  - name: serial
    groups:
      - paths: [{path: "/dev/ttyUSB*", mountPath: /dev/serial/}]
        count: 3
      - usb: [{vendor: "10c4", product: "ea60"}]
"""
JSON = """\
{
\t"domain": "example.com",
\t"devices": [{"name": "serial", "groups": [
\t\t{"paths": [{"path": "\\/dev\\/ttyUSB*", "mountPath": "/dev/serial/"}], "count": 3},
\t\t{"usb": [{"vendor": "10c4", "product": "ea60"}]}
\t]}]
}
"""
TOML = """\
domain = "example.com" # a comment
[[devices]]
name = 'serial'
  [[devices.groups]]
  count = 3
  paths = [
    { path = "/dev/ttyUSB*", mountPath = "/dev/serial/" }, # [one]
  ]
  [[devices.groups]]
  usb = [{ vendor = 0x10c4, product = "ea60" }]
"""


def problems(text: str, language: ConfigFormat) -> list[str]:
    found = examine_config(text, source="f", language=language)
    return [each.sentence for each in found.errors]


def test_all_languages_say_the_same() -> None:
    read = [
        read_config(text, source="config", language=language)
        for text, language in ((YAML, ConfigFormat.YAML), (JSON, ConfigFormat.JSON), (TOML, ConfigFormat.TOML))
    ]
    assert read[0] == read[1] == read[2]


@pytest.mark.parametrize(
    ("name", "language"),
    [("a.json", ConfigFormat.JSON), ("A.TOML", ConfigFormat.TOML), ("a.yml", ConfigFormat.YAML)],
)
def test_the_name_of_a_file_says_its_language(name: str, language: ConfigFormat) -> None:
    assert format_of(name) is language


def test_problems_in_json_have_their_places() -> None:
    assert problems(JSON.replace('"count": 3', '"count": -3'), ConfigFormat.JSON) == [
        "f:4:81: devices[0].groups[0].count: wants a whole number from 0 to 100000, without quotes, found the number -3"
    ]


@pytest.mark.parametrize(
    "text",
    [
        '{"domain": "a.b", "devices"\n : [{"name": "ab", "paths": ["/dev/null"]}]}',
        '{"domain": "a.b", "x\x7f": 1, "devices": [{"name": "ab", "paths": ["/dev/null"], "env": {"A": "\x7f"}}]}',
        f'{{"{"x" * 2000}": 1, "domain": "a.b", "devices": [{{"name": "ab", "paths": ["/dev/null"]}}]}}',
        '\r\n\t{"domain":"a.b","devices":[{"name":"ab","paths":["\\/dev\\/null"]}],"a":[],"b":{},"c":[{}]}\n',
    ],
    ids=["colon", "delete", "key", "blanks"],
)
def test_whatever_is_json_is_read(text: str) -> None:
    read = examine_config(text, source="f", language=ConfigFormat.JSON, options=ReadOptions(is_lenient=True))
    assert read.errors == ()
    assert read.config is not None
    assert [entry.name for entry in read.config.entries] == ["ab"]


VALUES = st.recursive(
    st.integers(-9, 10**30) | st.booleans() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=9,
)


@given(value=st.dictionaries(st.text(), VALUES), is_ascii=st.booleans(), indent=st.sampled_from([None, 0, 2]))
def test_json_is_read_as_json_does(value: object, is_ascii: bool, indent: int | None) -> None:
    read = read_json(json.dumps(value, ensure_ascii=is_ascii, indent=indent), source="f")
    assert read is not None
    assert plain(read) == value


def test_scalars_of_json_are_their_characters() -> None:
    read = read_json('[1e400, -0.50, "\\ud83c\\udf89\\ud800", null]', source="f")
    assert isinstance(read, Series)
    scalars = [(each.text, each.kind) for each in read.items if isinstance(each, Scalar)]
    assert scalars == [
        ("1e400", ScalarKind.FLOAT),
        ("-0.50", ScalarKind.FLOAT),
        ("\U0001f389\ufffd", ScalarKind.TEXT),
        ("null", ScalarKind.NULL),
    ]


def test_places_in_json_are_those_of_values_and_keys() -> None:
    read = read_json('{\n  "a" :\n [1,\n"b"]}', source="f")
    assert isinstance(read, Keys)
    [entry] = read.entries
    assert isinstance(entry.node, Series)
    assert [each.spot for each in (read, entry, entry.node, *entry.node.items)] == [
        *(Spot(1, 1), Spot(2, 3), Spot(3, 2), Spot(3, 3), Spot(4, 1)),
    ]


def test_problems_in_toml_have_their_places() -> None:
    text = TOML.replace("count = 3", "count = -3").replace("0x10c4", "1209").replace("mountPath", "mountpth")
    assert [each.partition(": wants")[0].partition("; did")[0] for each in problems(text, ConfigFormat.TOML)] == [
        "f:5:11: devices[0].groups[0].count",
        "f:7:30: devices[0].groups[0].paths[0].mountpth: is not a known field",
        "f:10:21: devices[0].groups[1].usb[0].vendor: 1209 is ambiguous: a number in TOML is decimal, and IDs are "
        'hexadecimal; write "1209" in quotes',
    ]


BROKEN = {
    "yaml": ("devices:\n  - {name: a\n", ConfigFormat.YAML, "f:3:1: not valid YAML"),
    "yaml tab": ("devices:\n\t- name: a\n", ConfigFormat.YAML, "f:2:1: not valid YAML"),
    "yaml character": ("devices:\n  - \x01", ConfigFormat.YAML, "f:2:5: not valid YAML"),
    "yaml tag": ("devices: !!python/object:os.system {}\n", ConfigFormat.YAML, "f:1:10: the YAML tag"),
    "yaml documents": ("a: 1\n---\nb: 2\n", ConfigFormat.YAML, "f:3:1: a second document"),
    "yaml alias": ("devices: &a [*a]\n", ConfigFormat.YAML, "f:1:10: an alias stands for something that holds it"),
    "yaml key": ("? [a]\n: 1\n", ConfigFormat.YAML, "f:1:3: a key must be a text"),
    "json": ('{"devices": [}', ConfigFormat.JSON, "f:1:14: not valid JSON"),
    "not a number in json": ('{"x":\n NaN}', ConfigFormat.JSON, "f:2:2: not valid JSON: NaN is not a number there"),
    "deep json": ("[" * 50000 + "]" * 50000, ConfigFormat.JSON, "f:1:1: is nested too deeply"),
    "less deep json": ("[" * 900 + "]" * 900, ConfigFormat.JSON, "f:1:1: "),
    "wide json": ("[" + "1," * 100_000 + "1]", ConfigFormat.JSON, "f:1:200000: holds more than 100000 values"),
    "null in json": ("null", ConfigFormat.JSON, "f:1:1: is empty"),
    "yaml as json": ("devices: []", ConfigFormat.JSON, "f:1:1: not valid JSON"),
    "toml": ("[devices]\nx =\n", ConfigFormat.TOML, "f:2:4: not valid TOML"),
    "toml end": ('x = """', ConfigFormat.TOML, "f:1:1: not valid TOML"),
    "empty": ("# nothing\n", ConfigFormat.YAML, "f:1:1: is empty"),
    "empty json": (" \n", ConfigFormat.JSON, "f:1:1: is empty"),
    "empty toml": ("# nothing\n", ConfigFormat.TOML, "f:1:1: is empty"),
    "text": ("devices", ConfigFormat.YAML, "f:1:1: wants a mapping with devices: in front of the list"),
    "long number in json": ('{"x": ' + "9" * 5000 + "}", ConfigFormat.JSON, "f:1:1: has no devices"),
    "long number in toml": ("a = 1\nx = " + "9" * 5000, ConfigFormat.TOML, "f:2:1: not valid TOML: this number has"),
    "deep": ("[" * 5000, ConfigFormat.YAML, "f:1:1: is nested too deeply"),
    "wide": (
        "a: &a [1,1,1,1,1,1,1,1,1,1]\nb: &b [" + "*a," * 500 + "]\nc: [" + "*b," * 500 + "]",
        ConfigFormat.YAML,
        "f:1:",
    ),
}


@pytest.mark.parametrize(("text", "language", "words"), BROKEN.values(), ids=BROKEN)
def test_broken_texts_are_told_with_their_place(text: str, language: ConfigFormat, words: str) -> None:
    problem, *further = problems(text, language)
    assert problem.startswith(words), problem
    assert not further or words.endswith("has no devices"), further


REMEDIES = {
    "tab": ("devices:\n\t- name: a\n", "indent with spaces, not with tabs"),
    "indented too far": (
        "domain: a.b\n  devices:\n",
        "indent this line as its neighbours, and put a blank behind each :",
    ),
    "no blank": ("domain:a.b\ndevices: []\n", "indent this line as its neighbours, and put a blank behind each :"),
    "item": ("devices:\n  - name: a\n   paths: []\n", "indent this line as the others of its list or mapping"),
    "pattern": ("devices: [{name: a, paths: [*USB]}]\n", "put a text that begins with * in quotes"),
    "pattern of a path": ("devices: [{name: a, paths: [*/dev]}]\n", "put a text that begins with * in quotes"),
    "manifest": ("apiVersion: v1\ndevices: [{name: a, tokens: 1}]\n", "`plugbay migrate` takes whole manifests"),
    "no list": ("devices: [{name: a, paths: /dev/a}]\n", 'a list, in brackets or with "- " before each item'),
    "other plugin": (
        "devices: [{name: snd, paths: [/dev/snd], nummaxdevices: 20}]\n",
        "is not a known field; write count",
    ),
}


@pytest.mark.parametrize(("text", "words"), REMEDIES.values(), ids=REMEDIES)
def test_what_to_write_is_told(text: str, words: str) -> None:
    assert words in problems(text, ConfigFormat.YAML)[0]


def test_what_is_not_closed_is_told_with_its_beginning() -> None:
    (problem,) = problems('domain: "a.b\ndevices: []\n', ConfigFormat.YAML)
    assert problem.startswith("f:3:1: not valid YAML: while scanning a quoted scalar that begins in line 1")


def test_aliases_and_merge_keys_are_written_out() -> None:
    text = "x: 1\ndomain: a.b\ndevices:\n- &one {name: one, paths: [/dev/x], shared: true}\n- {<<: *one, name: two}\n"
    found: ReadOutcome = examine_config(text, source="f")
    assert [each.field for each in found.errors] == ["x"]
    config = read_config(text.removeprefix("x: 1\n"), source="f")
    assert [each.name for each in config.entries] == ["one", "two"]
    assert config.entries[0].groups == config.entries[1].groups


def test_every_problem_is_in_the_error() -> None:
    with pytest.raises(InvalidGenericConfig) as caught:
        read_config("devices: [" + "{tokens: 1}," * 12 + "]", source="f")
    assert len(caught.value.problems) == 12
    assert str(caught.value).endswith("and 2 more")


# --- TOML's own places ------------------------------------------------------------------------------------------------


def plain(node: Node) -> object:
    match node:
        case Keys(entries=entries):
            return {each.key: plain(each.node) for each in entries}
        case Series(items=items):
            return [plain(each) for each in items]
        case Scalar(kind=ScalarKind.INTEGER, text=text):
            return int(text.replace("_", ""), 0)
        case Scalar(kind=ScalarKind.BOOLEAN, text=text):
            return text == "true"
        case Scalar(text=text):
            return text


TRICKY = '''\
a.b."c.d" = 1_000
'e' = "\\u00e9\\"#]" # "quoted"
f = """
one "" two\\
   three """"
g = \'\'\'
[no.table] = '' '\'\'\'
h = [[1, 2], [], ["]", ], # x
]
i = {j = {k = true}, "l" = -0x0}
[m]
[m.n.o]
p = 1979-05-27
[[q]]
[q.r]
s = 1
[[q]]
[[q.t]]
u = 0b11
'''


def test_toml_is_read_as_tomllib_reads_it() -> None:
    node = read_toml(TRICKY.replace("-0x0", "0x0"), source="f")
    assert node is not None
    wanted: dict[str, Any] = tomllib.loads(TRICKY.replace("-0x0", "0x0"))
    wanted["m"]["n"]["o"]["p"] = "1979-05-27"
    assert plain(node) == wanted


VALUES = st.recursive(
    st.booleans()
    | st.integers(0, 10**6)
    | st.text(st.characters(codec="utf-8", exclude_characters="\x7f"), max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=12,
)


def toml_of(value: object) -> str:
    match value:
        case dict():
            return "{" + ", ".join(f"{json.dumps(str(key))} = {toml_of(each)}" for key, each in value.items()) + "}"
        case list():
            return "[" + ",\n ".join(map(toml_of, value)) + "]"
        case str():
            return json.dumps(value, ensure_ascii=True)
        case _:
            return str(value).lower()


@given(st.dictionaries(st.text(st.characters(codec="ascii"), max_size=6), VALUES, min_size=1, max_size=4))
def test_any_toml_is_read_as_tomllib_reads_it(value: dict[str, object]) -> None:
    text = "".join(f"{json.dumps(key)} = {toml_of(each)}\n" for key, each in value.items())
    try:
        wanted = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return  # surrogate pairs of JSON
    node = read_toml(text, source="f")
    assert node is not None
    assert plain(node) == wanted
