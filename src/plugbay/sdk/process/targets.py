"""Finds the plugins that a serve target names."""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Callable, Mapping
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from traceback import walk_tb
from types import ModuleType
from typing import TypeVar

from plugbay.errors import PluginLoadError
from plugbay.sdk.author.mistakes import check_attributes
from plugbay.sdk.author.near_misses import hidden_bases
from plugbay.sdk.author.plugin import DevicePlugin, resource_of
from plugbay.sdk.author.problems import said_by
from plugbay.sdk.author.resources import PluginSource

logger = logging.getLogger(__name__)

_Loaded = TypeVar("_Loaded")


def load_plugins(target: str, settings: Mapping[str, object] | None = None) -> list[DevicePlugin | PluginSource]:
    """The plugins of ``FILE.py``, which are all it defines, or the one of ``FILE.py:object`` or ``module:object``.

    Loading runs the file, once for each process: a file that has changed since is not read again.

    Args:
        settings: arguments for the class that the target names; without them classes are called without arguments.

    Raises:
        PluginLoadError: no such file or module, it fails, or there is no plugin in it.
    """
    if target.endswith(".py"):
        if settings is not None:
            raise PluginLoadError(target, f"settings are for one class of it; name that as {target}:CLASS")
        return _plugins_of(target, load_file(target, target))
    where, colon, name = target.rpartition(":")
    if not colon or not where or not name:
        raise PluginLoadError(target, "a target is FILE.py, FILE.py:object or module:object")
    if where.endswith(".py"):
        module = load_file(target, where)
    else:
        module = _run(target, lambda: importlib.import_module(where))
    if not hasattr(module, name):
        raise PluginLoadError(target, f"{where} has no {name!r}")
    return [_instance(target, getattr(module, name), settings)]


def beside(target: str, directory: Path) -> str:
    """Return ``target`` with its file looked for in ``directory`` unless it has a path of its own from the root."""
    file, colon, name = (target, "", "") if target.endswith(".py") else target.rpartition(":")
    return f"{directory / file}{colon}{name}" if file.endswith(".py") else target


def load_file(target: str, file: str) -> ModuleType:
    """The module of a file, which runs unless it has before.

    Raises:
        PluginLoadError: no such file, or it fails.
    """
    path = Path(file).absolute()
    if not path.is_file():
        raise PluginLoadError(target, "no such file")
    name = _module_name(path)
    if name in sys.modules:
        return sys.modules[name]
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickles look their module up
    loader = spec.loader
    if (directory := str(path.parent)) not in sys.path:
        sys.path.insert(0, directory)  # as when Python runs the file: it may import its neighbours
    try:
        _run(target, lambda: loader.exec_module(module), file=path)
    except PluginLoadError:
        del sys.modules[name]  # it may be mended, and loaded again
        raise
    return module


def _module_name(path: Path) -> str:
    """A name that is this file's alone, since pickles know classes by it; with a prefix, for a file named random.py."""
    name = f"plugbay_target_{path.stem}"
    if name in sys.modules and sys.modules[name].__file__ != str(path):
        from hashlib import sha256  # brings OpenSSL, and few processes have two files of one name

        return f"{name}_{sha256(bytes(path)).hexdigest()[:8]}"
    return name


def _run(target: str, load: Callable[[], _Loaded], *, file: Path | None = None) -> _Loaded:
    try:
        return load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # it is an author's code, which may leave or skip itself as a test
        raise PluginLoadError(target, f"{said_by(error)}{_where(error, file)}") from error


def _where(error: BaseException, file: Path | None) -> str:
    """The line of ``file`` that led to the error, in the words that Python uses for a SyntaxError."""
    lines = [number for frame, number in walk_tb(error.__traceback__) if frame.f_code.co_filename == str(file)]
    return f" ({file.name}, line {lines[-1]})" if file and lines else ""


def _plugins_of(target: str, module: ModuleType) -> list[DevicePlugin | PluginSource]:
    """Plugins and sources made in the module, and classes defined in it that are used for nothing else there.

    A class is in use when others are derived from it or a plugin is made of it; the classes of a module with a source
    are what the source makes plugins of.
    """
    made = [value for value in vars(module).values() if isinstance(value, DevicePlugin | PluginSource)]
    classes = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, DevicePlugin) and value.__module__ == module.__name__
    ]
    used = {type(plugin) for plugin in made} | {base for each in classes for base in each.__mro__[1:]}
    for base, derived in hidden_bases(module):
        logger.warning("%s: %s is not served: %s is derived from it", target, base.__name__, derived.__name__)
    if not any(isinstance(each, PluginSource) for each in made):
        made += [_instance(target, each) for each in classes if each not in used]
    if not made:
        raise PluginLoadError(target, "it defines no plugin; use @plugin, @resources or subclass DevicePlugin")
    return [_instance(target, each) for each in dict.fromkeys(made)]


def _instance(target: str, value: object, settings: Mapping[str, object] | None = None) -> DevicePlugin | PluginSource:
    if isinstance(value, type) and issubclass(value, DevicePlugin):
        made = value
        value = _run(target, lambda: made(**(settings or {})))
    elif settings is not None:
        raise PluginLoadError(target, "settings are arguments for a class, and this is not a class")
    if isinstance(value, PluginSource):
        return value
    if not isinstance(value, DevicePlugin):
        raise PluginLoadError(target, f"{value!r} is not a plugin")
    plugin = value

    def check() -> DevicePlugin:
        resource_of(plugin)
        check_attributes(plugin)
        return plugin

    return _run(target, check)  # an attribute may be a property, and run an author's code
