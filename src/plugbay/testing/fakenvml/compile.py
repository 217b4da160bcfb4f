"""The fake ``libnvidia-ml.so.1``, compiled from its source in this package."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

from plugbay.errors import CompilerUnusable

SOURCE: Final = Path(__file__).with_name("library")
NAME: Final = "libnvidia-ml.so.1"
_COMPILERS: Final = ("cc", "gcc", "clang")
_COMPILE_S: Final = 120.0
_FLAGS: Final = (
    *("-std=c11", "-D_GNU_SOURCE", "-O1", "-shared", "-fPIC", "-fvisibility=hidden", "-pthread"),
    f"-Wl,-soname,{NAME}",
    "-Wl,-z,nodelete",  # its thread lives on when a client closes the library
)


def find_compiler() -> str | None:
    """The path of a C compiler; None without one."""
    return next((path for name in _COMPILERS if (path := shutil.which(name))), None)


def compile_library(directory: Path) -> Path:
    """Compile the library as ``libnvidia-ml.so.1`` in ``directory``; returns its path. It takes about a second.

    Raises:
        CompilerUnusable: there is no C compiler, or it fails, as without the headers of the C library.
    """
    compiler = find_compiler()
    if compiler is None:
        raise CompilerUnusable(f"none of {', '.join(_COMPILERS)} is installed")
    target = directory / NAME
    sources = sorted(map(str, SOURCE.glob("*.c")))
    try:
        done = subprocess.run(
            [compiler, *_FLAGS, "-o", str(target), *sources],
            capture_output=True,
            text=True,
            timeout=_COMPILE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CompilerUnusable(f"{compiler}: {error}") from error
    if done.returncode != 0:
        raise CompilerUnusable(f"{compiler} ended with status {done.returncode}: {done.stderr.strip()[-2000:]}")
    return target
