"""Kernel parameters of a pod, set in the namespaces that its containers share.

Source: Linux ``sysctl(8)``, ``namespaces(7)``; Kubernetes 1.36 ``kubelet/sysctl/util.go``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from plugbay.errors import SandboxFailed
from plugbay.kernel.namespaces import NamespaceKind, in_namespace

FIELD: Final = "spec.securityContext.sysctls"

_PREFIXES: Final = (
    ("net.", NamespaceKind.NETWORK),
    ("kernel.shm", NamespaceKind.IPC),
    ("kernel.msg", NamespaceKind.IPC),
    ("kernel.sem", NamespaceKind.IPC),
    ("fs.mqueue.", NamespaceKind.IPC),
)


def check_sysctls(names: Iterable[str], *, own: Iterable[NamespaceKind]) -> None:
    """Check kernel parameters before anything is made.

    Args:
        own: the kinds of namespaces that are the pod's own; anything else would be set for the whole host.

    Raises:
        SandboxFailed: one of them is not the pod's to set.
    """
    own = tuple(own)
    for name in names:
        kind = _kind_of(name)
        if kind is None:
            raise SandboxFailed(f"{FIELD}: {name} is of no namespace, and would be set for the whole host")
        if kind not in own:
            raise SandboxFailed(f"{FIELD}: {name} takes a pod with its own {kind} namespace")


def set_sysctls(values: Mapping[str, str], *, namespaces: Mapping[NamespaceKind, Path], proc_root: Path) -> None:
    """Set those that were checked. Waits for the kernel.

    Raises:
        SandboxFailed: the kernel refuses a value.
    """
    for name, value in values.items():
        kind = _kind_of(name)
        assert kind is not None, "it was checked"
        file = proc_root / "sys" / name.replace(".", "/")
        try:
            in_namespace(kind, namespaces[kind], partial(file.write_text, value))
        except OSError as error:
            raise SandboxFailed(f"{FIELD}: {name} cannot be {value!r}: {error.strerror}") from error


def _kind_of(name: str) -> NamespaceKind | None:
    return next((kind for prefix, kind in _PREFIXES if name.startswith(prefix)), None)
