"""What a node decides to show to containers, by what the kernel can do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from plugbay.kubelet.paths import STOCK_ROOT
from plugbay.node.config import NodeConfig, OciConfig
from plugbay.node.runtimes import oci as oci_choice
from plugbay.runtimes.oci.engines import OciEngine
from plugbay.runtimes.oci.rootfs import HostView, read_root


def view_of(root: Path, monkeypatch: pytest.MonkeyPatch, *, problem: str) -> HostView:
    asked: list[Any] = []

    def probe(program: str, mounts: Any) -> str:
        asked.extend(mounts)
        return problem

    monkeypatch.setattr(oci_choice, "probe", probe)
    (root / "oci").mkdir()
    oci = OciConfig(None, None, (), None, ())
    view = oci_choice._host_view(NodeConfig(root, oci=oci), oci, OciEngine("/bin/false", "runc", root, {}))
    assert {each["type"] for each in asked} == {"overlay"}
    return view


def test_overlays_are_used_where_the_engine_can_make_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    view = view_of(tmp_path, monkeypatch, problem="")
    assert view.layer == tmp_path / "oci/empty"
    assert view.hidden == (tmp_path, STOCK_ROOT)


def test_without_overlays_the_node_warns_and_binds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    view = view_of(tmp_path, monkeypatch, problem="mount: no such device")
    assert {each["type"] for each in read_root(view).mounts} == {"bind"}
    assert "the kernel makes no overlays for containers (mount: no such device)" in caplog.text
