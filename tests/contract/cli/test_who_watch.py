"""``plugbay who --watch`` as a process: what there is, and then each change, until it is stopped."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from tests.contract.rigs.seen_kubelet import SeenKubelet, entry, holding, offered

if TYPE_CHECKING:
    from tests.contract.conftest import Plugbay


async def test_a_change_of_the_checkpoint_is_shown(plugbay: Plugbay, tmp_path: Path) -> None:
    kubelet = SeenKubelet(tmp_path)
    kubelet.write_checkpoint([entry("u1", "c", "g1")], ["g0", "g1"])
    kubelet.add_pod("u1", "web")
    kubelet.pods, kubelet.devices = [holding("web", "c", "g1")], offered("g0", "g1")
    async with kubelet.answering(), plugbay.start("who", *kubelet.argv, "--watch") as who:
        assert " web " in await plugbay.line_with(who, " g1 ")
        kubelet.add_pod("u2", "late")
        kubelet.write_checkpoint([entry("u1", "c", "g1"), entry("u2", "c", "g0")], ["g0", "g1"])
        assert " late " in await plugbay.line_with(who, " g0 ")
        os.kill(who.pid, signal.SIGINT)
        assert await who.wait() in (0, 130)
