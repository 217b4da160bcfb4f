"""The paths of a unit on the host, looked at before an answer names them. Blocks."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from plugbay.model.edits import Mount
from plugbay.plugins.generic.config.rules import DevNames, PathKind, PathRule, Paths
from plugbay.plugins.generic.selecting.tree import FileKind, HostTree, nodes_inside
from plugbay.plugins.generic.selecting.units import Unit


def problems_of_paths(unit: Unit, mounts: Iterable[Mount], *, root: Path) -> Iterator[str]:
    """The paths of a unit that are not what they were when the unit was found, each with what to do.

    Args:
        mounts: all that come with it.
        root: of the machine's files, ``dev`` and ``sys`` among them.
    """
    rules = [rule for rule in _path_rules(unit) if rule.kind is PathKind.DEVICE]
    takes_any, files = any(rule.takes_any_file for rule in rules), HostTree(root)
    whole = {path for rule in rules for path in (rule.pattern, files.target(rule.pattern) if rule.resolves else "")}
    if isinstance(unit.group.what, DevNames):
        whole |= {node.host_path for node in unit.nodes}
    for node in unit.nodes:
        if node.host_path in whole and files.kind(node.host_path) is FileKind.DIRECTORY and not takes_any:
            if not any(nodes_inside(files, node.host_path)):
                yield f"{node.host_path} has no device node any more; connect a device of it, or ask for another one"
        elif problem := _problem_of_node(node.host_path, unit, root=root, takes_any=takes_any):
            yield problem
    for mount in mounts:
        if not os.path.lexists(_at(root, mount.host_path)):
            yield f"{mount.host_path} does not exist; make it, or ask for another device"
    for name in unit.interfaces:
        if not _at(root, f"/sys/class/net/{name}").exists():
            yield f"the network interface {name} is not on the host any more; ask again when it is back"


def _problem_of_node(path: str, unit: Unit, *, root: Path, takes_any: bool) -> str:
    try:
        found = _at(root, path).stat()
    except FileNotFoundError:
        return f"{path} does not exist any more; connect the device again, or ask for another one"
    except OSError as error:
        return f"{path} cannot be looked at: {error.strerror}; see that the plugin's container has the host's /dev"
    if takes_any:
        return ""
    if not (stat.S_ISCHR(found.st_mode) or stat.S_ISBLK(found.st_mode)):
        return f"{path} is {_kind(found.st_mode)} now and not a device node; remove it, and connect the device again"
    device = _sys_path(found, root)
    if device and unit.sys_paths and not any(_is_related(device, each) for each in unit.sys_paths):
        return f"{path} is another device now, {device}; ask again in a moment, when the list of devices is new"
    return ""


def _path_rules(unit: Unit) -> tuple[PathRule, ...]:
    return unit.group.what.rules if isinstance(unit.group.what, Paths) else ()


def _at(root: Path, path: str) -> Path:
    return root / path.lstrip("/")


def _kind(mode: int) -> str:
    kinds = ((stat.S_ISDIR, "a directory"), (stat.S_ISREG, "a regular file"), (stat.S_ISSOCK, "a socket"))
    return next((name for is_kind, name in kinds if is_kind(mode)), "a pipe")


def _sys_path(found: os.stat_result, root: Path) -> str:
    """The path below sysfs of the device behind a node; empty if the kernel shows none."""
    kind = "block" if stat.S_ISBLK(found.st_mode) else "char"
    number = f"{os.major(found.st_rdev)}:{os.minor(found.st_rdev)}"
    sys_root = (root / "sys").resolve()
    real = (sys_root / "dev" / kind / number).resolve()
    return "/" + str(real.relative_to(sys_root)) if real.is_relative_to(sys_root / "devices") and real.exists() else ""


def _is_related(one: str, other: str) -> bool:
    """Whether a device is the other one, or one lies below the other."""
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")
