"""The program of the worker process: it loads the driver's library, answers questions and pushes events.

Started by its path, ``python -I -S program.py LIFELINE PATH...`` with the search path on which plugbay and nvidia-ml-py
are. It reads its modules at once. The first request is ``(library, sys_root)``: the library to open and where sysfs is;
the others are ``(number, question, arguments)``, all pickled. Answers are ``("answer", number, outcome)`` with an
outcome of

- ``("returned", value)``;
- ``("failed", code, problem)``: the driver answered with NVML's return code, or we failed, with code 0;
- ``("unusable", code, problem)``: the library or the driver cannot be used at all;

and between them come events, see `watch`, and ``("started", load, is_again)`` whenever the library was started: which
load of the driver that is, see `load_of_driver`, and whether this process had started it before; and, in a question
that goes from GPU to GPU, ``("reading", index, count)`` before each, see `gpus_in_turn`.
"""

from __future__ import annotations

import os
import sys
import threading
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from plugbay.plugins.nvidia.nvml.questions import DriverQuestions
    from plugbay.plugins.nvidia.nvml.watch import Watch

LIBRARY_NOT_FOUND: Final = 12
UNINITIALIZED: Final = 1
NO_BINDINGS: Final = -1
"""In place of NVML's code: nvidia-ml-py is not installed."""


class Driver:
    """The library, loaded and started when the first question comes.

    Args:
        library: its path, or its name for the dynamic linker.
        sys_root: where sysfs is.
        push: sends a frame to the plugin.
    """

    def __init__(self, library: str, sys_root: str, push: Any) -> None:
        self._library = library
        self._sys_root = sys_root
        self._push = push
        self._questions: DriverQuestions | None = None
        self._is_started = False
        self._was_started = False
        self._watch: Watch | None = None

    def answer(self, question: str, arguments: tuple[Any, ...]) -> tuple[object, ...]:
        try:
            pynvml = _bindings()
        except ImportError as error:
            return "unusable", NO_BINDINGS, str(error)
        try:
            self._start(pynvml)
        except pynvml.NVMLError as error:
            return "unusable", error.value, str(error)
        except OSError as error:  # the dynamic linker's
            return "unusable", LIBRARY_NOT_FOUND, str(error)
        try:
            return "returned", self._ask(question, arguments)
        except pynvml.NVMLError as error:
            if error.value != UNINITIALIZED:
                return "failed", error.value, str(error)
        except Exception as error:  # ours: the watch goes on
            return "failed", 0, f"{type(error).__name__}: {error}"
        self._is_started = False  # the driver was loaded anew; perhaps it takes us again
        try:
            pynvml.nvmlShutdown()
        except pynvml.NVMLError:
            pass
        try:
            self._start(pynvml)
            return "returned", self._ask(question, arguments)
        except pynvml.NVMLError as error:
            return "unusable", error.value, str(error)

    def _start(self, pynvml: Any) -> None:
        if self._is_started:
            return
        if pynvml.nvmlLib is None:
            pynvml.nvmlLib = pynvml.CDLL(self._library)
        _start_library(pynvml)
        from plugbay.plugins.nvidia.nvml.questions import DriverQuestions

        self._questions = DriverQuestions(self._sys_root, self._push)
        self._is_started = True
        # Not before: while the library is started, the driver cannot be unloaded.
        self._push(("started", load_of_driver(self._sys_root), self._was_started))
        self._was_started = True

    def _ask(self, question: str, arguments: tuple[Any, ...]) -> object:
        if question == "watch":
            return self._watch_anew(*arguments)
        if self._watch is not None and self._watch.is_stuck():
            self._watch.stop()
            self._push(("unwatched", 0, "the driver does not return from waiting for events"))
        if question == "events":
            return None
        return getattr(self._questions, question)(*arguments)

    def _watch_anew(self, wait_ms: int, left_out: tuple[tuple[int, int], ...]) -> tuple[dict[str, str], list[str]]:
        from plugbay.plugins.nvidia.nvml.watch import Watch

        fresh = Watch(wait_ms, self._push, left_out)
        if self._watch is not None:
            self._watch.stop()  # only now: an event of the moment between comes twice, and none is lost
        self._watch = fresh
        return fresh.unwatched, fresh.too_old


def _start_library(pynvml: Any) -> None:
    """As `pynvml.nvmlInit`, which wants a function that a library for NVIDIA's plugin need not have."""
    library = pynvml.nvmlLib
    if hasattr(library, "nvmlInitWithFlags"):
        pynvml.nvmlInit()
        return
    start = getattr(library, "nvmlInit_v2", None) or getattr(library, "nvmlInit", None)
    if code := pynvml.NVML_ERROR_FUNCTION_NOT_FOUND if start is None else start():
        raise pynvml.NVMLError(code)


def load_of_driver(sys_root: str) -> int | None:
    """A number that is another one whenever the driver was loaded anew; None where the kernel shows no module of it.

    It is the inode of the module's directory: sysfs counts them upwards and gives none twice, not even for the same
    name. Its times do not tell, which are those of the first look at it, nor do inodes of ``/proc``, which are used
    again.
    """
    try:
        return os.stat(os.path.join(sys_root, "module/nvidia")).st_ino
    except OSError:  # as in WSL
        return None


def _bindings() -> Any:
    """The module of nvidia-ml-py.

    It imports `ctypes.util` to find the library, which it is told here. That would bring `tempfile`, `shutil` and
    `subprocess`: 2 MB and a third of the worker's start.
    """
    sys.modules.setdefault("ctypes.util", _NoSearch("ctypes.util"))
    import pynvml

    return pynvml


def _read_modules() -> None:
    """Read what questions need, while the plugin reads its own modules."""
    try:
        _bindings()
    except ImportError:  # told when the first question comes
        return
    import plugbay.plugins.nvidia.nvml.questions
    import plugbay.plugins.nvidia.nvml.watch  # noqa: F401


class _NoSearch(ModuleType):
    """Takes the place of `ctypes.util`."""

    @staticmethod
    def find_library(name: str) -> None:
        """Find nothing."""


def main() -> None:
    lifeline, *search_path = sys.argv[1:]
    sys.path += search_path
    from plugbay.ops.worker_main import die_first, hold, receive, send, take_over_pipes

    hold(int(lifeline))
    die_first()
    requests, answers = take_over_pipes()
    _read_modules()
    if (opening := receive(requests)) is None:
        return
    turns = threading.Lock()

    def push(frame: tuple[object, ...]) -> None:
        with turns:
            send(answers, frame)

    library, sys_root = opening
    driver = Driver(library, sys_root, push)
    while (request := receive(requests)) is not None:
        number, question, arguments = request
        push(("answer", number, driver.answer(question, arguments)))


if __name__ == "__main__":
    main()
