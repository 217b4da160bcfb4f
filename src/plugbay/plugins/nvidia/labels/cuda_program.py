"""The program that asks CUDA for its devices, and ends: a driver that hangs or crashes takes nothing else with it.

Started by its path, ``python -I -S cuda_program.py LIFELINE LIBRARY SEARCH_PATH``. It sends one frame:
``("found", cuda_version, [(name, memory_bytes, major, minor), …])`` or ``("failed", problem)``.
"""

from __future__ import annotations

import ctypes
import sys

NAME_BYTES = 96
MAJOR, MINOR = 75, 76
"""CUDA's attributes of a device for the two parts of its compute capability."""


class _CudaFailed(Exception):
    pass


def main() -> None:
    lifeline, library, search_path = sys.argv[1:]
    sys.path.append(search_path)
    from plugbay.ops.worker_main import die_first, hold, send, take_over_pipes

    hold(int(lifeline))
    die_first()
    _, answers = take_over_pipes()
    try:
        outcome: tuple[object, ...] = ("found", *_ask(ctypes.CDLL(library)))
    except (OSError, AttributeError, _CudaFailed) as error:
        outcome = ("failed", str(error))
    send(answers, outcome)


def _ask(cuda: ctypes.CDLL) -> tuple[int, list[tuple[str, int, int, int]]]:
    version, count = ctypes.c_int(), ctypes.c_int()
    _call(cuda, "cuInit", 0)
    _call(cuda, "cuDriverGetVersion", ctypes.byref(version))
    _call(cuda, "cuDeviceGetCount", ctypes.byref(count))
    return version.value, [_device(cuda, index) for index in range(count.value)]


def _device(cuda: ctypes.CDLL, index: int) -> tuple[str, int, int, int]:
    device, memory = ctypes.c_int(), ctypes.c_size_t()
    name = ctypes.create_string_buffer(NAME_BYTES)
    _call(cuda, "cuDeviceGet", ctypes.byref(device), index)
    _call(cuda, "cuDeviceGetName", name, NAME_BYTES, device)
    _call(cuda, "cuDeviceTotalMem_v2", ctypes.byref(memory), device)
    parts = []
    for attribute in (MAJOR, MINOR):
        value = ctypes.c_int()
        _call(cuda, "cuDeviceGetAttribute", ctypes.byref(value), attribute, device)
        parts.append(value.value)
    return name.value.decode(errors="replace"), memory.value, parts[0], parts[1]


def _call(cuda: ctypes.CDLL, function: str, *arguments: object) -> None:
    code = getattr(cuda, function)(*arguments)
    if code:
        raise _CudaFailed(f"{function} failed with CUDA's code {code}")


if __name__ == "__main__":
    main()
