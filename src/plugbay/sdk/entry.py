"""What a plugin file calls to serve itself; nothing heavy is imported before it does."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from plugbay.kubelet.paths import KubeletPaths
from plugbay.kubelet.roots import STOCK_ROOT
from plugbay.sdk.cdi.answers import CDI_DIRECTORY
from plugbay.sdk.plugin import DevicePlugin
from plugbay.sdk.resources import PluginSource


def run(
    *plugins: DevicePlugin | PluginSource,
    kubelet_root: str | Path = STOCK_ROOT,
    cdi_directory: str | Path = CDI_DIRECTORY,
    route: Literal["kubelet", "watcher", "both"] = "kubelet",
) -> None:
    """Serve ``plugins`` to the kubelet of this machine until SIGTERM or SIGINT; SIGHUP looks and registers again.

    For ``if __name__ == "__main__"`` in a plugin's own file. Logging is yours to set up; ``plugbay serve`` does that,
    and finds a node of ``plugbay node up`` too.

    Args:
        route: register at ``kubelet.sock``, or be found by the kubelet's plugin watcher, or both.

    Raises:
        PlugbayError: nothing was served: a bad resource name, one that two plugins serve, an unusable directory.
    """
    import asyncio

    from plugbay.sdk.routes import Route
    from plugbay.sdk.runner import serve

    paths = KubeletPaths(Path(kubelet_root).absolute())
    asyncio.run(serve(plugins, paths=paths, route=Route(route), cdi_directory=Path(cdi_directory).absolute()))
