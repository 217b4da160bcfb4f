"""Mounts of plugins whose host path does not exist: made as a kubelet's engine makes them, or refused."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from plugbay.errors import ContainerStartError
from plugbay.model.edits import ContainerEdits, Mount
from plugbay.runtimes.mounts import MissingMount, settle_missing_mounts
from plugbay.runtimes.port import ContainerSpec
from tests.container_specs import container_spec
from tests.contract.rigs.oci import why_not

if TYPE_CHECKING:
    from tests.contract.conftest import Plugbay

PLUGIN = """
from plugbay import Device, Mount, plugin

@plugin("example.com/gopher")
def discover():
    return [Device("g0", mounts=[Mount({path!r}, container_path="/mnt/gopher")])]
"""
RUNTIMES = [
    pytest.param("process", id="process"),
    pytest.param("oci", marks=[pytest.mark.root, pytest.mark.skipif(bool(why_not()), reason=why_not())], id="oci"),
]


@pytest.mark.parametrize("runtime", RUNTIMES)
async def test_missing_host_path_of_a_plugin_becomes_a_directory_and_an_event_tells(
    plugbay: Plugbay, tmp_path: Path, runtime: str
) -> None:
    missing = tmp_path / "deep" / "missing"
    (tmp_path / "p.py").write_text(PLUGIN.format(path=str(missing)))
    async with (
        plugbay.node_up("--runtime", runtime),
        plugbay.start("serve", "--node", str(tmp_path / "p.py")) as plugin,
    ):
        command = ["ls", "/mnt/gopher"] if runtime == "oci" else ["ls", str(missing)]
        limits = {"limits": {"example.com/gopher": "1"}}
        spec = {"restartPolicy": "Never", "containers": [{"name": "c", "command": command, "resources": limits}]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
        assert (await plugbay("pod", "run", "-f", "-", given=json.dumps(pod))).code == 0
        waited = await plugbay("pod", "wait", "pod/p", "--for=jsonpath={.status.phase}=Succeeded")
        assert waited.code == 0, waited
        assert missing.is_dir()
        events = (await plugbay("events")).out
        assert f"{missing}, which a device plugin mounts at /mnt/gopher, did not exist on the host" in events
        plugin.terminate()
        await plugin.wait()


async def test_strict_node_refuses_a_missing_host_path(plugbay: Plugbay, tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    async with plugbay.node_up("--runtime", "process", "--on-missing-mount", "refuse"):
        volume = {"name": "v", "hostPath": {"path": str(missing)}}
        container = {"name": "c", "command": ["true"], "volumeMounts": [{"name": "v", "mountPath": "/v"}]}
        spec = {"containers": [container], "volumes": [volume]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
        assert (await plugbay("pod", "run", "-f", "-", given=json.dumps(pod))).code == 0
        reason = "jsonpath={.status.containerStatuses[0].state.waiting.reason}=CreateContainerError"
        assert (await plugbay("pod", "wait", "pod/p", f"--for={reason}")).code == 0
        assert f"lstat {missing}: no such file or directory" in (await plugbay("pod", "describe", "p")).out
        assert not missing.exists()


def test_directory_is_made_as_an_engine_makes_it(tmp_path: Path) -> None:
    missing = tmp_path / "a/b"
    mount = Mount(host_path=missing, container_path="/x")
    before = os.umask(0o000)
    try:
        (said,) = settle_missing_mounts(_with(mount), MissingMount.MAKE)
    finally:
        os.umask(before)
    assert "the pod mounts at /x" not in said
    assert [each.stat().st_mode & 0o777 for each in (missing.parent, missing)] == [0o755, 0o755]
    assert settle_missing_mounts(_with(mount), MissingMount.MAKE) == []


def test_what_cannot_be_made_is_refused_in_the_words_of_an_engine(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file/below", Path("/proc/nowhere")):
        with pytest.raises(ContainerStartError, match="failed to generate container spec: ") as caught:
            settle_missing_mounts(_with(Mount(host_path=path, container_path="/x")), MissingMount.MAKE)
        assert caught.value.reason == "CreateContainerError"


def _with(mount: Mount) -> ContainerSpec:
    edits = ContainerEdits(mounts=(mount,))
    return container_spec(edits=edits)
