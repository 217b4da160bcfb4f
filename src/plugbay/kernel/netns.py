"""Network namespaces on files: `plugbay.kernel.namespaces` for the most common kind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from plugbay.kernel.namespaces import NamespaceKind, in_namespace, is_namespace, make_namespace, remove_namespace

_T = TypeVar("_T")


def make_netns(path: Path, *, proc_root: Path) -> None:
    """Make a network namespace that has only ``lo``, which is down. See `make_namespace`."""
    make_namespace(NamespaceKind.NETWORK, path, proc_root=proc_root)


def remove_netns(path: Path) -> None:
    """Remove a network namespace. See `remove_namespace`."""
    remove_namespace(NamespaceKind.NETWORK, path)


def is_netns(path: Path) -> bool:
    """Whether a network namespace can be entered at ``path``. See `is_namespace`."""
    return is_namespace(NamespaceKind.NETWORK, path)


def in_netns(path: Path, function: Callable[[], _T]) -> _T:
    """Call ``function`` inside a network namespace. See `in_namespace`."""
    return in_namespace(NamespaceKind.NETWORK, path, function)
