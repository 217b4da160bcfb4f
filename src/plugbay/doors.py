"""Front doors: packages whose names are imported when they are asked for.

A command that needs one module of a package does not pay for all of them.

May live here: what the front doors share. May not: anything else.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def opens(
    package: str, places: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], Sequence[str]]]:
    """Make the ``__getattr__`` and the ``__dir__`` of ``package``.

    Args:
        places: the public names that each module brings.
    """
    modules = {name: module for module, names in places.items() for name in names}

    def find(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(modules[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return find, lambda: sorted({*vars(sys.modules[package]), *modules})
