"""What ends a build, and running the programs that it needs."""

from __future__ import annotations

import subprocess
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path


class ImageFailed(Exception):
    """No image was made; the text says why, in one sentence."""


def run(
    argv: Sequence[str | Path],
    doing: str,
    *,
    cwd: Path | None = None,
    environ: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    fine: Collection[int] = (0,),
) -> bytes:
    """The output of a program, which ends with an exit code that is ``fine``.

    Raises:
        ImageFailed: there is no such program, or it failed; the text says that we were ``doing`` this, and the line of
            the program that says most.
    """
    try:
        ended = subprocess.run(argv, cwd=cwd, env=environ, input=stdin, capture_output=True, check=False)
    except FileNotFoundError:
        raise ImageFailed(f"{doing} takes the program {argv[0]}, which is not installed") from None
    if ended.returncode not in fine:
        raise ImageFailed(f"{doing} failed: {_telling_line(ended.stderr.decode(errors='replace'), ended.returncode)}")
    return ended.stdout


def _telling_line(said: str, code: int) -> str:
    """The first error that the program names, else the last line that it printed."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    for line in lines:
        if line.startswith(("E: ", "ERROR: ", "dpkg-deb: error: ")):
            return line.partition(": ")[2]
    return lines[-1] if lines else f"exit code {code}"
