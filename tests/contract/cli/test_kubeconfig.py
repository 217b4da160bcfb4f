"""``plugbay node kubeconfig`` and ``plugbay kubectl``, on a node that serves its API."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from plugbay.node.config import kubeconfig_path

if TYPE_CHECKING:
    from tests.contract.conftest import Plugbay

KUBECTL = '#!/bin/sh\necho "$KUBECONFIG" "$@"\nexit 3\n'


async def test_the_kubeconfig_of_a_node_is_shown_to_its_user(plugbay: Plugbay) -> None:
    path = kubeconfig_path(plugbay.root)
    async with plugbay.node_up("--api"):
        assert await plugbay("node", "kubeconfig") == (0, f"{path}\n", "")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        shown = (await plugbay("node", "kubeconfig", "--raw")).out
        assert shown == path.read_text()
        config = yaml.safe_load(shown)
        assert config["clusters"][0]["cluster"]["server"].startswith("https://127.0.0.1:")
        assert config["users"][0]["user"]["token"]


async def test_without_an_api_the_kubeconfig_is_refused_in_words(plugbay: Plugbay) -> None:
    code, out, err = await plugbay("node", "kubeconfig")
    assert (code, out) == (1, "")
    assert "no node runs there" in err
    async with plugbay.node_up():
        code, out, err = await plugbay("node", "kubeconfig")
        assert (code, out) == (2, "")
        assert "serves no API over TCP; start it with: plugbay node up --root" in err


async def test_kubectl_is_run_with_its_words_on_the_node(plugbay: Plugbay, tmp_path: Path) -> None:
    program = tmp_path / "kubectl"
    program.write_text(KUBECTL)
    program.chmod(0o755)
    words = ("get", "pods", "-o", "wide", "--root=of-kubectl")
    async with plugbay.node_up("--api"):
        with_kubectl = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
        async with plugbay.start("kubectl", *words, env=with_kubectl) as process:
            out, _ = await process.communicate()
            assert (process.returncode, out.decode()) == (3, f"{kubeconfig_path(plugbay.root)} {' '.join(words)}\n")
        async with plugbay.start("kubectl", "version", env={**os.environ, "PATH": "/no/such"}) as process:
            await process.communicate()
            assert process.returncode == 127
