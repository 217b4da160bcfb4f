"""What plugins print: the recordings of the official ones, and what no plugin should print."""

from __future__ import annotations

import contextlib
import json
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.cni.answers import ErrorResult, PluginVersions, parse_error, parse_result, parse_versions
from plugbay.cni.result_encoding import encode
from plugbay.errors import InvalidNetworkResult
from tests.unit.cni.recorded import Recorded, recorded_calls

CALLS = recorded_calls()
RESULTS = [each for each in CALLS if each.status == 0 and each.output.startswith(b"{\n")]
ERRORS = [each for each in CALLS if each.status == 1]
PANICS = [each for each in CALLS if each.status == 2]
VERSIONS = [each for each in CALLS if each.name.startswith("VERSION")]


def call_id(call: Recorded) -> str:
    return f"{call.release}-{call.plugin}-{call.name}"


def last_document(call: Recorded) -> dict[str, object]:
    """The answer of a call that was followed by what another program showed."""
    decoder = json.JSONDecoder()
    text, found = call.output.decode(), None
    while text.startswith("{"):
        found, end = decoder.raw_decode(text)
        text = text[end:]
    assert isinstance(found, dict)
    return found


def test_there_is_enough_to_look_at() -> None:
    assert (len(RESULTS), len(ERRORS), len(PANICS), len(VERSIONS)) == (35, 85, 2, 4), "the recordings are read wrongly"


@pytest.mark.parametrize("call", RESULTS, ids=call_id)
def test_recorded_result_is_what_we_would_write(call: Recorded) -> None:
    answer = last_document(call)
    written = encode(parse_result(json.dumps(answer).encode(), version=""))
    version = str(answer["cniVersion"])
    if version.startswith("0.") and not answer.get("ip4"):
        # The loopback plugin labels the newer shape with every version; the label's shape has more, or other, members.
        assert written["cniVersion"] == version
        assert written.get("ips") or written.get("ip4")
        return
    assert written.pop("dns", {}) == answer.pop("dns", {})
    assert written == answer


@pytest.mark.parametrize("call", ERRORS, ids=call_id)
def test_recorded_error_is_understood(call: Recorded) -> None:
    answer = last_document(call)
    assert parse_error(call.output.partition(b"}\n--")[0], b"", exit_status="exit status 1") == ErrorResult(
        int(str(answer["code"])), str(answer["msg"]), str(answer.get("details", ""))
    )


@pytest.mark.parametrize("call", PANICS, ids=call_id)
def test_recorded_crash_is_told(call: Recorded) -> None:
    error = parse_error(b"", call.output, exit_status="exit status 2")
    assert error.code == 0
    assert error.message.startswith('netplugin failed: "panic: runtime error: invalid memory address')


@pytest.mark.parametrize("call", VERSIONS, ids=call_id)
def test_recorded_versions_are_understood(call: Recorded) -> None:
    versions = parse_versions(call.output)
    assert versions.newest == versions.supported[-1] == {"1.1.1": "1.0.0", "1.9.1": "1.1.0"}[call.release]


def test_old_plugins_need_not_list_their_versions() -> None:
    assert parse_versions(b'{"cniVersion":"0.2.0"}') == PluginVersions("0.2.0", ("0.1.0", "0.2.0"))


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b'{"cniVersion":"1.0.0"}',
        b'{"cniVersion":1}',
        b'{"cniVersion":"1.0.0","supportedVersions":[1]}',
        b'{"cniVersion":"0.2.0","supportedVersions":{}}',
    ],
)
def test_versions_must_be_told(answer: bytes) -> None:
    with pytest.raises(InvalidNetworkResult):
        parse_versions(answer)


@pytest.mark.parametrize(
    ("stdout", "stderr", "message"),
    [
        (b"", b"", "netplugin failed with no error message: exit status 1"),
        (b" \n", b"it hurts\n", 'netplugin failed: "it hurts"'),
        (b"oops", b"", 'netplugin failed but error parsing its diagnostic message "oops": '),
        (b'{"code": 7, "msg"', b"", 'netplugin failed but error parsing its diagnostic message "{\\"code\\": 7, '),
        (b"[" * 100_000, b"", "netplugin failed but error parsing its diagnostic message "),
        (b'["a"]', b"", 'netplugin failed but error parsing its diagnostic message "[\\"a\\"]": it is a list'),
    ],
    ids=["silent", "stderr", "text", "partial", "deep", "list"],
)
def test_failure_without_error_is_told(stdout: bytes, stderr: bytes, message: str) -> None:
    error = parse_error(stdout, stderr, exit_status="exit status 1")
    assert error.code == 0
    assert error.message.startswith(message)
    assert len(error.message) < 3000


def test_error_after_a_result_counts() -> None:
    printed = b'{"cniVersion":"1.0.0","ips":[]}\n{"code":8,"msg":"it is the host\'s"}'
    assert parse_error(printed, b"", exit_status="") == ErrorResult(8, "it is the host's")


def test_error_members_are_matched_as_go_does() -> None:
    given = b'{"cniVersion":"1.0.0","CODE":11,"Msg":"later","DETAILS":"soon"}'
    assert parse_error(given, b"", exit_status="") == ErrorResult(11, "later", "soon")


@given(st.binary(max_size=60) | st.text(string.printable + '{}[]":', max_size=60).map(str.encode))
def test_no_output_is_too_strange(stdout: bytes) -> None:
    parse_error(stdout, stdout, exit_status="exit status 1")
    with contextlib.suppress(InvalidNetworkResult):
        encode(parse_result(stdout, version="1.0.0"))
