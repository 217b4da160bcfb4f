"""``plugbay doctor`` as users call it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import time
from pathlib import Path

import pytest

from plugbay import HEALTHY, Device, plugin, unhealthy
from plugbay.cli.main import run
from plugbay.observe.doctor.catalogue import CHECKS, examine
from plugbay.observe.doctor.evidence.checkpoint import read_checkpoint
from plugbay.observe.doctor.evidence.host import Gaps, Host
from plugbay.observe.doctor.evidence.reading import read_evidence
from plugbay.observe.doctor.evidence.values import EvidenceSource
from plugbay.observe.doctor.finding import Diagnosis
from plugbay.testing.local.kubelet import LocalKubelet
from plugbay.testing.local.opening import local_kubelet
from tests.contract.rigs.node_on_disk import GPU, UID, NodeOnDisk

Shown = pytest.CaptureFixture[str]
WITHIN_S = 30


async def doctor(node: NodeOnDisk, *argv: str) -> int:
    """The exit code of the command on the node."""
    async with node.up() as host:
        return await asyncio.to_thread(run, ["doctor", "--host-root", str(host.root), "--timeout", "30s", *argv])


async def doctor_again(node: NodeOnDisk, *argv: str) -> int:
    """The same, on a node that was up and whose sockets were left."""
    (node.plugins / "kubelet.sock").unlink()
    (node.root / "run/containerd/containerd.sock").unlink()
    (node.root / "run/containerd").rmdir()
    return await doctor(node, *argv)


@pytest.fixture
def node(sockets: Path) -> NodeOnDisk:
    return NodeOnDisk(sockets)


async def test_a_node_that_is_well_gets_one_line(node: NodeOnDisk, capsys: Shown) -> None:
    assert await doctor(node) == 0
    told = f"The node at /var/lib/kubelet is well: {len(CHECKS)} checks found nothing wrong.\n"
    assert capsys.readouterr() == (told, "")


async def test_findings_come_with_evidence_cause_and_remedy_the_gravest_first(node: NodeOnDisk, capsys: Shown) -> None:
    node.dead_socket(node.plugins / "vendor.sock")
    (node.root / "opt/cni/bin/portmap").unlink()
    assert await doctor(node) == 3
    told = capsys.readouterr().out
    assert told.index("error PBD603: The network pods wants plugins that are not installed: portmap.") < told.index(
        "warning PBD103: A plugin's socket is left over."
    )
    words = " ".join(told.split())
    assert "seen: /var/lib/kubelet/device-plugins/vendor.sock: no process listens" in words
    assert "cause: The plugin was killed or has crashed" in words
    assert "remedy: Start the plugin again." in words
    assert words.endswith(f"The node at /var/lib/kubelet: 1 error, 1 warning, by {len(CHECKS)} checks.")


async def test_json_has_the_same_and_the_exit_code_tells_warnings(node: NodeOnDisk, capsys: Shown) -> None:
    node.dead_socket(node.plugins / "vendor.sock")
    assert await doctor(node, "--json") == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["well"], told["complete"], told["checks"]) == (False, True, len(CHECKS))
    (finding,) = told["findings"]
    assert finding["id"] == "PBD103"
    assert finding["severity"] == "warning"
    assert finding["page"] == "docs/doctor.md#pbd103"
    assert finding["evidence"] == ["/var/lib/kubelet/device-plugins/vendor.sock: no process listens"]


async def test_what_could_not_be_read_is_not_well(node: NodeOnDisk, capsys: Shown) -> None:
    registry = node.kubelet / "plugins_registry"
    registry.rmdir()
    registry.write_text("")
    assert await doctor(node) == 1
    told = " ".join(capsys.readouterr().out.split())
    assert "well" not in told
    assert "nothing wrong was found" in told
    assert "could not read /var/lib/kubelet/plugins_registry: Not a directory" in told
    blind = sum(EvidenceSource.SOCKETS in each.needs for each in CHECKS)
    assert f"by the {len(CHECKS) - blind} of {len(CHECKS)} checks that could see everything" in told
    assert "Incomplete, so that they would not have found everything: PBD102, PBD103, PBD104" in told


async def test_host_whose_proc_is_not_mounted_is_not_well(node: NodeOnDisk, capsys: Shown) -> None:
    shutil.rmtree(node.root / "proc")
    (node.root / "proc").mkdir()
    assert await doctor(node, "--id", "PBD104") == 1
    told = " ".join(capsys.readouterr().out.split())
    assert "well" not in told
    assert "could not read /proc: no process with a list of sockets is there" in told


async def test_hostile_texts_do_not_reach_the_terminal(node: NodeOnDisk, capsys: Shown) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\u202e\r\nplugbay: all is well"
    node.dead_socket(node.plugins / f"{evil[:20]}\udcff.sock")
    metadata = {"name": f"train{evil}", "namespace": "default", "uid": "u"}
    status = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": evil * 100}
    node.objects_file({"kind": "Pod", "metadata": metadata, "spec": {}, "status": status})
    assert await doctor(node, "--objects", str(node.objects[0])) == 3
    told = capsys.readouterr().out
    assert "PBD401" in told
    assert "PBD103" in told
    assert all(each.isprintable() or each == "\n" for each in told)
    assert not any(line.startswith("plugbay: all is well") for line in told.splitlines())
    assert await doctor_again(node, "--objects", str(node.objects[0]), "--json") == 3
    assert json.loads(capsys.readouterr().out)["well"] is False


async def test_fix_mends_what_harms_no_pod_and_a_dry_run_only_shows_it(node: NodeOnDisk, capsys: Shown) -> None:
    ours, theirs = node.plugins / "example.com_nic-0123abcd.sock", node.plugins / "vendor.sock"
    starting = node.plugins / "example.com_new-0123abcd.sock"
    for path in (ours, theirs, starting):
        node.dead_socket(path)
    os.utime(ours, (1, 1))
    os.utime(starting, (time.time() + 3600,) * 2)  # it stays young, however long the test takes
    unfinished = node.plugins / ".kubelet_internal_checkpoint77"
    unfinished.write_text("")
    os.utime(unfinished, (1, 1))
    networks = node.root / "etc/cni/net.d"
    for file in networks.iterdir():
        file.unlink()
    networks.rmdir()
    assert await doctor(node, "--fix", "--dry-run") == 0
    assert sorted(capsys.readouterr().out.splitlines()) == [
        "would make the directory /etc/cni/net.d",
        "would remove the file /var/lib/kubelet/device-plugins/.kubelet_internal_checkpoint77",
        "would remove the socket /var/lib/kubelet/device-plugins/example.com_new-0123abcd.sock",
        "would remove the socket /var/lib/kubelet/device-plugins/example.com_nic-0123abcd.sock",
    ]
    assert ours.exists()
    assert not networks.exists()
    assert await doctor_again(node, "--fix") == 3  # the directory is there, and empty
    told, refused = capsys.readouterr()
    assert "did remove the socket" in told
    assert "PBD208" not in told
    assert "example.com_new-0123abcd.sock: it was made a moment ago: its plugin may be starting" in refused
    assert starting.exists()
    assert not ours.exists()
    assert theirs.exists()
    assert not unfinished.exists()
    assert networks.is_dir()
    node.dead_socket(ours)
    os.utime(ours, (1, 1))
    assert await doctor_again(node, "--fix", "--json") == 3
    told, noted = capsys.readouterr()
    assert "PBD103" in {each["id"] for each in json.loads(told)["findings"]}
    assert "did remove the socket" in noted


async def test_a_pod_gets_its_own_reasons_and_those_of_the_whole_node(node: NodeOnDisk, capsys: Shown) -> None:
    node.allocatable = {GPU: ["g1"]}
    node.dead_socket(node.plugins / "example.com_nic-0123abcd.sock")  # of a resource that the pod does not have
    node.dead_socket(node.plugins / "vendor.sock")
    assert await doctor(node, "pod/web") == 3
    told = capsys.readouterr().out
    assert told.startswith(f"Pod default/web ({UID}): state not known\n  container main holds g0 of {GPU}\n")
    assert told.index("PBD303: Pod default/web holds g0") < told.index("PBD103")
    assert "example.com_nic" not in told
    assert "Pod default/web on the node at /var/lib/kubelet: 1 error, 1 warning" in told


async def test_a_pod_that_nothing_knows_is_an_error(node: NodeOnDisk, capsys: Shown) -> None:
    assert await doctor(node, "pod/nowhere") == 1
    assert 'plugbay: error: pods "default/nowhere" not found' in capsys.readouterr().err


def test_explain_and_list_look_at_nothing(capsys: Shown) -> None:
    assert run(["doctor", "--explain", "pbd104"]) == 0
    assert "Remedy: Restart the plugin" in capsys.readouterr().out
    assert run(["doctor", "--list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(CHECKS)
    with pytest.raises(SystemExit) as misused:
        run(["doctor", "--id", "PBD999"])
    assert misused.value.code == 2


def test_a_dry_run_without_fix_makes_no_sense(capsys: Shown) -> None:
    assert run(["doctor", "--dry-run"]) == 2
    assert "--dry-run belongs to --fix" in capsys.readouterr().err
    assert run(["doctor", "--fix", "--objects", "-"]) == 2
    assert "give --objects a file" in capsys.readouterr().err


# --- kubelets of ours -----------------------------------------------------------------------------------------------


def host_of(kubelet: LocalKubelet) -> Host:
    """A machine that has nothing but the kubelet's root."""
    root = kubelet.paths.root
    return Host(time.time(), root.parent, Path("/") / root.name, answer_s=WITHIN_S)


async def examined(kubelet: LocalKubelet) -> Diagnosis:
    evidence = await read_evidence(host_of(kubelet))
    return examine(evidence, [each for each in CHECKS if each.id != "PBD707"])  # the disk of this machine is its own


async def until_written(kubelet: LocalKubelet) -> None:
    """Wait until the checkpoint names the pod: our manager writes it when its store has it already."""
    async with asyncio.timeout(WITHIN_S):
        while not read_checkpoint(host_of(kubelet), Gaps()).entries:  # noqa: ASYNC110 - a file, which tells nothing
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(("is_node", "expected"), [(False, {"PBD303"}), (True, {"PBD302"})], ids=["manager", "node"])
async def test_a_kubelet_of_ours_is_well_until_a_device_fails(is_node: bool, expected: set[str]) -> None:
    failed: set[str] = set()

    @plugin("example.com/card", every=0.05)
    def cards() -> list[Device]:
        return [Device(each, health=unhealthy("Overheated") if each in failed else HEALTHY) for each in ("c0", "c1")]

    async with local_kubelet(within_s=WITHIN_S, node=is_node) as kubelet:
        await kubelet.plugin(cards)
        if not is_node:  # a device that a pod holds
            pod = await kubelet.admit({"example.com/card": 2})
            (kubelet.paths.root / "pods" / pod.uid).mkdir(parents=True)
            await until_written(kubelet)
        before = await examined(kubelet)
        assert [each.seen for each in before.findings] == []
        failed.add("c1")
        await kubelet.wait_for(allocatable={"example.com/card": 1})
        after = await examined(kubelet)
        assert {each.check.id for each in after.findings} == expected


def test_no_kubelet_is_one_error(tmp_path: Path, capsys: Shown) -> None:
    assert run(["doctor", "--host-root", str(tmp_path), "--id", "PBD1xx"]) == 3
    assert capsys.readouterr().out.count("error PBD") == 1
