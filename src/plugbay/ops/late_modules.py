"""Modules that others import when they start and few processes use: their code runs when they are first used.

asyncio imports `ssl`, which brings OpenSSL: 4.5 MB of each process, 2 MB of them in no other, and 7 ms of its start.
None of our processes speaks TLS, but what a plugin's author imports may. So ``import ssl`` gives the module itself,
without its contents; the first look at an attribute, in any thread, fills it, and from then on nothing tells it from
one that was filled at once. A library or a Python that looks earlier has it earlier; nothing else changes.

`importlib.util.LazyLoader` cannot do that. It fills a module when it is imported a second time, and asyncio imports
`ssl` four times; and before Python 3.13 it shows other threads a module that is half full.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from importlib.abc import Loader

_LATE: Final = frozenset(
    {
        "ssl",
        "asyncio.sslproto",  # looks at `ssl` when it is filled
        "google.protobuf.internal.python_message",  # for a protobuf without its C library
    }
)
_NEEDS: Final = {"ssl": "_ssl"}
"""The module without which another one cannot be imported: a Python without TLS says so at ``import ssl``."""


def fill_late() -> None:
    """Fill the modules that are named here when they are first used; those that are imported already stay as they are.

    For entry points, before they import asyncio. A second call changes nothing.
    """
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder:
    """Finds what Python would find, with another loader."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in _LATE or name in sys.modules:  # there already: it is to be reloaded
            return None
        spec = PathFinder.find_spec(name, path)
        if spec is None or spec.loader is None or not _is_there(_NEEDS.get(name)):
            return None
        spec.loader = cast("Loader", _LateLoader(spec.loader))  # importlib.abc itself costs what is saved here
        return spec


def _is_there(name: str | None) -> bool:
    return name is None or name in sys.builtin_module_names or PathFinder.find_spec(name) is not None


class _Filling:
    """The state of a module that is not filled yet."""

    def __init__(self) -> None:
        # Imported here: most short commands import none of the modules, and no threading either.
        from threading import RLock

        self.lock = RLock()
        self.has_begun = False


class _LateLoader:
    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Leave the module empty; whatever asks for its loader gets the usual one."""
        spec = module.__spec__
        assert spec is not None
        spec.loader = module.__loader__ = self._loader
        spec.loader_state = _Filling()
        module.__class__ = _Late


class _Late(ModuleType):
    """A module that is not filled yet; it is a plain module afterwards.

    What the import system sets, such as ``__spec__`` and ``__file__``, is there without filling it.
    """

    def __getattr__(self, name: str) -> Any:
        _fill(self)
        return ModuleType.__getattribute__(self, name)

    def __setattr__(self, name: str, value: object) -> None:
        _fill(self)
        ModuleType.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        _fill(self)
        ModuleType.__delattr__(self, name)

    def __dir__(self) -> Iterable[str]:
        _fill(self)
        return ModuleType.__dir__(self)


def _fill(module: _Late) -> None:
    """Run the module's code, unless it runs already in this thread; other threads wait until it has.

    When it fails, the next look tries again, as the next import would.
    """
    spec = module.__spec__
    assert spec is not None
    assert spec.loader is not None
    filling: _Filling = spec.loader_state
    with filling.lock:
        if type(module) is not _Late or filling.has_begun:
            return
        filling.has_begun = True
        try:
            spec.loader.exec_module(module)
        finally:
            filling.has_begun = False
        ModuleType.__setattr__(module, "__class__", ModuleType)
