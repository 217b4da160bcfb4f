"""The Status that ends a command in a container: pure.

Source: Kubernetes 1.36 ``kubelet/pkg/cri/streaming/remotecommand/exec.go``, ``httpstream.go`` (v4WriteStatusFunc).
"""

from __future__ import annotations

from plugbay.documents import Json


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
