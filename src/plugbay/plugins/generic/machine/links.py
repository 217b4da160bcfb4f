"""The stable names of device nodes: the links that udev makes in directories such as ``/dev/serial/by-id``. Blocks."""

from __future__ import annotations

import os


def read_links(dev_root: str) -> dict[str, tuple[str, ...]]:
    """The links in every ``/dev/*/by-*``, by the node they lead to; both as paths of the host, sorted."""
    links: dict[str, list[str]] = {}
    for directory in _directories(dev_root):
        for name in _names(directory):
            place = f"{directory}/{name}"
            if node := _leads_to(place, dev_root):
                links.setdefault(node, []).append(_on_host(place, dev_root))
    return {node: tuple(sorted(found)) for node, found in links.items()}


def _directories(dev_root: str) -> list[str]:
    try:
        with os.scandir(dev_root) as entries:
            above = sorted(entry.path for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []
    return [f"{directory}/{name}" for directory in above for name in _names(directory) if name.startswith("by-")]


def _leads_to(place: str, dev_root: str) -> str:
    """The node at the end of a link below ``/dev``; empty for anything else."""
    try:
        target = os.readlink(place)
    except OSError:
        return ""
    node = os.path.normpath(os.path.join(os.path.dirname(_on_host(place, dev_root)), target))
    return node if node.startswith("/dev/") else ""


def _on_host(place: str, dev_root: str) -> str:
    return "/dev" + place.removeprefix(dev_root)


def _names(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []
