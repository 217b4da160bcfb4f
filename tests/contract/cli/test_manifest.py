"""``plugbay manifest``: what it prints is what an API server takes, field by field."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.contract.rigs.api_calls import ApiCaller
from tests.contract.rigs.node_run import running_node

PATHS = {
    "ConfigMap": "/api/v1/namespaces/kube-system/configmaps",
    "DaemonSet": "/apis/apps/v1/namespaces/kube-system/daemonsets",
}
IMAGE = ("--image", "registry.example.com/plugbay:1")
DEADLINE_S = 60
CODE = """
from plugbay import Capability, Device, DevicePlugin, HostDirectory, Memory, Variable
from parts import NAME
print("said while it is loaded")

class Cards(DevicePlugin):
    resource_name = NAME
    watch = "/dev/cards"
    cdi_kind = NAME
    needs = [
        HostDirectory("/opt/card", "the vendor's library"),
        Capability("NET_ADMIN", "it configures card0"),
        Variable("CARD_LOG", "yes: all", "the vendor's log"),
        Memory(100, "the vendor's library"),
    ]

    def discover(self):
        yield Device("a")

    def release(self, assignment):
        pass
"""
SCRATCH = ("scratch", "--resource=example.com/scratch", "--directory=/srv/scratch", "--size=1Gi", "--count=2")


@pytest.fixture
def root(sockets: Path) -> Path:
    return sockets


async def printed(directory: Path, *argv: str) -> tuple[str, str]:
    pipe = asyncio.subprocess.PIPE
    words = (sys.executable, "-m", "plugbay", "manifest", *argv, *IMAGE)
    process = await asyncio.create_subprocess_exec(*words, cwd=directory, stdout=pipe, stderr=pipe)
    async with asyncio.timeout(DEADLINE_S):
        out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return out.decode(), err.decode()


async def test_an_api_server_takes_what_is_printed(root: Path, tmp_path: Path) -> None:
    (tmp_path / "cards.py").write_text(CODE)
    (tmp_path / "parts.py").write_text("NAME = 'example.com/card'\n")
    (tmp_path / "plugins.yaml").write_text("plugins: [{target: cards.py}]\n")
    commands: list[tuple[str, ...]] = [
        ("--config", "plugins.yaml", "--node-selector", "example.com/cards=true"),
        SCRATCH,
        ("nvidia", "--mig-strategy=mixed", "--device-list-strategy=cdi-cri", "--mps-root=/run/mps"),
    ]
    texts = await asyncio.gather(*(printed(tmp_path, *each) for each in commands))
    assert texts[0][1] == "said while it is loaded\n"
    objects: list[dict[str, Any]] = [each for out, _ in texts for each in yaml.safe_load_all(out)]
    assert [each["kind"] for each in objects] == ["ConfigMap", "DaemonSet", "DaemonSet", "DaemonSet"]
    assert sorted(objects[0]["data"]) == ["cards.py", "parts.py", "plugins.yaml"]
    strict = {"dryRun": "All", "fieldValidation": "Strict"}
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        for each in objects:
            status, answer, _ = await ask("POST", PATHS[each["kind"]], each, **strict)
            assert status == 201, answer["message"]
            assert answer["metadata"]["name"] == each["metadata"]["name"]
        objects[-1]["spec"]["template"]["spec"]["containers"][0]["readinessProb"] = {}
        status, answer, _ = await ask("POST", PATHS["DaemonSet"], objects[-1], **strict)
        assert status in (400, 422), "the node knows which fields there are"
