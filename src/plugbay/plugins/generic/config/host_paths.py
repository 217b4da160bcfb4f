"""Paths of the host and of a container, as far as a config can be wrong about them. Pure."""

from __future__ import annotations

from plugbay.plugins.generic.config.globs import GlobProblem, parse_glob
from plugbay.plugins.generic.config.problems import short


def host_path_problem(path: str) -> str:
    """A sentence that says why the text is not a path of the host or a pattern of such; empty for one that is."""
    if not path:
        return "is empty; write a path such as /dev/ttyUSB*"
    if not path.startswith("/"):
        return f"{short(path)} is not a path from the root; write it with a / in front"
    if not path.isprintable():
        return f"{short(path)} holds characters that cannot be printed"
    found = parse_glob(path)
    return f"{short(path)}: {found.text}" if isinstance(found, GlobProblem) else ""


def container_path_problem(path: str) -> str:
    """A sentence that says why the text is not a path in a container; empty for one that is."""
    if path and not path.startswith("/"):
        return f"{short(path)} is not a path from the root of the container; write it with a / in front"
    if not path.isprintable():
        return f"{short(path)} holds characters that cannot be printed"
    return ""
