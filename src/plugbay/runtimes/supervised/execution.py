"""Runs a command in place of this program; part of the wrapper's program."""

from __future__ import annotations

import errno
import os

START_FAILED = 128
"""Exit code of a container whose command could not be run, as with containerd."""


def execute(argv: list[str], env: dict[str, str]) -> None:
    """Run the first match on the container's PATH; one that may not be executed counts only without another."""
    if "/" in argv[0]:
        os.execve(argv[0], argv, env)
    failure: OSError = FileNotFoundError(errno.ENOENT, argv[0])
    for directory in env.get("PATH", "").split(":"):
        try:
            os.execve(f"{directory or '.'}/{argv[0]}", argv, env)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except PermissionError as error:
            failure = error
    raise failure
