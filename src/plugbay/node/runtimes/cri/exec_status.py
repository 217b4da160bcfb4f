"""How an engine says that a command has ended: a Kubernetes ``Status`` as JSON; pure.

Source: Kubernetes 1.36 ``kubelet/pkg/cri/streaming/remotecommand/exec.go``.
"""

from __future__ import annotations

import json
from typing import Final

_NON_ZERO: Final = "NonZeroExitCode"


def exit_code_of(status: bytes) -> int:
    """The exit code of a command that ran.

    Raises:
        ValueError: it did not run; the text says why.
    """
    try:
        told = json.loads(status)
    except ValueError:
        told = None
    if not isinstance(told, dict):
        raise ValueError("the engine does not say how the command ended")
    if told.get("status") == "Success":
        return 0
    if told.get("reason") == _NON_ZERO and (code := _cause(told)).isdecimal():
        return int(code)
    raise ValueError(str(told.get("message") or "the engine does not say why"))


def _cause(status: dict[str, object]) -> str:
    details = status.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    for cause in causes if isinstance(causes, list) else []:
        if isinstance(cause, dict) and cause.get("reason") == "ExitCode":
            return str(cause.get("message"))
    return ""
