"""Where a node of our own lives when nobody says otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from plugbay.errors import UsageError

ROOT_VARIABLE: Final = "PLUGBAY_ROOT"
_SYSTEM_ROOT: Final = Path("/var/lib/plugbay")
STOCK_ROOT: Final = Path("/var/lib/kubelet")


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


def default_root(environ: Mapping[str, str], uid: int) -> Path:
    """The root a plugin or an inspecting command means: a stock kubelet's if there is one, else `private_root`.

    ``$PLUGBAY_ROOT`` goes before both.
    """
    if not environ.get(ROOT_VARIABLE) and (STOCK_ROOT / "device-plugins").is_dir():
        return STOCK_ROOT
    return private_root(environ, uid)
