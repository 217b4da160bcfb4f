"""One pod, started by containerd and by our oci runtime: what its devices give comes to the same OCI spec."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from plugbay.cdi.inject import OciSpec
from tests.contract.conftest import Plugbay
from tests.contract.rigs.oci import why_not
from tests.e2e.bench_cri import Node, container, pod
from tests.e2e.containerd import knows_cdi
from tests.unit.runtimes.oci.containerd_specs import (
    POD_ENV,
    decided,
    without_host_mode,
    write_cdi,
)

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
    pytest.mark.timeout(120),
]

_SAID_IN_CRI: Final = ("host",)
"""The devices that can be told an engine without CDI."""
PLUGIN: Final = """
from plugbay import Device, plugin
from tests.unit.runtimes.oci.containerd_specs import edits

given = edits(%(base)r)

@plugin("example.com/gopher")
def gophers() -> list[Device]:
    return [
        Device(
            "g1",
            env=given.env,
            mounts=given.mounts,
            device_nodes=given.device_nodes,
            cdi_devices=[each for each in given.cdi_devices if each.endswith(%(names)r)],
        )
    ]
"""
POD: Final = pod(
    "gets",
    "trap exit TERM; sleep 1000 & wait",
    resources={"limits": {"example.com/gopher": "1"}},
    env=[{"name": name, "value": value} for name, value in POD_ENV.items()],
)


async def started(plugbay: Plugbay, where: Path, *, base: Path) -> OciSpec:
    """The part of ``config.json`` that the devices of `POD` decide; the pod is gone again.

    Args:
        where: holds directories of containers, which the engine is started in.
    """
    assert (await plugbay("pod", "apply", "-f", "-", given=json.dumps(POD))).code == 0
    waited = await plugbay("pod", "wait", "--for=condition=Ready", "gets", "--timeout=28s")
    assert waited.code == 0, (await plugbay("pod", "describe", "gets")).out
    made = json.loads((await plugbay("pod", "get", "gets", "-o", "json")).out)
    name = str(container(made)["containerID"]).partition("://")[2]
    config = json.loads((where / name / "config.json").read_bytes())
    assert (await plugbay("pod", "delete", "gets", "--now")).code == 0
    return decided(config, base=str(base))


@pytest.fixture
async def words(node: Node, tmp_path: Path) -> AsyncIterator[Path]:
    """A plugin that gives what `edits` says, and the directory of its mounts and CDI specs."""
    names = ("host", "numbers", "hooked") if knows_cdi() else _SAID_IN_CRI
    (tmp_path / "word").mkdir()
    write_cdi(tmp_path / "cdi", base=str(tmp_path), names=names)
    (tmp_path / "plugin.py").write_text(PLUGIN % {"base": str(tmp_path), "names": names})
    async with node.start("serve", str(tmp_path / "plugin.py"), "--log-level", "error") as serving:
        yield tmp_path
        serving.terminate()
        await serving.wait()


async def test_devices_give_what_they_give_on_containerd(node: Node, words: Path) -> None:
    if knows_cdi():
        shutil.copytree(words / "cdi", node.engine.base / "cdi", dirs_exist_ok=True)
    state = node.engine.base / "state/io.containerd.runtime.v2.task/k8s.io"
    options = ("--cdi-spec-dirs", str(words / "cdi"))
    async with node.up(*options):
        theirs = await started(node, state, base=words)
    async with node.node_up("--runtime", "oci", *options):
        ours = await started(node, node.root / "oci/containers", base=words)
    # A containerd with CDI 1.1.0 or later gives nodes the host's mode, as we do.
    assert theirs in ([ours, without_host_mode(ours)] if knows_cdi() else [as_said_in_cri(ours)])


def as_said_in_cri(part: OciSpec) -> OciSpec:
    """The same where a CDI device is told in the words of the CRI: a node is a copy of the host's, a mount has no
    options of its own."""
    devices = [{**each, "uid": 0, "gid": 0} for each in part["devices"]]
    options = ["rbind", "rprivate", "ro"]
    return {
        **part,
        "devices": devices,
        "mounts": [{**each, "type": "bind", "options": options} for each in part["mounts"]],
    }
