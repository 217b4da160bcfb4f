"""The output of a command in a container, and the Status that ends it: pure.

Source: Kubernetes 1.36 ``kubelet/pkg/cri/streaming/remotecommand/exec.go``, ``httpstream.go`` (v4WriteStatusFunc).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TypeAlias

from plugbay.documents import Json
from plugbay.runtimes.port import ExecExit, ExecOutput

SessionOutput: TypeAlias = AsyncGenerator[ExecOutput | ExecExit, None]
"""All that is printed, and the end."""


def exit_status(code: int) -> Json:
    """The end of a command that has run."""
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def failed_status(problem: str) -> Json:
    """The end of a command that could not be run."""
    return {"metadata": {}, "status": "Failure", "message": problem, "reason": "InternalError", "code": 500}
