"""`plugbay doctor` on nodes with one fault each: every fault has its own finding, and a node that is well has none."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from plugbay.model.edits import ContainerEdits, DeviceNode, Mount
from plugbay.observe.doctor.catalogue import CHECKS, examine
from plugbay.observe.doctor.evidence.machine_values import HostFile
from plugbay.observe.doctor.evidence.reading import read_evidence
from plugbay.observe.doctor.evidence.values import (
    ContainerSight,
    Examined,
    PodSight,
    ReleaseSight,
    SocketSight,
)
from plugbay.observe.doctor.finding import Diagnosis
from plugbay.observe.view import SocketState
from tests.contract.rigs.node_on_disk import CDI, GPU, PLUGIN, SPEC, UID, WEB, NodeOnDisk, entry

OTHER: Final = "7c1e8a90-0000-4000-8000-000000000002"
Fault = Callable[[NodeOnDisk], object]
SILENCE_S: Final = 3.0


async def examined(node: NodeOnDisk) -> tuple[Examined, Diagnosis]:
    async with node.up() as host:
        evidence = await read_evidence(host, objects=node.objects)
    return evidence, examine(evidence)


def ids(diagnosis: Diagnosis) -> set[str]:
    return {each.check.id for each in diagnosis.findings}


async def test_a_node_that_is_well_has_no_finding_and_no_gap(sockets: Path) -> None:
    evidence, diagnosis = await examined(NodeOnDisk(sockets))
    assert [str(each) for each in evidence.gaps] == []
    assert [each.seen.what for each in diagnosis.findings] == []
    assert diagnosis.is_well
    assert diagnosis.checks == len(CHECKS)


# --- faults on disk and on sockets -----------------------------------------------------------------------------------


def _no_kubelet(node: NodeOnDisk) -> None:
    shutil.rmtree(node.plugins)
    node.has_kubelet = node.has_plugin = False


def _lost_listener(node: NodeOnDisk) -> None:
    line = "0000000000000000: 00000002 00000000 00010000 0001 01 77 /var/lib/kubelet/device-plugins/x.sock\n"
    (node.process / "net/unix").write_text(f"Num RefCount Protocol Flags Type St Inode Path\n{line}")
    (node.process / "fd/7").symlink_to("socket:[77]")


def _long_path(node: NodeOnDisk) -> None:
    (node.plugins / f"{'x' * 90}.sock").symlink_to(PLUGIN)


def _label(node: NodeOnDisk) -> None:
    node.write("sys/fs/selinux/enforce", "1")
    node.host["label_of"] = lambda _: "system_u:object_r:var_lib_t:s0"


def _denial(node: NodeOnDisk) -> None:
    node.write(
        "var/log/audit/audit.log",
        'type=AVC msg=audit(1.2:3): avc:  denied  { write } for  pid=9 comm="plugin" name="device-plugins"\n',
    )


def _refused(node: NodeOnDisk) -> None:
    node.log(
        'E1123 10:00:01.0 812 server.go:1] "Bad registration request from device plugin" '
        'err="the ResourceName \\"gpu\\" is invalid"'
    )


def _old_checkpoint(node: NodeOnDisk) -> None:
    golden = Path(__file__).parents[2] / "golden/checkpoints/90-old-format.json"
    node.checkpoint.write_text(json.loads(golden.read_text())["file_text"])


def _foreign(node: NodeOnDisk) -> None:
    node.entries = [entry(OTHER, "of-another-machine")]
    node.held = {}
    node.write_checkpoint()


def _stale(node: NodeOnDisk) -> None:
    node.entries.append(entry(OTHER, "g1"))
    node.write_checkpoint()


def _last_pod_gone(node: NodeOnDisk) -> None:
    """A kubelet keeps the entries of the last pod with devices until the next one comes."""
    node.entries = [entry(OTHER, "g0")]
    node.held = {}
    node.write_checkpoint()


def _two_owners(node: NodeOnDisk) -> None:
    node.pod(OTHER, "db")
    node.entries.append(entry(OTHER, "g0"))
    node.held["default", "db"] = {"main": {GPU: ["g0"]}}
    node.write_checkpoint()


def _old_file(node: NodeOnDisk, path: Path) -> None:
    path.write_text("")
    os.utime(path, (node.now_s - 7200, node.now_s - 7200))


def _no_socket(node: NodeOnDisk) -> None:
    node.has_pod_resources = False


def _silent_pod_resources(node: NodeOnDisk) -> None:
    node.has_pod_resources = False
    node.silent.append(node.kubelet / "pod-resources/kubelet.sock")


def _down(node: NodeOnDisk) -> None:
    node.has_kubelet = False


def _engine_down(node: NodeOnDisk) -> None:
    node.has_engine = False
    (node.root / "run/containerd").mkdir(parents=True)
    node.dead_socket(node.root / "run/containerd/containerd.sock")


def _registered(node: NodeOnDisk) -> None:
    node.registered[GPU].append("g2")
    node.write_checkpoint()


def _flapping(node: NodeOnDisk) -> None:
    for second in range(10):
        node.log(
            f'I1123 10:00:0{second}.0 812 server.go:1] "Got registration request from device plugin with resource" '
            f'resourceName="{GPU}"'
        )


def _event(node: NodeOnDisk) -> None:
    node.log(
        'I1123 10:00:01.0 812 event.go:389] "Event occurred" object="default/train" fieldPath="" kind="Pod" '
        'type="Warning" reason="UnexpectedAdmissionError" message="Allocate failed due to requested number of devices '
        f'unavailable for {GPU}. Requested: 2, Available: 1, which is unexpected"'
    )


def _pod_object(**status: Any) -> dict[str, Any]:
    metadata = {"name": "train", "namespace": "default", "uid": OTHER}
    metadata |= status.pop("metadata", {})
    return {"kind": "Pod", "metadata": metadata, "spec": {"containers": [{"name": "main"}]}, "status": status}


def _failed(reason: str, message: str) -> Fault:
    return lambda node: node.objects_file(_pod_object(phase="Failed", reason=reason, message=message))


def _unschedulable(node: NodeOnDisk) -> None:
    message = f"0/1 nodes are available: 1 Insufficient {GPU}."
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    node.objects_file(_pod_object(phase="Pending", conditions=[condition]))


def _waiting(message: str) -> Fault:
    waiting = {"waiting": {"reason": "CreateContainerError", "message": message}}
    status = [{"name": "main", "state": waiting}]
    return lambda node: node.objects_file(_pod_object(phase="Pending", containerStatuses=status))


def _ending(node: NodeOnDisk) -> None:
    since = datetime.now(UTC) - timedelta(hours=1)
    node.objects_file(_pod_object(phase="Running", metadata={"deletionTimestamp": since.isoformat()}))


def _gone_node(node: NodeOnDisk) -> None:
    edits = ContainerEdits(device_nodes=[DeviceNode("/dev/gone0")], mounts=[Mount("/opt/gpu")], cdi_devices=[CDI])
    node.entries = [entry(UID, "g0", edits=edits)]
    node.write_checkpoint()


def _conflict(node: NodeOnDisk) -> None:
    for name in ("a", "b"):
        node.write(f"etc/cdi/{name}.yaml", SPEC.replace("name: g0", "name: g7"))


def _no_spec(node: NodeOnDisk) -> None:
    (node.root / "etc/cdi/vendor.yaml").unlink()


def _no_library(node: NodeOnDisk) -> None:
    (node.root / "opt/gpu/lib.so").unlink()


def _cgroup_v1(node: NodeOnDisk) -> None:
    (node.root / "sys/fs/cgroup/cgroup.controllers").unlink()
    (node.root / "sys/fs/cgroup/devices").mkdir()


def _future(node: NodeOnDisk) -> None:
    os.utime(node.checkpoint, (node.now_s + 3600, node.now_s + 3600))


def _space(**changes: int) -> Fault:
    usual = {"f_blocks": 1000, "f_bavail": 500, "f_frsize": 1 << 20, "f_files": 1000, "f_favail": 500, "f_flag": 0}
    return lambda node: node.host.update(space_of=lambda _: SimpleNamespace(**(usual | changes)))


def _many_nodes(node: NodeOnDisk) -> None:
    for number in range(1, 9):
        (node.root / f"sys/devices/system/node/node{number}").mkdir()
    node.write("var/lib/kubelet/config.yaml", "topologyManagerPolicy: restricted\n")


def _journal(node: NodeOnDisk) -> None:
    header = json.dumps({"resource": "example.com/scratch"})
    node.write("var/lib/kubelet/device-plugins/.plugbay/x.journal", f"00000000 {header}\n00000000 {{}}\n")


def _containerd(version: str) -> Fault:
    """containerd with a configuration that says nothing of CDI, as it was made for 1.7."""

    def make(node: NodeOnDisk) -> None:
        node.write("etc/containerd/config.toml", "version = 2\n")
        node.engine_version = version

    return make


def _unlink_network(node: NodeOnDisk) -> None:
    (node.root / "etc/cni/net.d/10-pods.conflist").unlink()


ON_DISK: Final[list[tuple[str, Fault]]] = [
    ("PBD101", _no_kubelet),
    ("PBD102", _down),
    ("PBD103", lambda node: node.dead_socket(node.plugins / "vendor.sock")),
    ("PBD104", _lost_listener),
    ("PBD105", lambda node: node.dead_socket(node.kubelet / "plugins_registry/vendor.sock")),
    ("PBD106", lambda node: node.silent.append(node.plugins / "vendor.sock")),
    ("PBD107", _long_path),
    ("PBD108", lambda node: node.plugins.chmod(0o777)),
    ("PBD109", _label),
    ("PBD110", _denial),
    ("PBD112", _refused),
    ("PBD113", lambda node: node.host.update(other_root="/var/lib/plugbay")),
    ("PBD201", lambda node: node.checkpoint.write_text('{"Data":{')),
    ("PBD202", _old_checkpoint),
    ("PBD203", _foreign),
    ("PBD204", _stale),
    ("PBD204", _last_pod_gone),
    ("PBD205", _two_owners),
    ("PBD206", lambda node: node.held.update({WEB: {"main": {GPU: ["g1"]}}})),
    ("PBD207", lambda node: node.checkpoint.chmod(0o644)),
    ("PBD208", lambda node: _old_file(node, node.plugins / ".kubelet_internal_checkpoint123")),
    ("PBD209", _no_socket),
    ("PBD210", _silent_pod_resources),
    ("PBD301", lambda node: node.allocatable.clear()),
    ("PBD302", _registered),
    ("PBD303", lambda node: node.allocatable.update({GPU: ["g1"]})),
    ("PBD305", _flapping),
    ("PBD401", _event),
    (
        "PBD401",
        _failed("UnexpectedAdmissionError", "Pod was rejected: Allocate failed due to rpc error: code = Unknown"),
    ),
    ("PBD402", _failed(f"OutOf{GPU}", f"Pod was rejected: Node didn't have enough resource: {GPU}, requested: 2")),
    ("PBD403", _failed("TopologyAffinityError", "Resources cannot be allocated with Topology locality")),
    ("PBD404", _unschedulable),
    ("PBD405", _waiting("CDI device injection failed: unresolvable CDI devices vendor.example/gpu=g9")),
    ("PBD406", _waiting("device plugin PreStartContainer rpc failed with err: rpc error: code = Unavailable")),
    ("PBD407", _ending),
    ("PBD501", lambda node: node.write("etc/cdi/bad.yaml", "cdiVersion: 0.5.0\nkind: x.example/y\nsurprise: 1\n")),
    ("PBD502", _conflict),
    ("PBD503", _no_spec),
    ("PBD504", _no_library),
    ("PBD505", _containerd("1.7.27")),
    (
        "PBD506",
        lambda node: node.write(
            "etc/containerd/config.toml",
            "version = 3\n[plugins.'io.containerd.cri.v1.runtime']\ncdi_spec_dirs = ['/opt/cdi']\n",
        ),
    ),
    ("PBD507", lambda node: _old_file(node, node.root / "etc/cdi/spec.1234.tmp")),
    ("PBD508", lambda node: node.write("etc/cdi/other.yml", "")),
    ("PBD509", _engine_down),
    ("PBD511", _gone_node),
    ("PBD601", lambda node: shutil.rmtree(node.root / "etc/cni")),
    ("PBD601", _unlink_network),
    ("PBD602", lambda node: node.write("etc/cni/net.d/20-bad.conflist", "{")),
    ("PBD603", lambda node: (node.root / "opt/cni/bin/portmap").unlink()),
    ("PBD701", lambda node: node.log('server.go:1] "Kubelet version" kubeletVersion="v1.26.4"')),
    (
        "PBD702",
        lambda node: node.write("var/lib/kubelet/config.yaml", "featureGates: {DevicePluginCDIDevices: false}\n"),
    ),
    ("PBD703", lambda node: node.write("var/lib/kubelet/config.yaml", "cpuManagerPolicy: static\n")),
    ("PBD704", _cgroup_v1),
    ("PBD705", _future),
    ("PBD706", lambda node: node.write("proc/sys/fs/inotify/max_user_instances", "8")),
    ("PBD707", _space(f_bavail=50)),
    ("PBD707", _space(f_favail=10)),
    ("PBD708", _space(f_flag=os.ST_RDONLY)),
    ("PBD709", _many_nodes),
    ("PBD710", _journal),
]


@pytest.mark.parametrize(("expected", "fault"), ON_DISK, ids=[f"{at}-{name}" for at, (name, _) in enumerate(ON_DISK)])
async def test_each_fault_has_exactly_its_finding(expected: str, fault: Fault, sockets: Path) -> None:
    node = NodeOnDisk(sockets)
    fault(node)
    if node.silent:  # the test has to wait until its time is over
        node.host["answer_s"] = SILENCE_S
    evidence, diagnosis = await examined(node)
    assert ids(diagnosis) == {expected}, [str(each.seen) for each in diagnosis.findings]
    for finding in diagnosis.findings:
        assert finding.seen.evidence, "a finding without evidence"
    gaps = [str(each) for each in evidence.gaps]
    assert gaps == [] or expected in ("PBD210",), gaps


async def test_damaged_state_of_a_resource_manager_is_not_taken_for_another_policy(sockets: Path) -> None:
    node = NodeOnDisk(sockets)
    node.write("var/lib/kubelet/cpu_manager_state", "[" * 100_000)
    _, diagnosis = await examined(node)
    said = [each.seen.what for each in diagnosis.findings]
    assert said == ["The kubelet will not start again: cpu_manager_state is damaged"]


# --- faults that no directory of a test can have: of other processes, device nodes, our own node ----------------------


def _second_plugin(evidence: Examined) -> Examined:
    second = SocketSight("/var/lib/kubelet/device-plugins/other.sock", SocketState.LISTENING, pid=4, resource=GPU)
    return replace(evidence, sockets=(*evidence.sockets, second))


def _never_registered(evidence: Examined) -> Examined:
    (served,) = evidence.sockets
    stranger = replace(served, path=served.path.replace("gpu", "nic"), resource="example.com/nic", changed_s=1)
    return replace(evidence, sockets=(served, stranger))


def _unreleased(evidence: Examined) -> Examined:
    return replace(evidence, releases=(ReleaseSight(GPU, ("g1",), "default/old", "2020-01-01T00:00:00Z", 3),))


def _closed_node(evidence: Examined) -> Examined:
    pod = PodSight(UID, *WEB, "Running", containers=(ContainerSight("main", user=1000),), has_directory=True)
    node = HostFile("/dev/gpu0", "container main", 0o020660, 0, 44, "device node", UID, "main", GPU)
    return replace(evidence, pods=(pod,), machine=replace(evidence.machine, given=(node,)))


IN_EVIDENCE: Final = {
    "PBD104": _never_registered,
    "PBD111": _second_plugin,
    "PBD304": _unreleased,
    "PBD512": _closed_node,
}


@pytest.mark.parametrize("expected", IN_EVIDENCE)
async def test_each_fault_in_what_was_read_has_exactly_its_finding(expected: str, sockets: Path) -> None:
    evidence, _ = await examined(NodeOnDisk(sockets))
    assert ids(examine(IN_EVIDENCE[expected](evidence))) == {expected}


def test_every_check_has_a_broken_node() -> None:
    assert {each.id for each in CHECKS} == {name for name, _ in ON_DISK} | set(IN_EVIDENCE)


# --- where the log is ------------------------------------------------------------------------------------------------


def _journal_program(node: NodeOnDisk, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node whose kubelet logs to the journal, and a program that reads it, as far as doctor can tell."""
    (node.root / "var/log/kubelet.log").unlink()
    (node.root / "var/log/journal").mkdir()
    program = node.write("bin/journalctl", f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)


async def test_the_journal_is_read_where_there_is_no_log(sockets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = NodeOnDisk(sockets)
    _event(node)
    log = (node.root / "var/log/kubelet.log").read_text()
    node.write("journal.txt", log)
    _journal_program(node, f'[ "$2" = "{sockets}/var/log/journal" ] && cat {sockets}/journal.txt', monkeypatch)
    evidence, diagnosis = await examined(node)
    assert ids(diagnosis) == {"PBD401"}
    assert (evidence.kubelet.version, evidence.kubelet.version_from) == ("1.36.2", "its log")


async def test_a_journal_that_cannot_be_read_is_a_gap(sockets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = NodeOnDisk(sockets)
    _journal_program(
        node, "echo 'No journal files were opened due to insufficient permissions.' >&2; exit 1", monkeypatch
    )
    evidence, diagnosis = await examined(node)
    said = "journalctl: No journal files were opened due to insufficient permissions."
    assert [str(each) for each in evidence.gaps] == [said]
    assert {"PBD112", "PBD401"} <= {each.check.id for each in diagnosis.incomplete}
    assert not diagnosis.is_well


# --- what is not a fault ----------------------------------------------------------------------------------------------


def _replaced(node: NodeOnDisk) -> None:
    """A pod was refused, and another one of the same name runs by now."""
    node.log(
        'I1123 10:00:01.0 812 kubelet.go:1] "Pod admission denied" podUID="gone" pod="default/web" '
        'reason="UnexpectedAdmissionError" message="Allocate failed due to rpc error"'
    )


def _let_in(node: NodeOnDisk) -> None:
    """A plugin was refused, and is registered by now."""
    node.log(f'E1123 10:00:01.0 812 server.go:1] "Bad registration" err="the ResourceName \\"{GPU}\\" is invalid"')


def _of_other_nodes(node: NodeOnDisk) -> None:
    """Objects of a cluster: another node, and its pods."""
    node.write("proc/sys/kernel/hostname", "n1\n")
    for name, free in (("n1", "2"), ("n2", "0")):
        status = {"capacity": {GPU: "2"}, "allocatable": {GPU: free}, "nodeInfo": {"kubeletVersion": "v1.36.2"}}
        node.objects_file({"kind": "Node", "metadata": {"name": name}, "status": status})
    items = [json.loads(path.read_text())["items"][0] for path in node.objects]
    refused = _pod_object(phase="Failed", reason="UnexpectedAdmissionError", message="no")
    node.objects.clear()
    node.objects_file(*items, {**refused, "spec": {"nodeName": "n2"}})


def _set_elsewhere(node: NodeOnDisk) -> None:
    """A policy that a file of --config-dir may set."""
    (node.process / "cmdline").write_text("kubelet\0--config-dir=/etc/kubelet.d\0")
    node.write("var/lib/kubelet/cpu_manager_state", '{"policyName":"static"}')


def _set_by_a_flag(node: NodeOnDisk) -> None:
    """A flag overrides the file."""
    (node.process / "cmdline").write_text("kubelet\0--cpu-manager-policy=static\0")
    node.write("var/lib/kubelet/config.yaml", "cpuManagerPolicy: none\n")
    node.write("var/lib/kubelet/cpu_manager_state", '{"policyName":"static"}')


SOUND: Final = (_replaced, _let_in, _of_other_nodes, _set_elsewhere, _set_by_a_flag, _containerd("v2.1.3"))


@pytest.mark.parametrize("sound", SOUND)
async def test_what_looks_like_a_fault_is_not_told(sound: Fault, sockets: Path) -> None:
    node = NodeOnDisk(sockets)
    sound(node)
    _, diagnosis = await examined(node)
    assert [each.seen for each in diagnosis.findings] == []


@pytest.mark.parametrize("runtime", ["process", "oci", ""])
async def test_a_node_of_ours_needs_no_engine(runtime: str, sockets: Path) -> None:
    node = NodeOnDisk(sockets)
    _unlink_network(node)
    _engine_down(node)
    evidence, diagnosis = await examined(node)
    assert ids(diagnosis) == {"PBD509", "PBD601"}
    ours = replace(evidence, kubelet=replace(evidence.kubelet, is_ours=True, runtime=runtime))
    assert ids(examine(ours)) == set()
