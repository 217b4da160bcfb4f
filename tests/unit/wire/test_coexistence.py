"""Our messages live beside another package's stubs of the same protos, which sit in protobuf's default pool."""

from __future__ import annotations

import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

pytest.importorskip("grpc_tools", reason="the generator is not installed")

OURS = """
from plugbay.wire.generated import deviceplugin_v1beta1_pb2 as ours
import plugbay.wire.generated.pluginregistration_v1_pb2
import plugbay.wire.generated.podresources_v1_pb2
import plugbay.wire.generated.podresources_v1alpha1_pb2
"""
THEIRS = """
import api_pb2 as theirs
import registration_pb2, podresources_pb2, podresources_alpha_pb2
"""
EXCHANGE = """
message = theirs.ListAndWatchResponse(devices=[theirs.Device(ID="a", health="Healthy")])
assert ours.ListAndWatchResponse.FromString(message.SerializeToString()).devices[0].ID == "a"
assert ours.Device is not theirs.Device
"""
UPSTREAM_NAMES = {
    "deviceplugin_v1beta1.proto": "api.proto",
    "pluginregistration_v1.proto": "registration.proto",
    "podresources_v1.proto": "podresources.proto",
    "podresources_v1alpha1.proto": "podresources_alpha.proto",
}


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with what another package would ship: stubs under file names of its own."""
    directory = tmp_path_factory.mktemp("stubs")
    for ours, theirs in UPSTREAM_NAMES.items():
        (directory / theirs).write_text(files("plugbay.wire").joinpath("proto", ours).read_text())
    protoc = [sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={directory}", f"--python_out={directory}"]
    subprocess.run([*protoc, *UPSTREAM_NAMES.values()], check=True)
    return directory


@pytest.mark.parametrize("order", [(OURS, THEIRS), (THEIRS, OURS)], ids=["ours-first", "theirs-first"])
def test_stubs_of_the_same_protos_can_be_imported(order: tuple[str, str], stubs: Path) -> None:
    program = "\n".join((*order, EXCHANGE))
    done = subprocess.run([sys.executable, "-c", program], cwd=stubs, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
