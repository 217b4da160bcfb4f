"""What a plugin file calls to serve itself; nothing heavy is imported before it does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from plugbay.sdk.plugin import DevicePlugin
from plugbay.sdk.resources import PluginSource

if TYPE_CHECKING:
    from pathlib import Path


def run(
    *plugins: DevicePlugin | PluginSource,
    kubelet_root: str | Path | None = None,
    cdi_directory: str | Path | None = None,
    route: Literal["kubelet", "watcher", "both"] = "kubelet",
) -> None:
    """Serve ``plugins`` to the kubelet of this machine until SIGTERM or SIGINT; SIGHUP looks and registers again.

    For ``if __name__ == "__main__"`` in a plugin's own file. Logging is yours to set up; ``plugbay serve`` does that,
    and finds a node of ``plugbay node up`` too.

    Args:
        kubelet_root: None for a stock kubelet's, ``/var/lib/kubelet``.
        cdi_directory: for the CDI specs of plugins that have a CDI kind; None for ``/var/run/cdi``.
        route: register at ``kubelet.sock``, or be found by the kubelet's plugin watcher, or both.

    Raises:
        PlugbayError: nothing was served: a bad resource name, one that two plugins serve, an unusable directory.
    """
    import asyncio
    from pathlib import Path

    from plugbay.kubelet.paths import KubeletPaths
    from plugbay.kubelet.roots import STOCK_ROOT
    from plugbay.sdk.cdi.directory import CDI_DIRECTORY
    from plugbay.sdk.routes import Route
    from plugbay.sdk.runner import serve

    root = Path(STOCK_ROOT if kubelet_root is None else kubelet_root).absolute()
    cdi = Path(CDI_DIRECTORY if cdi_directory is None else cdi_directory).absolute()
    asyncio.run(serve(plugins, paths=KubeletPaths(root), route=Route(route), cdi_directory=cdi))
