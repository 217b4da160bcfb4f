"""Why the driver cannot be used, and the sentence that tells an operator what to do. Pure."""

from __future__ import annotations

from enum import Enum
from typing import Final

from plugbay.errors import DriverUnusable


class DriverTrouble(Enum):
    """The reason of a `DriverUnusable`."""

    BINDINGS_MISSING = "BindingsMissing"
    LIBRARY_MISSING = "LibraryMissing"
    NOT_LOADED = "DriverNotLoaded"
    NOT_PERMITTED = "NotPermitted"
    VERSION_MISMATCH = "VersionMismatch"
    HUNG = "DriverHung"
    CRASHED = "WorkerCrashed"
    SLOW = "DriverSlow"
    """It has not answered yet, which says nothing about why."""
    FAILED = "DriverFailed"
    """The driver does not start, for a reason that has no name of its own here."""


_BY_CODE: Final = {
    -1: DriverTrouble.BINDINGS_MISSING,
    4: DriverTrouble.NOT_PERMITTED,
    9: DriverTrouble.NOT_LOADED,
    12: DriverTrouble.LIBRARY_MISSING,
    18: DriverTrouble.VERSION_MISMATCH,
}
_SENTENCES: Final = {
    DriverTrouble.BINDINGS_MISSING: (
        "nvidia-ml-py cannot be imported ({problem}); install it, as with pip install 'plugbay[nvidia]'"
    ),
    DriverTrouble.LIBRARY_MISSING: (
        "{library} cannot be loaded ({problem}): the NVIDIA driver is not installed below {root}; install it, or mount"
        " it into the container of the plugin"
    ),
    DriverTrouble.NOT_LOADED: (
        "the NVIDIA driver is not loaded: its library is installed, and its kernel module does not answer; load the"
        " module, as with modprobe nvidia"
    ),
    DriverTrouble.NOT_PERMITTED: (
        "the NVIDIA driver refuses this process: it may not open /dev/nvidiactl; give the container of the plugin the"
        " device nodes /dev/nvidia*, as with privileged: true"
    ),
    DriverTrouble.VERSION_MISMATCH: (
        "the library and the kernel module of the NVIDIA driver are of different versions; load the new module, or"
        " restart the node"
    ),
    DriverTrouble.FAILED: "the NVIDIA driver does not start: {problem} (NVML code {code})",
}


def unusable(code: int, problem: str, *, library: str, root: str) -> DriverUnusable:
    """The error for NVML's code, or -1 when its bindings are missing.

    Args:
        library: as it was opened.
        root: where the driver was looked for.
    """
    trouble = _BY_CODE.get(code, DriverTrouble.FAILED)
    sentence = _SENTENCES[trouble].format(problem=problem, library=library, root=root, code=code)
    return DriverUnusable(trouble.value, sentence, code)


def hung(question: str, timeout_s: float, gpu: int | None = None) -> DriverUnusable:
    """The error for a question without an answer.

    Args:
        gpu: the index of the GPU that it had come to.
    """
    where = "" if gpu is None else f" of GPU {gpu}"
    return DriverUnusable(
        DriverTrouble.HUNG.value,
        f"the NVIDIA driver did not answer within {timeout_s:g} s when asked for {question}{where}; its worker process"
        " is killed and started anew",
        0,
    )


def crashed(how: str, question: str | None) -> DriverUnusable:
    when = f" when asked for {question}" if question else ""
    return DriverUnusable(
        DriverTrouble.CRASHED.value, f"the worker process of the NVIDIA driver {how}{when}; it is started anew", 0
    )
