"""Actions of probes and hooks between v1 and our values, and what an API server checks of them.

Source: Kubernetes 1.36 ``pkg/apis/core/validation/validation.go`` (``validateHandler``),
``pkg/apis/core/v1/defaults.go``.
"""

from __future__ import annotations

import re
from typing import Final, TypedDict

from plugbay.manifest.report import ManifestReport
from plugbay.manifest.resource_checks import invalid
from plugbay.model.actions import (
    ExecAction,
    GrpcAction,
    Hook,
    HttpGetAction,
    HttpScheme,
    PortRef,
    ProbeAction,
    SleepAction,
    TcpSocketAction,
)
from plugbay.model.field_path import FieldPath
from plugbay.model.ports import MAX_PORT

_RANGE: Final = f"must be between 1 and {MAX_PORT}, inclusive"
_REQUIRED: Final = "Required value"
_HEADER_NAME: Final = re.compile(r"[-A-Za-z0-9]+")
_HEADER_RULE: Final = "a valid HTTP header must consist of alphanumeric characters or '-'"
_MAX_PORT_NAME: Final = 15


class V1Header(TypedDict, total=False):
    name: str
    value: str


class V1Exec(TypedDict, total=False):
    command: list[str]


class V1HttpGet(TypedDict, total=False):
    path: str
    port: PortRef
    host: str
    scheme: str
    httpHeaders: list[V1Header]


class V1TcpSocket(TypedDict, total=False):
    port: PortRef
    host: str


class V1Grpc(TypedDict, total=False):
    port: int
    service: str


class V1Sleep(TypedDict, total=False):
    seconds: int


class V1Action(TypedDict, total=False):
    """The handler of a probe or of a hook; one of its fields is set."""

    exec: V1Exec
    httpGet: V1HttpGet
    tcpSocket: V1TcpSocket
    grpc: V1Grpc
    sleep: V1Sleep


_KINDS: Final = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")


def hook_of(v1: V1Action) -> Hook:
    """The action of a hook; what must be there and is not becomes empty."""
    if "sleep" in v1:
        return SleepAction(v1["sleep"].get("seconds", 0))
    return _http_get(v1["httpGet"]) if "httpGet" in v1 else _exec(v1)


def probe_action_of(v1: V1Action) -> ProbeAction:
    """The action of a probe; what must be there and is not becomes empty."""
    if "httpGet" in v1:
        return _http_get(v1["httpGet"])
    if "tcpSocket" in v1:
        return TcpSocketAction(v1["tcpSocket"].get("port", 0), v1["tcpSocket"].get("host", ""))
    if "grpc" in v1:
        return GrpcAction(v1["grpc"].get("port", 0), v1["grpc"].get("service", ""))
    return _exec(v1)


def _exec(v1: V1Action) -> ExecAction:
    return ExecAction(tuple(v1.get("exec", {}).get("command", [])))


def _http_get(v1: V1HttpGet) -> HttpGetAction:
    return HttpGetAction(
        v1.get("port", 0),
        v1.get("path") or "/",
        v1.get("host", ""),
        HttpScheme(v1.get("scheme") or HttpScheme.HTTP.value),
        tuple((each.get("name", ""), each.get("value", "")) for each in v1.get("httpHeaders", [])),
    )


def action_to_v1(action: ProbeAction | Hook) -> dict[str, object]:
    """The v1 handler, with the values that an API server fills in."""
    match action:
        case ExecAction(command):
            return {"exec": {"command": list(command)}}
        case SleepAction(seconds):
            return {"sleep": {"seconds": seconds}}
        case TcpSocketAction(port, host):
            return {"tcpSocket": {**({"host": host} if host else {}), "port": port}}
        case GrpcAction(port, service):
            return {"grpc": {"port": port, "service": service}}
        case HttpGetAction():
            headers = [{"name": name, "value": value} for name, value in action.headers]
            return {
                "httpGet": {
                    **({"host": action.host} if action.host else {}),
                    **({"httpHeaders": headers} if headers else {}),
                    "path": action.path,
                    "port": action.port,
                    "scheme": action.scheme.value,
                }
            }


def check_action(action: V1Action, path: FieldPath, report: ManifestReport, *, grace_s: int) -> None:
    """Report what an API server would refuse in the handler of a probe or of a hook.

    Args:
        grace_s: the pod's grace period, which a sleep may take whole.
    """
    kinds = [kind for kind in _KINDS if kind in action]
    if not kinds and all(report.is_sound((*path, kind)) for kind in _KINDS) and report.is_sound(path):
        report.problem(path, "Required value: must specify a handler type")
    for kind in kinds[1:]:
        report.problem((*path, kind), "Forbidden: may not specify more than 1 handler type")
    if not kinds or report.is_blamed((*path, kinds[0])):
        return
    where = (*path, kinds[0])
    match kinds[0]:
        case "exec":
            if not action["exec"].get("command") and report.is_sound(where):
                report.problem((*where, "command"), _REQUIRED)
        case "httpGet":
            _check_http_get(action["httpGet"], where, report)
        case "tcpSocket":
            _check_port(action["tcpSocket"].get("port"), (*where, "port"), report)
        case "grpc":
            _check_port(action["grpc"].get("port"), (*where, "port"), report)
        case "sleep":
            _check_sleep(action["sleep"], where, report, grace_s=grace_s)


def _check_http_get(action: V1HttpGet, path: FieldPath, report: ManifestReport) -> None:
    _check_port(action.get("port"), (*path, "port"), report)
    for index, header in enumerate(action.get("httpHeaders", [])):
        name = header.get("name", "")
        if not name:
            report.problem((*path, "httpHeaders", index, "name"), _REQUIRED)
        elif not _HEADER_NAME.fullmatch(name):
            report.problem((*path, "httpHeaders", index), invalid(name, _HEADER_RULE))
        elif any(character in header.get("value", "") for character in "\r\n"):
            # Accepted by an API server; a kubelet's probe with it always fails.
            report.problem((*path, "httpHeaders", index, "value"), "may not contain a line break")


def _check_port(port: PortRef | None, path: FieldPath, report: ManifestReport) -> None:
    if port is None:
        report.problem(path, _REQUIRED)
    elif isinstance(port, int):
        if not 1 <= port <= MAX_PORT:
            report.problem(path, invalid(port, _RANGE))
    elif problem := _port_name_problem(port):
        report.problem(path, invalid(port, problem))


def _port_name_problem(name: str) -> str:
    """Source: Kubernetes 1.36 ``apimachinery/pkg/util/validation``, ``IsValidPortName``."""
    if len(name) > _MAX_PORT_NAME:
        return f"must be no more than {_MAX_PORT_NAME} characters"
    if not re.fullmatch(r"[-a-z0-9]+", name):
        return "must contain only alphanumeric characters (a-z, 0-9), and hyphens (-)"
    if not re.search(r"[a-z]", name):
        return "must contain at least one letter (a-z)"
    if "--" in name:
        return "must not contain consecutive hyphens"
    return "must not begin or end with a hyphen" if name.startswith("-") or name.endswith("-") else ""


def _check_sleep(sleep: V1Sleep, path: FieldPath, report: ManifestReport, *, grace_s: int) -> None:
    seconds = sleep.get("seconds", 0)
    if not 0 <= seconds <= grace_s:
        rule = f"must be non-negative and less than terminationGracePeriodSeconds ({grace_s})"
        report.problem(path, invalid(seconds, rule))
