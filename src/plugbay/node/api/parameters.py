"""The parameters that a request may have. Others are refused: a client would take what is ignored for done.

Source: Kubernetes 1.36 ``apimachinery/pkg/apis/meta/v1/types.go`` (ListOptions, CreateOptions, UpdateOptions,
DeleteOptions), ``api/core/v1/types.go`` (PodLogOptions, PodExecOptions, PodAttachOptions, PodPortForwardOptions).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final, TypeAlias

from plugbay.ops.routing import TRUE_WORDS, HttpError, Request

Rule: TypeAlias = Callable[[str], str]
"""Says the problem with a value; empty when there is none."""
Parameters: TypeAlias = Mapping[str, Rule]

_FALSE: Final = ("false", "False", "0")
_LISTS: Final = frozenset({"command", "ports"})
"""Parameters that may have several values."""
_MAX_DIGITS: Final = 18


def is_set(request: Request, name: str) -> bool:
    """Whether a flag is given and true; it has been checked."""
    return request.query.get(name, "false") in TRUE_WORDS


def whole_number(request: Request, name: str) -> int | None:
    """A number that has been checked; None when it is not given."""
    text = request.query.get(name, "")
    return int(text) if text else None


def is_rehearsal(request: Request) -> bool:
    """Whether nothing is to change: all is checked, and what would come of it is answered."""
    return request.query.get("dryRun") == "All"


def check_parameters(request: Request, known: Parameters) -> None:
    """
    Raises:
        HttpError: 400, a parameter is unknown, or its value is one that we do not honour.
    """
    for name, value in request.query.items():
        if (rule := known.get(name)) is None:
            others = f"; supported are {', '.join(sorted(known))}" if known else ""
            raise HttpError(400, "BadRequest", f"the parameter {name!r} is not supported by this request{others}")
        if name not in _LISTS and len(set(request.values(name))) > 1:
            raise HttpError(
                400, "BadRequest", f"the parameter {name!r} is given more than once, and not with one value"
            )
        if problem := rule(value):
            raise HttpError(400, "BadRequest", f"{name}={value[:80]!r}: {problem}")


def _any(value: str) -> str:
    return ""


def _flag(value: str) -> str:
    return "" if value in TRUE_WORDS or value in _FALSE else "it must be true or false"


def _number(value: str) -> str:
    is_number = not value or (value.isascii() and value.isdigit() and len(value) <= _MAX_DIGITS)
    return "" if is_number else "it must be a whole number"


def _seconds(value: str) -> str:
    """A number that a date can be moved by."""
    return _number(value) or ("it is too large" if len(value) > 9 else "")


def _time(value: str) -> str:
    try:
        datetime.fromisoformat(value or "1970-01-01T00:00:00Z")
    except ValueError:
        return "it must be a time as RFC 3339 writes it, such as 2006-01-02T15:04:05Z"
    return ""


def _only(*values: str, why: str) -> Rule:
    return lambda value: "" if value in values else f"it is not supported: {why}"


_READ: Final[Parameters] = {"pretty": _any, "timeout": _any}
"""The client ends its requests after the timeout itself."""
_FORM: Final[Parameters] = {
    **_READ,
    "includeObject": _only("", "None", "Metadata", "Object", why="it must be None, Metadata or Object"),
}

NONE: Final[Parameters] = {}
HEALTH: Final[Parameters] = {"verbose": _any}
DISCOVERY: Final[Parameters] = {**_READ, "hash": _any}
GET: Final[Parameters] = {**_FORM, "resourceVersion": _number}
_REHEARSAL: Final = _only("All", "", why="it must be All")
WRITE: Final[Parameters] = {
    **_READ,
    "dryRun": _REHEARSAL,
    "fieldManager": _any,
    "fieldValidation": _only("Strict", "Warn", "Ignore", "", why="it must be Strict, Warn or Ignore"),
}
"""Unknown fields of pods are refused by name, whatever ``fieldValidation`` is; stored kinds may leave them out."""
DELETE: Final[Parameters] = {
    **_READ,
    "dryRun": _REHEARSAL,
    "gracePeriodSeconds": _seconds,
    "orphanDependents": _flag,
    "propagationPolicy": _only(
        "Background", "Foreground", "Orphan", "", why="it must be Background, Foreground or Orphan"
    ),
}
PATCH: Final[Parameters] = {**WRITE, "force": _flag}
STORED_PATCH: Final[Parameters] = {**WRITE, "force": _flag}
LIST: Final[Parameters] = {
    **_FORM,
    "allowWatchBookmarks": _flag,
    "continue": _any,
    "fieldSelector": _any,
    "labelSelector": _any,
    "limit": _number,
    "resourceVersion": _number,
    "resourceVersionMatch": _only("NotOlderThan", "Exact", "", why="it must be NotOlderThan or Exact"),
    "sendInitialEvents": _flag,
    "timeoutSeconds": _seconds,
    "watch": _flag,
}
_NO_PAGES: Final = _only("0", "", why="all objects that are selected are deleted")
DELETE_COLLECTION: Final[Parameters] = {
    **LIST,
    **DELETE,
    "continue": _NO_PAGES,
    "limit": _NO_PAGES,
    "watch": _only("false", "", why="this request is not a list"),
}
LOG: Final[Parameters] = {
    **_READ,
    "container": _any,
    "follow": _flag,
    "insecureSkipTLSVerifyBackend": _flag,
    "limitBytes": _number,
    "previous": _flag,
    "sinceSeconds": _seconds,
    "sinceTime": _time,
    "stream": _only("All", "Stdout", "Stderr", "", why="it must be All, Stdout or Stderr"),
    "tailLines": _seconds,
    "timestamps": _flag,
}
ATTACH: Final[Parameters] = {
    **_READ,
    "container": _any,
    "stderr": _flag,
    "stdin": _flag,
    "stdout": _flag,
    "tty": _flag,
}
EXEC: Final[Parameters] = {**ATTACH, "command": _any}
PORT_FORWARD: Final[Parameters] = {**_READ, "_preload_content": _any, "name": _any, "namespace": _any, "ports": _any}
"""kr8s says again what the path says, and how a Python client reads the answer."""
