"""Several plugins in one process, and the signals that reach it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Sequence
from pathlib import Path

from plugbay.errors import DuplicateResource, PathUnusable
from plugbay.kubelet.paths import KubeletPaths
from plugbay.sdk.backoff import Backoff
from plugbay.sdk.plugin import DevicePlugin
from plugbay.sdk.server import PluginServer

logger = logging.getLogger(__name__)


async def serve(plugins: Sequence[DevicePlugin], *, paths: KubeletPaths) -> None:
    """Serve ``plugins`` to the kubelet at ``paths`` until SIGTERM or SIGINT; a second one ends the process at once.

    SIGHUP makes every plugin look for devices and register again. A plugin that fails is started again with back-off
    and disturbs no other. Call it from the main thread.

    Raises:
        InvalidResourceName, DuplicateResource: nothing was served.
        PathUnusable: the device-plugins directory can never be used, for instance because it is a file.
    """
    _check_directory(paths.device_plugins)
    servers = [PluginServer(plugin, paths) for plugin in plugins]
    names = [server.resource for server in servers]
    if len(set(names)) < len(names):
        raise DuplicateResource(max(names, key=names.count))
    loop = asyncio.get_running_loop()

    def stop() -> None:
        if all(server.is_stopping for server in servers):
            os._exit(1)  # asked twice: now
        for server in servers:
            server.stop()

    def reload() -> None:
        for server in servers:
            server.reload()

    handlers = {signal.SIGTERM: stop, signal.SIGINT: stop, signal.SIGHUP: reload}
    for number, handler in handlers.items():
        loop.add_signal_handler(number, handler)
    try:
        async with asyncio.TaskGroup() as tasks:
            for server in servers:
                tasks.create_task(_supervise(server), name=f"serve {server.resource}")
    finally:
        for number in handlers:
            loop.remove_signal_handler(number)


async def _supervise(server: PluginServer) -> None:
    backoff = Backoff()
    while not server.is_stopping:
        try:
            await server.run()
        except Exception:  # the supervising loop: one plugin's failure is its own
            logger.exception("%s: failed; starting it again", server.resource)
            await asyncio.sleep(backoff.next_delay_s())


def _check_directory(directory: Path) -> None:
    if directory.exists():
        if not directory.is_dir():
            raise PathUnusable(str(directory), "is not a directory")
        if not os.access(directory, os.W_OK | os.X_OK):
            raise PathUnusable(
                str(directory), "not writable by this user; a device plugin has to make its socket there"
            )
