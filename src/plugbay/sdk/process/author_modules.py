"""The modules of an author: those that lie in the directory of a plugin's file, or below it."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from traceback import walk_tb
from types import ModuleType
from typing import Final

from plugbay.errors import PluginLoadError

_NOT_THE_AUTHORS: Final = frozenset({"site-packages", "dist-packages", ".venv", "venv"})


def directory_of(target: str) -> Path:
    """The directory of a serve target's files; a target that names a module must have been loaded.

    For a module in a package it is the directory that holds the outermost package.
    """
    where, colon, _ = target.rpartition(":") if not target.endswith(".py") else (target, "", "")
    if not colon or where.endswith(".py"):
        return Path(where).absolute().parent
    top = sys.modules.get(where.partition(".")[0])
    file = getattr(top, "__file__", None)
    return Path(file).absolute().parent if file else Path.cwd()


def neighbours(directory: Path) -> dict[str, Path]:
    """The modules that have been loaded from ``directory``, by name."""
    found = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not file or name == "__main__" or name.partition(".")[0] == "plugbay":
            continue
        path = Path(file)
        if path.is_relative_to(directory) and _NOT_THE_AUTHORS.isdisjoint(path.relative_to(directory).parts):
            found[name] = path
    return found


def forget(directory: Path) -> dict[str, ModuleType]:
    """Forget the modules of ``directory``, so that they run anew when loaded next; objects made of the old ones go on.

    Returns them, for `remember`.
    """
    forgotten = {name: sys.modules.pop(name) for name in neighbours(directory)}
    importlib.invalidate_caches()
    return forgotten


def remember(directory: Path, modules: dict[str, ModuleType]) -> None:
    """Put ``modules`` of ``directory`` back, in place of modules that have been loaded since."""
    forget(directory)
    sys.modules.update(modules)


def failed_at(error: PluginLoadError, directory: Path) -> tuple[Path, int] | None:
    """The author's file and line that kept a target from being loaded; None if it is not in ``directory``."""
    cause = error.__cause__
    if cause is None:
        return None
    places = [(Path(frame.f_code.co_filename), line) for frame, line in walk_tb(cause.__traceback__)]
    if isinstance(cause, SyntaxError) and cause.filename:
        places.append((Path(cause.filename), cause.lineno or 1))
    ours = [place for place in places if place[0].is_relative_to(directory)]
    return ours[-1] if ours else None
