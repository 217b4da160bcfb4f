"""``plugbay cni`` on a machine of its own, with plugins that are programs of ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.contract.conftest import Done, Plugbay
from tests.contract.rigs.fake_cni import MAKES, PASSES, Machine

GOOD: dict[str, Any] = {
    "cniVersion": "1.0.0",
    "name": "net",
    "plugins": [{"type": "first", "capabilities": {"portMappings": True}}, {"type": "second"}],
}


class Cni:
    """The command on one machine."""

    def __init__(self, plugbay: Plugbay, root: Path) -> None:
        self.machine = Machine(root)
        self.machine.install("first", MAKES)
        self.machine.install("second", PASSES)
        self.conf = root / "conf"
        self.conf.mkdir()
        self.options = ("--conf-dir", str(self.conf), "--bin-dir", str(self.machine.binaries))
        self.cached = ("--cache-dir", str(root / "cache"))
        self._plugbay = plugbay

    def configure(self, name: str = "10-net.conflist", content: object = GOOD) -> Path:
        path = self.conf / name
        path.write_text(content if isinstance(content, str) else json.dumps(content, indent=2))
        return path

    async def __call__(self, *argv: str) -> Done:
        return await self._plugbay("cni", *argv, *self.options, *self.cached)

    def start(self, *argv: str) -> Any:
        return self._plugbay.start("cni", *argv, *self.options, *self.cached)
