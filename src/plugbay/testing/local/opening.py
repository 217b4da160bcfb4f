"""Open a kubelet for tests: its private directory, its environment, and its end."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final, Unpack

from plugbay.kubelet.paths import KubeletPaths
from plugbay.sdk.hooks.blocking import dismiss_guard
from plugbay.sdk.hooks.calls import dismiss_threads
from plugbay.testing.local.kubelet import LocalKubelet
from plugbay.testing.local.settings import KubeletOptions, manager_config, settings_of
from plugbay.testing.local.stock.versions import release_of

_PLACES: Final = (Path("/dev/shm"), Path("/tmp"))
"""Where the directory lies: a path that is short enough for sockets, in memory if there is such a place."""


@asynccontextmanager
async def local_kubelet(**options: Unpack[KubeletOptions]) -> AsyncIterator[LocalKubelet]:
    """A kubelet for tests, in this event loop, until the block ends; nothing of it is left then.

    It is plugbay's Device Manager, on a directory of its own, and so knows nothing of a kubelet of this machine::

        async with local_kubelet() as kubelet:
            await kubelet.plugin(cards)
            pod = await kubelet.admit({"example.com/card": 1})
            assert pod["app"].env == {"CARD": "0"}

    Args:
        options: see `KubeletOptions`.

    Raises:
        UsageError: an option is unknown, a version is not from 1.20 to 1.37, or a feature gate cannot be set so.
        UnusableTopology: with the kubelet's text.
    """
    settings = settings_of(options)
    release = release_of(settings.as_kubelet)
    with private_directory() as root:
        config = manager_config(settings, KubeletPaths(root), root / "state" / "devices.db")
        failure: Exception | None = None
        async with asyncio.TaskGroup() as tasks:
            kubelet = LocalKubelet(config, tasks, release, environ=os.environ, settings=settings)
            try:
                await kubelet.start_kubelet()
                yield kubelet
            except Exception as error:  # raised below: in here it would become a group, which hides a test's assertion
                failure = error
            finally:
                await kubelet.close()
                await asyncio.to_thread(_dismiss_threads)
        if failure is not None:
            raise failure


def _dismiss_threads() -> None:
    """End what hooks of plugins in this process leave waiting for the next hook."""
    dismiss_threads()
    dismiss_guard()


@contextmanager
def private_directory() -> Iterator[Path]:
    """A new directory with a short path, which goes with the block."""
    place = next((each for each in _PLACES if os.access(each, os.W_OK | os.X_OK)), None)
    root = Path(tempfile.mkdtemp(prefix="pb", dir=place))
    try:
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)
