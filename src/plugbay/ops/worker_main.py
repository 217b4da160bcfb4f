"""The program of a worker process: it loads one function and calls it, time and again, until its pipe closes.

Started by its path, ``python -I -S worker_main.py LIFELINE``, so that it costs what Python costs and no more: no
`site`, no package of ours unless the function needs it. Requests and answers are pickles, each behind its length in
four bytes. What the function prints goes to standard error. ``LIFELINE`` is the number of a descriptor, see `hold`.
"""

from __future__ import annotations

import _pickle as pickle  # its Python twin, which is not used, would cost a fifth of a megabyte
import fcntl
import importlib
import os
import struct
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import ModuleType
from typing import Any, BinaryIO

LENGTH = struct.Struct(">I")
_SIGKILL = 9


def main() -> None:
    hold(int(sys.argv[1]))
    die_first()
    requests, answers = take_over_pipes()
    load = receive(requests)
    if load is None:
        return
    send(answers, _attempt(_load, load))
    while (arguments := receive(requests)) is not None:
        send(answers, _attempt(_function, arguments))


def _attempt(act: Callable[..., object], arguments: tuple[Any, ...]) -> tuple[str, object]:
    """Call ``act`` and describe the outcome: ``("returned", value)`` or ``("raised", text)``."""
    try:
        return "returned", act(*arguments)
    except BaseException as error:  # sys.exit() too: the function may do anything
        return "raised", f"{type(error).__name__}: {error}{_place(error)}"


def _place(error: BaseException) -> str:
    """The line of the function's file that led to the error, such as `` (cards.py:12)``."""
    trace, file, place = error.__traceback__, "", ""
    while trace is not None:
        here = trace.tb_frame.f_code.co_filename
        if not file and here != __file__ and not here.startswith("<"):
            file = here
        if here == file:
            place = f" ({os.path.basename(file)}:{trace.tb_lineno})"
        trace = trace.tb_next
    return place


def _function(*_: object) -> object:
    raise AssertionError("nothing is loaded")


def _load(search_path: list[str], module: tuple[str, str | None, str | None], pickled: bytes) -> None:
    """Unpickle the function to call, and keep it as `_function`.

    Args:
        module: the name that the pickle knows the function's module by, the name it can be imported by if that is
            another one, and its file for when it has none.
    """
    global _function
    sys.path[:] = search_path
    name, import_name, file = module
    if import_name is None or not _import(import_name, known_as=name):
        assert file is not None
        _load_file("__plugbay_main__" if name == "__main__" else name, file, known_as=name)
    _function = pickle.loads(pickled)


def _import(name: str, *, known_as: str) -> bool:
    """Import a module, if there is one of that name."""
    try:
        sys.modules[known_as] = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            return False
        raise
    return True


def _load_file(name: str, file: str, *, known_as: str) -> None:
    # Not by importlib.util, which would cost a quarter of a megabyte.
    loader = SourceFileLoader(name, file)
    module = ModuleType(name)
    module.__file__, module.__loader__, module.__spec__ = file, loader, ModuleSpec(name, loader, origin=file)
    # This very module stays alive by the functions that run.
    sys.modules[name] = sys.modules[known_as] = module
    loader.exec_module(module)


def take_over_pipes() -> tuple[BinaryIO, BinaryIO]:
    """The pipes of requests and answers, away from where the function may read and print."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    return requests, answers


def receive(requests: BinaryIO) -> Any:
    """The next request; None when there will be none."""
    head = requests.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    return pickle.loads(requests.read(*LENGTH.unpack(head)))


def send(answers: BinaryIO, answer: tuple[object, ...]) -> None:
    """Write one answer, which is a text when it cannot be pickled."""
    try:
        encoded = pickle.dumps(answer)
    except Exception as error:
        encoded = pickle.dumps(("raised", f"{type(error).__name__}: {error}"))
    answers.write(LENGTH.pack(len(encoded)) + encoded)
    answers.flush()


def die_first() -> None:
    """Let the kernel kill this worker first when memory runs out: a check that leaks must not end the plugin."""
    try:
        with open("/proc/self/oom_score_adj", "wb") as score:
            score.write(b"1000")
    except OSError:  # a /proc that is not writable: then the kernel kills the largest process
        pass


def hold(lifeline: int) -> None:
    """Make the kernel kill us when our parent ends: a worker that hangs would not see its pipe close.

    ``lifeline`` is the reading end of a pipe to which no process writes. `prctl` would do as well, were it not for
    `ctypes`, which costs a third of a megabyte.
    """
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline, fcntl.F_SETSIG, _SIGKILL)
    fcntl.fcntl(lifeline, fcntl.F_SETFL, os.O_NONBLOCK | os.O_ASYNC)
    try:
        os.read(lifeline, 1)
    except BlockingIOError:
        return
    os._exit(0)  # our parent ended before the kernel was asked


if __name__ == "__main__":
    main()
