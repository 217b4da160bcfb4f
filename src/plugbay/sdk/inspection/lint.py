"""Mistakes in a plugin's file that show only later, on a node: found by reading it, and by two looks."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, TypeAlias

from plugbay.errors import AuthorError, DiscoveryFailed, InvalidHealthCheck, PlugbayError, PluginLoadError
from plugbay.model.devices import Device
from plugbay.sdk.author.near_misses import hidden_bases, near_hooks
from plugbay.sdk.author.plugin import DevicePlugin, discover_function, health_checks
from plugbay.sdk.author.problems import code_of
from plugbay.sdk.discovery.host_paths import missing_paths
from plugbay.sdk.inspection.survey import plugins_now, survey
from plugbay.sdk.process.author_modules import failed_at, forget
from plugbay.sdk.process.targets import load_file, load_plugins

_Looks: TypeAlias = Mapping[str, list[Device] | None]
"""The devices that the first look found of each resource; None where it failed."""


@dataclass(frozen=True, slots=True, order=True)
class PluginFinding:
    """Something wrong at a line of a file; a line of 0 is the file as a whole.

    ``code`` stays the same from version to version: P1 and a number is about how the file is written, P2 about the
    devices that it finds.
    """

    file: str
    line: int
    code: str
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line or 1}: {self.code} {self.message}"


async def lint(file: Path) -> list[PluginFinding]:
    """All findings of a file with plugins, by line. Its code runs twice, and its devices are looked for three times.

    Args:
        file: absolute.
    """
    try:
        plugins = load_plugins(str(file))
        module = load_file(str(file), str(file))
    except PluginLoadError as error:
        where, line = failed_at(error, file.parent) or (file, 0)
        return [_in(where, line, "P101", error.problem)]
    found = [*_unused(file, module, [each for each in plugins if isinstance(each, DevicePlugin)])]
    try:
        served = await plugins_now(plugins)
    except PlugbayError as error:
        return sorted({*found, _in(file, 0, "P201", str(error))})
    found += _names(file, served)
    looks = {plugin.resource_name: await _looked(file, plugin, found) for plugin in served}
    found += await _changes(file, [each for each in served if looks[each.resource_name] is not None], looks)
    return sorted(set(found))


def _unused(file: Path, module: ModuleType, plugins: Sequence[DevicePlugin]) -> Iterator[PluginFinding]:
    for base, derived in hidden_bases(module):
        yield _at(base, file, "P103", f"{base.__name__} is not served: {derived.__name__} is derived from it")
    for plugin in plugins:
        for near in near_hooks(type(plugin)):
            yield _at(near.method, file, "P102", str(near))


def _names(file: Path, plugins: Sequence[DevicePlugin]) -> Iterator[PluginFinding]:
    names = [plugin.resource_name for plugin in plugins]
    for plugin in plugins:
        if names.count(plugin.resource_name) > 1:
            yield _at(_code_or_class(plugin), file, "P105", f"{plugin.resource_name} is served more than once")
        try:
            health_checks(plugin)
        except InvalidHealthCheck as error:
            yield _at(getattr(type(plugin), error.check, type(plugin)), file, "P104", str(error))


async def _looked(file: Path, plugin: DevicePlugin, found: list[PluginFinding]) -> list[Device] | None:
    """The devices that a plugin finds; None if that does not work, which is a finding then."""
    hook = _code_or_class(plugin)
    try:
        devices = await survey(plugin)
    except InvalidHealthCheck:
        return None  # is one already
    except AuthorError as error:
        text = f"{error.hook} failed: {error.problem}" if isinstance(error, DiscoveryFailed) else str(error)
        found.append(_at(hook, file, "P201", text))
        return None
    for device in devices:
        for path in missing_paths(device):
            found.append(
                _at(hook, file, "P203", f"device {device.id} needs {path}, which does not exist on this machine")
            )
    return devices


async def _changes(file: Path, plugins: Sequence[DevicePlugin], looks: _Looks) -> list[PluginFinding]:
    """Device IDs that differ at the next run of ``discover``, in this process or in another one after a restart."""
    found: list[PluginFinding] = []
    moving: set[str] = set()
    for plugin in plugins:
        if moved := [*_moved(file, plugin, looks, await _looked(file, plugin, found), "at the next look")]:
            moving.add(plugin.resource_name)
            found += moved
    forget(file.parent)
    try:
        restarted = await plugins_now(load_plugins(str(file)))
    except PlugbayError as error:
        return [*found, _in(file, 0, "P201", f"the file cannot be loaded a second time: {error}")]
    for plugin in restarted:
        if plugin.resource_name not in moving:
            found += _moved(file, plugin, looks, await _looked(file, plugin, found), "when the plugin starts again")
    return found


def _moved(
    file: Path, plugin: DevicePlugin, looks: _Looks, after: list[Device] | None, when: str
) -> Iterator[PluginFinding]:
    if (before := looks.get(plugin.resource_name)) is None or after is None:
        return
    gone = sorted({each.id for each in before} - {each.id for each in after})
    fresh = sorted({each.id for each in after} - {each.id for each in before})
    if gone and fresh:
        message = f"device IDs do not stay: {gone[0]} is {fresh[0]} {when}, so that its pod would lose it"
        yield _at(_code_or_class(plugin), file, "P202", message)


def _code_or_class(plugin: DevicePlugin) -> CodeType | type:
    return code_of(discover_function(plugin)) or type(plugin)


def _at(what: Callable[..., Any] | CodeType | type, file: Path, code: str, message: str) -> PluginFinding:
    """A finding where ``what`` is defined, in the file or in one that it imports."""
    if isinstance(what, type):
        try:
            return _in(inspect.getsourcefile(what) or file, inspect.getsourcelines(what)[1], code, message)
        except (OSError, TypeError):
            return _in(file, 0, code, message)
    found = what if isinstance(what, CodeType) else code_of(what)
    if found is None:
        return _in(file, 0, code, message)
    return _in(found.co_filename, found.co_firstlineno, code, message)


def _in(file: Path | str, line: int, code: str, message: str) -> PluginFinding:
    """A finding in a file that is called as from the working directory.

    Where the message names a place of the same file itself, that is the finding's place, and said only once.
    """
    name = re.escape(os.path.basename(file))
    if place := re.search(rf" \({name}(?::|, line )(?P<line>[0-9]+)\)", message):
        line, message = int(place["line"]), message[: place.start()] + message[place.end() :]
    return PluginFinding(os.path.relpath(file), line, code, message)
