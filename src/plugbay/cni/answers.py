"""Parse the output of plugins: results, errors and versions. Pure.

Source: libcni 1.3 ``pkg/invoke/exec.go``, ``pkg/version/plugin.go``.
"""

from __future__ import annotations

import json
from typing import Final

from plugbay.cni import result
from plugbay.cni.result import Result
from plugbay.documents import JsonObject, JsonValue, go_json
from plugbay.documents.go_json import kind, member
from plugbay.errors import InvalidNetworkResult, quote
from plugbay.values import dataclass

_SHOWN: Final = 1000
"""The most characters of an unusable answer that an error repeats."""
NO_VERSION: Final = "unknown CNI_COMMAND: VERSION"
"""The answer of plugins of 0.1.0 when they are asked for their versions."""


@dataclass(frozen=True, slots=True)
class ErrorResult:
    """Attributes: ``code`` is 0 when the plugin told none."""

    code: int
    message: str
    details: str = ""


@dataclass(frozen=True, slots=True)
class PluginVersions:
    """Attributes: ``newest`` is what the plugin's library speaks, ``supported`` what the plugin takes."""

    newest: str
    supported: tuple[str, ...]


def parse_result(stdout: bytes, *, version: str) -> Result:
    """The result of a plugin that succeeded; ``version`` is meant when it tells none.

    Raises:
        InvalidNetworkResult: it is not such an answer.
    """
    return result.parse(_json(stdout), version=version)


def parse_versions(stdout: bytes) -> PluginVersions:
    """The answer to VERSION.

    Raises:
        InvalidNetworkResult: it is not such an answer.
    """
    answer = _json(stdout)
    if not isinstance(answer, dict):
        raise InvalidNetworkResult(f"the answer is {kind(answer)}, not an object")
    newest, supported = member(answer, "cniVersion"), member(answer, "supportedVersions")
    if not isinstance(newest, str) or not newest:
        raise InvalidNetworkResult("decoding version info: missing field cniVersion")
    if supported is None or supported == []:
        if newest != "0.2.0":
            raise InvalidNetworkResult("decoding version info: missing field supportedVersions")
        return PluginVersions(newest, ("0.1.0", "0.2.0"))
    if not isinstance(supported, list) or not all(isinstance(each, str) for each in supported):
        raise InvalidNetworkResult("supportedVersions is not a list of texts")
    return PluginVersions(newest, tuple(str(each) for each in supported))


def parse_error(stdout: bytes, stderr: bytes, *, exit_status: str) -> ErrorResult:
    """The reason why a plugin failed, as far as its output tells."""
    if not stdout.strip():
        # A Go program that crashes says why before it lists its stacks.
        said = _shown(stderr.partition(b"\n\ngoroutine ")[0])
        if not said:
            return ErrorResult(0, f"netplugin failed with no error message: {exit_status}")
        return ErrorResult(0, f"netplugin failed: {quote(said)}")
    try:
        found = _last_object(stdout)
    except ValueError as error:
        return ErrorResult(
            0, f"netplugin failed but error parsing its diagnostic message {quote(_shown(stdout))}: {error}"
        )
    code, message, details = (member(found, name) for name in ("code", "msg", "details"))
    return ErrorResult(
        code if isinstance(code, int) and not isinstance(code, bool) else 0,
        message if isinstance(message, str) else "",
        details if isinstance(details, str) else "",
    )


def _last_object(stdout: bytes) -> JsonObject:
    """The last of the documents: a plugin that fails at its very end has printed its result before its error.

    Raises:
        ValueError: something in between is not JSON, or the last document is not an object.
    """
    text = stdout.decode(errors="replace").strip()
    decoder = json.JSONDecoder()
    found: JsonValue = None
    while text:
        try:
            found, end = decoder.raw_decode(text)
        except RecursionError:
            raise ValueError("values are nested too deep") from None
        text = text[end:].lstrip()
    if not isinstance(found, dict):
        raise ValueError(f"it is {kind(found)}, not an object")
    return found


def _json(stdout: bytes) -> JsonValue:
    try:
        return go_json.parse_plain(stdout)
    except go_json.NotJson as error:
        raise InvalidNetworkResult(f"{error}: {quote(_shown(stdout))}" if stdout.strip() else str(error)) from None


def _shown(output: bytes) -> str:
    text = output.decode(errors="replace").strip()
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
