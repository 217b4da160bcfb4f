"""Find the root of the caller's own node, and of the kubelet that a command means: a stock one or our node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from plugbay.errors import UsageError
from plugbay.kubelet.paths import STOCK_ROOT
from plugbay.values import dataclass

ROOT_VARIABLE: Final = "PLUGBAY_ROOT"
_SYSTEM_ROOT: Final = Path("/var/lib/plugbay")


@dataclass(frozen=True, slots=True)
class KubeletRoot:
    """The root of the kubelet that is meant, and the reason for this choice, as half a sentence."""

    path: Path
    why: str


def private_root(environ: Mapping[str, str], uid: int) -> Path:
    """The root of the caller's own node: ``$PLUGBAY_ROOT``, root's system directory, or the user's state directory.

    Never a stock kubelet's root. The path may be relative where the variable is.

    Raises:
        UsageError: no variable names a place.

    Source: XDG Base Directory Specification 0.8, which has relative paths ignored.
    """
    if chosen := environ.get(ROOT_VARIABLE):
        return Path(chosen)
    if uid == 0:
        return _SYSTEM_ROOT
    state = environ.get("XDG_STATE_HOME", "")
    if state.startswith("/"):
        return Path(state) / "plugbay"
    if home := environ.get("HOME"):
        return Path(home) / ".local" / "state" / "plugbay"
    raise UsageError(f"cannot tell where the node lives: set {ROOT_VARIABLE} or HOME, or give --root DIR")


def kubelet_root(environ: Mapping[str, str], uid: int, *, is_node_up: Callable[[Path], bool]) -> KubeletRoot:
    """The kubelet that a plugin or an inspecting command means when no option says which.

    It is a stock kubelet where one has its directory, whether it is alive or not: in a DaemonSet a plugin may well
    start before the kubelet. Else it is the node of `private_root`, and ``$PLUGBAY_ROOT`` goes before both.

    Args:
        is_node_up: whether a node of ours answers at a root, or is starting there.

    Raises:
        UsageError: a stock kubelet has its directory here and a node of ours is up as well, so that either may be
            meant. A plugin for practice must not get into a cluster by a guess.
    """
    if environ.get(ROOT_VARIABLE):
        return KubeletRoot(private_root(environ, uid), f"${ROOT_VARIABLE} says so")
    if not (STOCK_ROOT / "device-plugins").is_dir():
        return KubeletRoot(private_root(environ, uid), f"no kubelet has its directory at {STOCK_ROOT}")
    if (own := _private_root_if_any(environ, uid)) is not None and is_node_up(own):
        raise UsageError(
            f"there are two kubelets on this machine: the node of `plugbay node up` at {own}, and one whose directory "
            f"is {STOCK_ROOT}; choose with --node or with --root {STOCK_ROOT}"
        )
    return KubeletRoot(STOCK_ROOT, "a kubelet has its directory there; --node chooses the node of `plugbay node up`")


def _private_root_if_any(environ: Mapping[str, str], uid: int) -> Path | None:
    try:
        return private_root(environ, uid)
    except UsageError:
        return None
