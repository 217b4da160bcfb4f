"""Every directory of examples/, run with the commands its files name: a node, the plugin, the pods."""

from __future__ import annotations

import asyncio
import json
import os
import runpy
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from plugbay import Assignment
from plugbay.model.assignments import AssignmentKey
from plugbay.model.ids import DeviceId, ResourceName
from tests.contract.rigs.fake_pci import OWN, VFIO, FakePci
from tests.contract.rigs.oci import needs_fuse, why_not
from tests.contract.rigs.private_machine import needs_private_machine, private_machine
from tests.contract.rigs.stock_release import journal, until_files, until_kept

if TYPE_CHECKING:
    from tests.contract.conftest import Plugbay

EXAMPLES = Path(__file__).parents[3] / "examples"
PLUGINS = EXAMPLES / "resources" / "plugins.py"
DEADLINE_S = 30
needs_oci = pytest.mark.skipif(bool(why_not()), reason=why_not())
SUCCEEDED = "--for=jsonpath={.status.phase}=Succeeded"
READY = "--for=condition=Ready"


@asynccontextmanager
async def example(plugbay: Plugbay, *targets: str, **environ: str) -> AsyncIterator[None]:
    """A node, and a process that serves ``targets``, if there are any."""
    async with plugbay.node_up():
        if not targets:
            yield
            return
        streams = {"stderr": asyncio.subprocess.DEVNULL, "env": {**os.environ, **environ}}
        async with plugbay.start("serve", *targets, **streams) as plugin:
            yield
            plugin.terminate()
            async with asyncio.timeout(DEADLINE_S):
                assert await plugin.wait() == 0


async def apply(plugbay: Plugbay, path: str, *, until: str, pod: str) -> None:
    done = await plugbay("pod", "apply", "-f", str(EXAMPLES / path))
    assert f"pod/{pod} created\n" in done.out, done
    waited = await plugbay("pod", "wait", until, pod)
    assert waited == (0, f"pod/{pod} condition met\n", ""), (await plugbay("pod", "describe", pod)).out


async def logs(plugbay: Plugbay, *argv: str) -> list[str]:
    """All lines of a container that has ended."""
    done = await plugbay("pod", "logs", *argv)
    assert done.code == 0, done
    return done.out.splitlines()


async def first_line(plugbay: Plugbay, *argv: str) -> str:
    """Of a container that runs, and may not have written it yet."""
    async with plugbay.start("pod", "logs", "-f", *argv) as follow:
        return (await plugbay.line_with(follow, "\n")).rstrip("\n")


def test_every_example_is_run_here() -> None:
    directories = {path.name for path in EXAMPLES.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert directories == {name.removeprefix("test_example_") for name in globals() if name.startswith("test_example_")}


async def test_example_gopher(plugbay: Plugbay, tmp_path: Path) -> None:
    (tmp_path / "g1").touch()
    directory = ("directory", "--resource", "example.com/gopher", "--path", str(tmp_path), "--env", "Gopher")
    async with example(plugbay, *directory):
        await apply(plugbay, "gopher/pod.yaml", until=READY, pod="gopher-pod")
        assert "Gopher=g1\n" in (await plugbay("pod", "exec", "gopher-pod", "--", "env")).out
        assert (await plugbay("pod", "apply", "-f", str(EXAMPLES / "gopher/pod2.yaml"))).code == 0
        async with plugbay.start("events", "--for", "pod/gopher-pod2", "-w") as events:
            await plugbay.line_with(events, "1 Insufficient example.com/gopher")


async def test_example_reuse(plugbay: Plugbay) -> None:
    async with example(plugbay, str(PLUGINS)):
        await apply(plugbay, "reuse", until=READY, pod="reuse")
        assert await logs(plugbay, "reuse", "-c", "prepare") == ["prepared g1"]
        assert await first_line(plugbay, "reuse", "-c", "main") == "using g1"


async def test_example_sidecar(plugbay: Plugbay) -> None:
    async with example(plugbay, str(PLUGINS)):
        await apply(plugbay, "sidecar", until=SUCCEEDED, pod="sidecar")
        assert await logs(plugbay, "sidecar", "-c", "watcher") == ["watching with g1", "the app is done"]
        assert await logs(plugbay, "sidecar", "-c", "main") == ["working with g2"]


async def test_example_resources(plugbay: Plugbay) -> None:
    async with example(plugbay, str(PLUGINS)):
        await apply(plugbay, "resources/pod.yaml", until=READY, pod="two-resources")
        assert await first_line(plugbay, "two-resources") == "g1 lives in b1,b2"


@pytest.mark.skipif(not Path("/dev/fuse").exists(), reason="there is no /dev/fuse")
async def test_example_generic(plugbay: Plugbay) -> None:
    config = str(EXAMPLES / "generic" / "devices.yaml")
    offered = {row[0]: row[1] for row in (await plugbay("check", config)).rows}
    assert (offered["example.com/fuse"], "example.com/serial" in offered) == ("10", True)
    async with example(plugbay, "generic", "--config", config):
        await apply(plugbay, "generic/pod.yaml", until=READY, pod="fused")
        assert await first_line(plugbay, "fused") == "/dev/fuse"


async def test_example_volumes(plugbay: Plugbay) -> None:
    async with example(plugbay):
        await apply(plugbay, "volumes", until=SUCCEEDED, pod="volumes")
        assert await logs(plugbay, "volumes", "-c", "reader") == ["hello from the writer", "True"]


async def test_example_restarts(plugbay: Plugbay) -> None:
    async with example(plugbay):
        await apply(plugbay, "restarts", until=SUCCEEDED, pod="on-failure")
        assert await logs(plugbay, "on-failure") == ["succeeding the second time"]
        assert await logs(plugbay, "on-failure", "--previous") == ["failing the first time"]
        restarted = "--for=jsonpath={.status.containerStatuses[0].lastState.terminated.exitCode}=0"
        assert (await plugbay("pod", "wait", restarted, "always")).code == 0
        failed = "--for=jsonpath={.status.containerStatuses[0].state.terminated.exitCode}=3"
        assert (await plugbay("pod", "wait", failed, "never")).code == 0
        assert (await plugbay("pod", "get", "never")).rows[0][1:4] == ["0/1", "Error", "0"]


async def test_example_prestop(plugbay: Plugbay) -> None:
    async with example(plugbay):
        await apply(plugbay, "prestop", until=READY, pod="prestop")
        async with plugbay.start("pod", "logs", "-f", "prestop") as follow:
            await plugbay.line_with(follow, "working")
            assert (await plugbay("pod", "delete", "prestop")).code == 0
            await plugbay.line_with(follow, "finished what I was at")


async def test_example_poststart(plugbay: Plugbay) -> None:
    async with example(plugbay):
        await apply(plugbay, "poststart", until=READY, pod="poststart")
        async with plugbay.start("pod", "logs", "-f", "poststart") as follow:
            assert await plugbay.line_with(follow, "found") == "found: calibrated\n"


async def test_example_deadline(plugbay: Plugbay) -> None:
    async with example(plugbay):
        await apply(plugbay, "deadline", until="--for=jsonpath={.status.phase}=Failed", pod="deadline")
        page = [line.split() for line in (await plugbay("pod", "describe", "deadline")).out.splitlines()]
        assert ["Reason:", "DeadlineExceeded"] in page


async def test_example_env(plugbay: Plugbay) -> None:
    async with example(plugbay):
        await apply(plugbay, "env", until=SUCCEEDED, pod="env")
        assert await logs(plugbay, "env") == ["default/env on n1, team optics, keeps $(TEAM)"]


async def test_example_drain(plugbay: Plugbay) -> None:
    async with example(plugbay):
        await apply(plugbay, "drain", until=READY, pod="steady")
        drained = await plugbay("node", "drain", "n1")
        assert (drained.code, drained.err) == (0, "")
        assert {"pod/steady evicted", "pod/stubborn evicted"} <= set(drained.out.splitlines())
        assert (await plugbay("pod", "run", "later", "--", "sleep", "3600")).code == 0
        assert (await plugbay("pod", "get", "later")).rows[0][2] == "Pending"
        assert (await plugbay("node", "uncordon", "n1")).code == 0
        assert (await plugbay("pod", "wait", READY, "later")).code == 0


async def test_example_instruments(plugbay: Plugbay, tmp_path: Path) -> None:
    (tmp_path / "scope").mkdir()
    (tmp_path / "scope" / "s1").touch()
    config = str(EXAMPLES / "instruments/plugins.yaml")
    async with example(plugbay, "--config", config, LAB=str(tmp_path)):
        assert (await plugbay("pod", "apply", "-f", str(EXAMPLES / "instruments/pod.yaml"))).code == 0
        async with plugbay.start("events", "--for", "pod/measure", "-w") as events:
            await plugbay.line_with(events, "1 Insufficient lab.example.com/meter")
        (tmp_path / "meter").mkdir()
        (tmp_path / "meter" / "m1").touch()
        assert (await plugbay("pod", "wait", SUCCEEDED, "measure")).code == 0
        assert await logs(plugbay, "measure") == ["measuring with m1"]


async def test_example_hooks(plugbay: Plugbay, tmp_path: Path) -> None:
    kitchen, lab = tmp_path / "kitchen", tmp_path / "lab"
    for board in (kitchen, lab):
        board.mkdir()
    (kitchen / "milk").touch()
    (kitchen / "bread").touch()
    (lab / "sketch").touch()
    async with example(plugbay, str(EXAMPLES / "hooks/whiteboards.py"), WHITEBOARDS=str(tmp_path)):
        await apply(plugbay, "hooks/pod.yaml", until=SUCCEEDED, pod="hooks")
        assert await logs(plugbay, "hooks") == ["notes found: 0"]
    assert [path.name for path in lab.iterdir()] == ["note"]  # the emptier one was preferred, and wiped
    assert len(list(kitchen.iterdir())) == 2


async def test_example_static(plugbay: Plugbay, tmp_path: Path) -> None:
    manifest = tmp_path / "pod.yaml"
    async with plugbay.node_up("--manifests", str(tmp_path)):
        async with plugbay.start("pod", "get", "-w", stderr=asyncio.subprocess.STDOUT) as watch:
            await plugbay.line_with(watch, "No resources found")  # so that all that follows is from the watch
            shutil.copy(EXAMPLES / "static" / "pod.yaml", manifest)
            await plugbay.line_with(watch, "static-n1   1/1     Running")
            assert (await plugbay("pod", "delete", "static-n1", "--force", "--wait=false")).code == 0
            await plugbay.line_with(watch, "static-n1   0/1")  # the next one, on its way
            await plugbay.line_with(watch, "static-n1   1/1     Running")
        manifest.unlink()
        assert (await plugbay("pod", "wait", "--for=delete", "static-n1", "--timeout=40s")).code == 0


@needs_fuse
@needs_oci
async def test_example_oci(plugbay: Plugbay) -> None:
    node = EXAMPLES / "oci" / "nodes.py"
    async with (
        plugbay.node_up("--runtime", "oci"),
        plugbay.start("serve", str(node), stderr=asyncio.subprocess.DEVNULL),
    ):
        await apply(plugbay, "oci/pod.yaml", until=SUCCEEDED, pod="burrow")
        assert await logs(plugbay, "burrow") == ["opens /dev/plugged", "cat: /dev/other: Operation not permitted"]


@needs_private_machine
async def test_example_cni() -> None:
    page = (EXAMPLES / "cni" / "README.md").read_text()
    commands = page.split("```sh\n")[1].split("```")[0]
    setting = f"set -e; cd {EXAMPLES.parent}; PATH={Path(sys.executable).parent}:$PATH\n"
    async with private_machine() as machine:
        shown = await machine.text("sh", "-c", setting + commands)
        assert await machine.leavings() == ()
    valid, _, result = shown.partition("\n")
    assert valid.startswith("examples/cni/10-plugbay.conflist: valid: ")
    assert [each["interface"] for each in json.loads(result)["ips"]] == [2, 2]


async def test_fpga_is_given_whole_or_by_regions(plugbay: Plugbay) -> None:
    async with plugbay.node_up():
        for name, resource, count in (("whole", "fpga", 1), ("regions", "fpga-region", 2)):
            # A process each: the second one has to find out what the first has given away.
            async with plugbay.start("serve", str(EXAMPLES / "fpga_modes.py")) as plugin:
                done = await plugbay("pod", "apply", "-f", "-", given=fpga_pod(name, resource, count))
                assert done.code == 0, done
                assert (await plugbay("pod", "wait", READY, name)).code == 0, await plugbay("pod", "describe", name)
                plugin.terminate()
                async with asyncio.timeout(DEADLINE_S):
                    assert await plugin.wait() == 0
        assert await first_line(plugbay, "whole") == "fpga0"
        assert await first_line(plugbay, "regions") == "fpga1-region0,fpga1-region1"


def fpga_pod(name: str, resource: str, count: int) -> str:
    return f"""
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  containers:
  - name: main
    image: busybox
    command: [sh, -c, "echo $FPGAS$FPGA_REGIONS; exec sleep 3600"]
    resources: {{limits: {{example.com/{resource}: {count}}}}}
"""


on_any_kubelet = pytest.mark.parametrize(
    "gate", [("--feature-gates", "DeviceManagerDeallocate=true"), ()], ids=["called", "found-out"]
)
"""With a manager that tells plugins of the end of a use, and with one that does not, like kubelets."""
OFTEN = ("--release-interval", "500ms")


def one_device(name: str, resource: str, script: str) -> str:
    return f"""
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  restartPolicy: Never
  containers:
  - name: main
    image: busybox
    command: [sh, -c, '{script}']
    resources: {{limits: {{example.com/{resource}: 1}}}}
"""


def test_vfio_rebind_gives_back_what_a_crash_has_left_without_a_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pci = FakePci(tmp_path, "0000:3b:00.0")
    (pci.place / "driver").unlink()
    (pci.place / "driver_override").write_text("vfio-pci\n")
    monkeypatch.setenv("SYSFS", str(tmp_path))
    example = runpy.run_path(str(EXAMPLES / "vfio_rebind.py"))
    gone = "0000:99:00.0"
    example["PassThrough"]().release(
        Assignment(
            key=AssignmentKey("1"),
            resource=ResourceName("example.com/passthrough"),
            device_ids=(DeviceId(pci.address), DeviceId(gone)),
        )
    )
    assert (pci.place / "driver_override").read_text() == "\n"
    assert (pci.pci / "drivers_probe").read_text() == pci.address


@on_any_kubelet
async def test_vfio_rebind_gives_devices_back_to_their_driver(
    plugbay: Plugbay, tmp_path: Path, gate: tuple[str, ...]
) -> None:
    fake = FakePci(tmp_path / "sys", "0000:3b:00.0")
    dev = tmp_path / "dev"
    (dev / "vfio").mkdir(parents=True)
    for node in ("vfio", "7"):
        (dev / "vfio" / node).symlink_to("/dev/null")
    streams = {"env": {**os.environ, "SYSFS": str(tmp_path / "sys"), "DEV": str(dev)}}
    go, kept = tmp_path / "go", journal(plugbay.root, "example.com/passthrough")
    script = f"echo $PCI_ADDRESSES; readlink {fake.place}/driver; until [ -e {go} ]; do sleep 0.05; done"
    manifest = one_device("guest", "passthrough", script)
    serve = ("serve", str(EXAMPLES / "vfio_rebind.py"), *OFTEN)
    with fake.running():
        async with plugbay.node_up(*gate), plugbay.start(*serve, **streams):
            for _ in range(2):
                go.unlink(missing_ok=True)
                assert (await plugbay("pod", "apply", "-f", "-", given=manifest)).code == 0
                if not gate:
                    await until_kept(kept, fake.address)  # else its end is believed 10 s later
                go.touch()
                done = await plugbay("pod", "wait", SUCCEEDED, "guest")
                assert done.code == 0, (await plugbay("pod", "describe", "guest")).out
                assert await logs(plugbay, "guest") == ["0000:3b:00.0", str(fake.pci / "drivers" / VFIO)]
                assert (await plugbay("pod", "delete", "guest")).code == 0
            # The fake follows with a delay, and may miss that the device was its own driver's between the two pods.
            await until_files(
                [fake.place / "driver"], lambda: fake.history[-2:] == ["", OWN] and fake.history.count(VFIO) == 2
            )
            assert fake.history[:5] in ([OWN, "", VFIO, "", OWN], [OWN, "", VFIO, "", VFIO])


@on_any_kubelet
async def test_fpga_designs_are_gone_with_their_container(
    plugbay: Plugbay, tmp_path: Path, gate: tuple[str, ...]
) -> None:
    """The second container of the pod finds nothing of the first one's, though the board was not released."""
    board = tmp_path / "board0"
    board.mkdir()
    for name, text in (("design", ""), ("memory", ""), ("power", "save")):
        (board / name).write_text(text)
    streams = {"stderr": asyncio.subprocess.DEVNULL, "env": {**os.environ, "BOARDS": str(tmp_path)}}
    script = "cat $FPGA/design $FPGA/power $FPGA/memory; printf secret > $FPGA/memory"
    manifest = one_device("blink", "fpga-blink", script)
    _, _, container = manifest.partition("  containers:\n")
    manifest += f"  initContainers:\n{container.replace('main', 'prepare')}"
    serve = ("serve", str(EXAMPLES / "fpga_designs.py"), *OFTEN)
    async with plugbay.node_up(*gate), plugbay.start(*serve, **streams):
        assert (await plugbay("pod", "apply", "-f", "-", given=manifest)).code == 0
        done = await plugbay("pod", "wait", SUCCEEDED, "blink")
        assert done.code == 0, await plugbay("pod", "describe", "blink")
        assert await logs(plugbay, "blink", "-c", "prepare") == ["blinkon"]
        assert await logs(plugbay, "blink", "-c", "main") == ["blinkon"]
        files = [board / name for name in ("design", "memory", "power")]
        await until_files(files, lambda: [file.read_text() for file in files] == ["", "", "save"])
