"""Finds the plugins that a serve target names."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from plugbay.errors import InvalidResourceName, PluginLoadError
from plugbay.sdk.plugin import DevicePlugin, resource_of

_Loaded = TypeVar("_Loaded")


def load_plugins(target: str) -> list[DevicePlugin]:
    """The plugins of ``FILE.py``, which are all it defines, or the one of ``module:object``.

    Classes are instantiated without arguments. Loading runs the file.

    Raises:
        PluginLoadError: no such file or module, it fails, or there is no plugin in it.
    """
    if target.endswith(".py"):
        return _plugins_of(target, _load_file(target))
    module_name, colon, name = target.partition(":")
    if not colon or not module_name or not name:
        raise PluginLoadError(target, "a target is FILE.py or module:object")
    module = _run(target, lambda: importlib.import_module(module_name))
    if not hasattr(module, name):
        raise PluginLoadError(target, f"{module_name} has no {name!r}")
    return [_instance(target, getattr(module, name))]


def _load_file(target: str) -> ModuleType:
    path = Path(target)
    if not path.is_file():
        raise PluginLoadError(target, "no such file")
    name = f"plugbay_target_{path.stem}"  # a prefix: a file may be called random.py
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickles look their module up
    loader = spec.loader
    if (directory := str(path.parent.absolute())) not in sys.path:
        sys.path.insert(0, directory)  # as when Python runs the file: it may import its neighbours
    _run(target, lambda: loader.exec_module(module))
    return module


def _run(target: str, load: Callable[[], _Loaded]) -> _Loaded:
    try:
        return load()
    except (Exception, SystemExit) as error:  # it is somebody else's code
        raise PluginLoadError(target, f"{type(error).__name__}: {error}") from error


def _plugins_of(target: str, module: ModuleType) -> list[DevicePlugin]:
    """Plugins made in the module, and classes defined in it that are not only bases of others."""
    found = [value for value in vars(module).values() if isinstance(value, DevicePlugin)]
    classes = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, DevicePlugin) and value.__module__ == module.__name__
    ]
    used = {type(plugin) for plugin in found} | {base for each in classes for base in each.__mro__[1:]}
    found += [_instance(target, each) for each in classes if each not in used]
    if not found:
        raise PluginLoadError(target, "it defines no plugin; use @plugin or subclass DevicePlugin")
    return [_instance(target, plugin) for plugin in dict.fromkeys(found)]


def _instance(target: str, value: object) -> DevicePlugin:
    if isinstance(value, type) and issubclass(value, DevicePlugin):
        value = _run(target, value)
    if not isinstance(value, DevicePlugin):
        raise PluginLoadError(target, f"{value!r} is no plugin")
    try:
        resource_of(value)
    except InvalidResourceName as error:
        raise PluginLoadError(target, str(error)) from error
    return value
