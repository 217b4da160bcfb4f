"""What a publication does that is cancelled in the middle of writing its file."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

from plugbay import Device
from plugbay.cdi.names import parse_kind
from plugbay.cdi.spec import Spec
from plugbay.kubelet.paths import KubeletPaths
from plugbay.model.ids import ResourceName
from plugbay.sdk.author.cdi_answers import CdiAnswer
from plugbay.sdk.cdi.publication import CdiPublication
from plugbay.sdk.cdi.spec_file import PluginSpecFile

RESOURCE = ResourceName("example.com/gopher")
DEADLINE_S = 20.0


class Slow(PluginSpecFile):
    """Writes once it may.

    Attributes:
        ends: what came to an end, in order.
    """

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, parse_kind(RESOURCE), RESOURCE)
        self.has_begun = threading.Event()
        self.may_write = threading.Event()
        self.ends: list[str] = []

    def write(self, spec: Spec) -> bool:
        self.has_begun.set()
        self.may_write.wait(DEADLINE_S)
        is_written = super().write(spec)
        self.ends.append("write")
        return is_written


async def test_who_is_cancelled_while_the_file_is_written_ends_after_that(tmp_path: Path) -> None:
    """Or it would be written once more after it was closed, and held by nobody who lets it go."""
    publication = CdiPublication(
        RESOURCE,
        kind=RESOURCE,
        how=CdiAnswer.NAMES,
        join_env=None,
        directory=tmp_path / "cdi",
        paths=KubeletPaths(tmp_path),
    )
    publication._file = file = Slow(tmp_path / "cdi")
    preparing = asyncio.create_task(publication.prepare([Device("a", env={"A": "1"})]))
    preparing.add_done_callback(lambda _: file.ends.append("task"))
    assert await asyncio.to_thread(file.has_begun.wait, DEADLINE_S)
    preparing.cancel()
    await asyncio.wait([preparing], timeout=0.2)  # in vain
    file.may_write.set()
    await asyncio.wait([preparing])
    await asyncio.sleep(0)
    assert file.ends == ["write", "task"]
    await publication.close()
    assert not file.path.exists()
