"""CNI plugins as small programs, which note how they were called."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from plugbay.cni.cache import ResultCache
from plugbay.cni.config import NetworkConfig, parse_list
from plugbay.cni.invoke import Plugins
from plugbay.cni.runtime import CniRuntime
from plugbay.kernel.files import write_durably

_HEAD: Final = f"""#!{sys.executable} -ISB
import json, os, sys
given = sys.stdin.read()
config = json.loads(given) if given else {{}}
command = os.environ["CNI_COMMAND"]
log = os.path.join(os.path.dirname(sys.argv[0]), "calls.jsonl")
own = {{name: value for name, value in os.environ.items() if name.startswith("CNI_")}}
with open(log, "a") as file:
    file.write(json.dumps({{"plugin": os.path.basename(sys.argv[0]), "environ": own, "config": config}}) + "\\n")
def fail(code, message, details=""):
    print(json.dumps({{"code": code, "msg": message, "details": details}}))
    sys.exit(1)
if command == "VERSION":
    print(json.dumps({{"cniVersion": "1.1.0", "supportedVersions": ["0.4.0", "1.0.0", "1.1.0"]}}))
    sys.exit(0)
"""

MAKES: Final = """
if command == "ADD":
    print(json.dumps({"cniVersion": config["cniVersion"],
                      "interfaces": [{"name": os.environ["CNI_IFNAME"], "sandbox": os.environ["CNI_NETNS"]}],
                      "ips": [{"address": "10.1.0.5/24", "interface": 0}, {"address": "fd00::5/64", "interface": 0}]}))
"""
"""A plugin that makes an interface."""

PASSES: Final = """
if command == "ADD":
    print(json.dumps(config["prevResult"]))
"""
"""A plugin that changes nothing."""


class Machine:
    """A directory of plugins, one of results, and a runtime for both."""

    def __init__(self, root: Path, *, timeout_s: float = 20.0, environ: Mapping[str, str] | None = None) -> None:
        self.binaries = root / "bin"
        self.binaries.mkdir(exist_ok=True)
        self.results = root / "cache" / "results"
        self._log = self.binaries / "calls.jsonl"
        self.plugins = Plugins([root / "none", self.binaries], environ=environ or {}, timeout_s=timeout_s)
        self.runtime = CniRuntime(self.plugins, ResultCache(root / "cache", write=write_durably))

    def install(self, name: str, body: str, *, head: str = _HEAD) -> Path:
        path = self.binaries / name
        path.write_text(head + body)
        path.chmod(0o755)
        return path

    @property
    def calls(self) -> list[dict[str, Any]]:
        """How plugins were called since this was asked last."""
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        self._log.unlink(missing_ok=True)
        return [json.loads(line) for line in lines]

    def called(self) -> list[tuple[str, str]]:
        """As `calls`, plugin and command only."""
        return [(each["plugin"], each["environ"]["CNI_COMMAND"]) for each in self.calls]


def network(*plugins: str | dict[str, Any], version: str = "1.0.0", **members: Any) -> NetworkConfig:
    """A network named ``net``; a plugin is its object, or its type alone."""
    objects = [{"type": each} if isinstance(each, str) else each for each in plugins]
    document = {"name": "net", "cniVersion": version, "plugins": objects, **members}
    return parse_list(json.dumps(document).encode(), source="net.conflist")
