"""Reading as Go reads, writing as Go writes."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from plugbay.errors import CorruptCheckpoint
from plugbay.kubelet.checkpoint import encode, load, parse
from plugbay.kubelet.checkpoint_data import CheckpointData, PodDevicesEntry, checksum, dump

GOLDEN = sorted((Path(__file__).parents[2] / "golden" / "checkpoints").glob("*.json"))
FILES = [json.loads(path.read_text())["file_text"].encode() for path in GOLDEN]

texts = st.text(max_size=8)
lists = st.none() | st.lists(texts, max_size=3).map(tuple)
nodes = st.integers(min_value=-(2**63), max_value=2**63 - 1)
entries = st.builds(
    PodDevicesEntry,
    texts,
    texts,
    texts,
    st.none() | st.dictionaries(nodes, lists, max_size=3),
    st.none() | st.binary(max_size=8),
)
contents = st.builds(
    CheckpointData,
    st.none() | st.lists(entries, max_size=3).map(tuple),
    st.none() | st.dictionaries(texts, lists, max_size=3),
)


def read(text: str | bytes) -> CheckpointData:
    return parse(text if isinstance(text, bytes) else text.encode(), source="test").data


def read_entry(members: str | bytes) -> PodDevicesEntry:
    members = members.encode() if isinstance(members, str) else members
    (entry,) = read(b'{"Data":{"PodDeviceEntries":[{%b}]}}' % members).pod_device_entries or ()
    return entry


@given(contents)
@example(
    CheckpointData((PodDevicesEntry("<&>\u2028\u2029\x7f\0\x1f", "\b\f\n\r\t", '"\\/', {-1: ("é", "𝄞")}, b""),), {})
)
def test_what_is_written_is_read_back(data: CheckpointData) -> None:
    assert load(encode(data), source="written") == data


@given(contents)
def test_writing_is_json_on_one_line_of_go(data: CheckpointData) -> None:
    written = encode(data).decode()
    assert (
        json.dumps(json.loads(written), separators=(",", ":"), ensure_ascii=False, sort_keys=False).translate(
            {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}
        )
        == written
    )
    assert list(json.loads(written)) == ["Data", "Checksum"]


@given(st.binary(max_size=60))
def test_no_bytes_crash_the_reader(content: bytes) -> None:
    with pytest.raises(CorruptCheckpoint):
        load(content, source="fuzz")


@given(st.sampled_from(FILES), st.integers(min_value=0), st.binary(max_size=3), st.integers(0, 3))
def test_damaged_files_are_read_or_refused(content: bytes, position: int, patch: bytes, cut: int) -> None:
    at = position % (len(content) + 1)
    with contextlib.suppress(CorruptCheckpoint):
        load(content[:at] + patch + content[at + cut :], source="fuzz")


@pytest.mark.parametrize("content", [b"[" * 100_000, b'{"X":' * 100_000], ids=["lists", "objects"])
def test_deep_nesting_is_refused(content: bytes) -> None:
    with pytest.raises(CorruptCheckpoint, match="corrupted: it is not JSON that can be used: it is nested too deep"):
        load(content, source="deep")


def test_unknown_members_may_nest_as_deep_as_python_reads() -> None:
    assert load(
        b'{"X":' + b"[" * 200 + b"]" * 200 + b',"Data":{},"Checksum":' + b"%d}" % checksum(CheckpointData()), source="x"
    )


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        pytest.param('{"data":{"PODDEVICEENTRIES":null}}', CheckpointData(None, {}), id="case"),
        pytest.param('{"data":{"PodDeviceEntrie\u017f":null}}', CheckpointData(None, {}), id="long-s"),
        pytest.param('{"Data":{"PodDeviceEntries\u0307":null}}', CheckpointData(), id="another-name"),
        pytest.param(
            '{"Data":{"RegisteredDevices":{"a":["1"]}},"data":{"registereddevices":{"b":null}}}',
            CheckpointData((), {"a": ("1",), "b": None}),
            id="repeated-objects-merge",
        ),
        pytest.param(
            '{"Data":{"RegisteredDevices":{"a":["1"],"a":["2"]}}}', CheckpointData((), {"a": ("2",)}), id="repeated-key"
        ),
        pytest.param(
            '{"Data":{"RegisteredDevices":{"a":[]},"RegisteredDevices":null}}',
            CheckpointData((), None),
            id="null-after-object",
        ),
        pytest.param(
            '{"Data":{"PodDeviceEntries":null},"Data":null}', CheckpointData(None, {}), id="null-data-changes-nothing"
        ),
        pytest.param(
            '{"Data":{"PodDeviceEntries":[{},{}],"PodDeviceEntries":[null]}}',
            CheckpointData((PodDevicesEntry(),), {}),
            id="shorter-list-after-a-longer",
        ),
        pytest.param(
            '{"Data":{"PodDeviceEntries":[{"PodUID":"p","ContainerName":"c"}],"PodDeviceEntries":[{"PodUID":"q"}]}}',
            CheckpointData((PodDevicesEntry("q", "c"),), {}),
            id="second-list-into-the-first",
        ),
        pytest.param(
            '{"Data":{"PodDeviceEntries":[{},{"PodUID":"p"}]},"data":{"PodDeviceEntries":[{}],"PodDeviceEntries":[{},{}]}}',
            CheckpointData((PodDevicesEntry(), PodDevicesEntry("p")), {}),
            id="a-cut-element-comes-back",
        ),
        pytest.param(
            '{"Data":{"PodDeviceEntries":[{"PodUID":"p"}],"PodDeviceEntries":[],"PodDeviceEntries":[{}]}}',
            CheckpointData((PodDevicesEntry(),), {}),
            id="empty-list-forgets",
        ),
        pytest.param(
            '{"Data":{"PodDeviceEntries":[{"PodUID":"p"}],"PodDeviceEntries":null,"PodDeviceEntries":[{}]}}',
            CheckpointData((PodDevicesEntry(),), {}),
            id="null-forgets",
        ),
        pytest.param('\t{"Data":{},\r\n"X":[1.5e3,true,{"":null}]} ', CheckpointData(), id="unknown-members"),
    ],
)
def test_members(document: str, expected: CheckpointData) -> None:
    assert read(document) == expected


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        pytest.param('"DeviceIDs":{"+07":["a"],"-0":null}', {7: ("a",), 0: None}, id="sign-and-zeros"),
        pytest.param(
            '"DeviceIDs":{"0":["a"],"1":[]},"deviceids":{"+0":["b",null]}', {0: ("b", ""), 1: ()}, id="merged"
        ),
        pytest.param('"DeviceIDs":{"0":["a"]},"DeviceIDs":null', None, id="null"),
        pytest.param('"DeviceIDs":{"9223372036854775807":[]}', {2**63 - 1: ()}, id="largest"),
    ],
)
def test_nodes(members: str, expected: Mapping[int, Sequence[str] | None] | None) -> None:
    assert read_entry(members).device_ids == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param('"AAECAw=="', b"\0\1\2\3", id="padded"),
        pytest.param(r'"AAEC\r\nAw=\n="', b"\0\1\2\3", id="line-breaks"),
        pytest.param('"AAECAx=="', b"\0\1\2\3", id="stray-bits"),
        pytest.param('""', b"", id="empty"),
        pytest.param("null", None, id="null"),
        pytest.param("[0, 255, null]", b"\0\xff\0", id="numbers"),
    ],
)
def test_response_bytes(value: str, expected: bytes | None) -> None:
    assert read_entry(f'"AllocResp":{value}').alloc_resp == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(b"\xff", "\ufffd", id="no-utf8"),
        pytest.param(b"\xe2\x82", "\ufffd\ufffd", id="each-byte-of-half-a-character"),
        pytest.param(b"\xed\xa0\x80", "\ufffd\ufffd\ufffd", id="encoded-surrogate"),
        pytest.param(rb"\ud834\udd1e", "𝄞", id="pair"),
        pytest.param(rb"\ud834", "\ufffd", id="high-half"),
        pytest.param(rb"\udd1ex", "\ufffdx", id="low-half"),
        pytest.param(rb"\ud834\ud834\udd1e", "\ufffd𝄞", id="high-half-and-pair"),
        pytest.param(b"\xc3\xa9\x7f", "é\x7f", id="raw"),
    ],
)
def test_texts(value: bytes, expected: str) -> None:
    assert read_entry(b'"PodUID":"%b"' % value).pod_uid == expected
    registered = read(b'{"Data":{"RegisteredDevices":{"%b":["%b"]}}}' % (value, value)).registered_devices
    assert registered == {expected: (expected,)}


def test_null_leaves_a_text_as_it_is() -> None:
    assert read_entry('"PodUID":"a","PodUID":null').pod_uid == "a"


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ("", "it is empty"),
        (" \n", "it is empty"),
        ("\ufeff{}", "not JSON"),
        ("[]", "the document is a list, not an object"),
        ("1", "the document is a number, not an object"),
        ('{"Data":"x"}', "Data is a text, not an object"),
        ('{"Data":{}} {}', "it is not JSON at line 1, column 13"),
        ('{"Data":{},}', "not JSON"),
        ('{"X":NaN}', "it is not JSON: NaN is not a valid number"),
        ('{"X":-Infinity}', "not JSON: -Infinity is not a valid number"),
        ('{"X":01}', "not JSON"),
        ('{"X":"\n"}', "it is not JSON at line 1, column 7"),
        (r'{"X":"\x41"}', "not JSON"),
        ('{"Checksum":"1"}', "Checksum is a text, not an integer from 0 to 18446744073709551615"),
        ('{"Checksum":-1}', "Checksum is -1, not an integer"),
        ('{"Checksum":1.0}', "Checksum is 1.0, not an integer"),
        ('{"Checksum":1e0}', "Checksum is 1e0, not an integer"),
        ('{"Checksum":-0}', "Checksum is -0, not an integer"),
        ('{"Checksum":18446744073709551616}', "Checksum is 18446744073709551616, not an integer"),
        ('{"Checksum":' + "9" * 10_000 + "}", "not an integer"),
        ('{"Checksum":true}', "Checksum is true, not an integer"),
        ('{"Data":{"RegisteredDevices":[]}}', "RegisteredDevices is a list, not an object"),
        ('{"Data":{"RegisteredDevices":{"a":[1]}}}', "an item of RegisteredDevices of a is a number, not a text"),
        ('{"Data":{"PodDeviceEntries":{}}}', "PodDeviceEntries is an object, not a list"),
        ('{"Data":{"PodDeviceEntries":[0]}}', "an item of PodDeviceEntries is a number, not an object"),
    ],
)
def test_refused_documents(document: str, problem: str) -> None:
    with pytest.raises(CorruptCheckpoint) as caught:
        read(document)
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ('"PodUID":1', "PodUID is a number, not a text"),
        ('"DeviceIDs":["a"]', "DeviceIDs is a list, not an object"),
        ('"DeviceIDs":{"1_0":[]}', "a node of DeviceIDs is '1_0', not an integer of 64 bits"),
        ('"DeviceIDs":{" 1":[]}', "not an integer of 64 bits"),
        ('"DeviceIDs":{"٣":[]}', "not an integer of 64 bits"),
        ('"DeviceIDs":{"9223372036854775808":[]}', "not an integer of 64 bits"),
        ('"AllocResp":"AA"', "AllocResp is not base64"),
        ('"AllocResp":"AA=="}],"PodDeviceEntries":[{"AllocResp":"AA=="x', "not JSON"),
        ('"AllocResp":"AA==AA=="', "AllocResp is not base64"),
        ('"AllocResp":"AA-_"', "AllocResp is not base64"),
        ('"AllocResp":" AA=="', "AllocResp is not base64"),
        ('"AllocResp":[256]', "an item of AllocResp is 256, not an integer from 0 to 255"),
        ('"AllocResp":[-1]', "an item of AllocResp is -1, not an integer"),
        ('"AllocResp":["1"]', "an item of AllocResp is a text, not an integer"),
        ('"AllocResp":{}', "AllocResp is an object, not a list"),
    ],
)
def test_refused_entries(members: str, problem: str) -> None:
    with pytest.raises(CorruptCheckpoint) as caught:
        read_entry(members)
    assert problem in str(caught.value)


def test_node_order_differs_between_file_and_hash() -> None:
    data = CheckpointData((PodDevicesEntry("p", "c", "r", {2: (), 10: (), -1: ()}, b""),), {})
    assert b'{"-1":[],"10":[],"2":[]}' in encode(data)
    assert b"map[-1:[] 2:[] 10:[]]" in dump(data)


def test_checksum_is_that_of_the_smallest_example() -> None:
    assert checksum(CheckpointData(None, {})) == 3467439661


def test_a_checksum_over_repeated_lists_is_a_kubelets() -> None:
    """The sum was computed by a kubelet 1.36, which finds the file in order."""
    entry = '{"PodUID":"p","ContainerName":"c","ResourceName":"a/b","DeviceIDs":{"0":["x"]},"AllocResp":""}'
    document = (
        f'{{"Data":{{"PodDeviceEntries":[{entry}],"PodDeviceEntries":[{{"PodUID":"q"}}]}},"Checksum":3086039746}}'
    )
    loaded = load(document.encode(), source="repeated")
    assert loaded.pod_device_entries == (PodDevicesEntry("q", "c", "a/b", {0: ("x",)}, b""),)
