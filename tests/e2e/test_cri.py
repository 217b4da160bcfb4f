"""Pods on a real containerd: what they are granted arrives, and their end is told as a kubelet tells it."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

import pytest

from tests.e2e.bench_cri import (
    FUSE,
    Node,
    container,
    pod,
    until_event,
    until_waiting,
)
from tests.e2e.containerd import knows_cdi
from tests.e2e.images import BUSYBOX, ECHO

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

LOOK: Final = """
echo $GOPHER
(exec 3<>/dev/gopher) && echo opened
mknod /tmp/kvm c 10 232 && (exec 3<>/tmp/kvm) 2>&1 | sed "s/.*: //"
touch /gopher/new 2>/dev/null || echo read-only
cat /gopher/word
"""
SURROUNDED: Final = """
hostname
cat /etc/resolv.conf
tail -n1 /etc/hosts
echo $(id -u) $(id -G)
stat -c %g /v
touch /new 2>/dev/null || echo read-only
cat /proc/sys/net/ipv4/ip_unprivileged_port_start
grep -h Seccomp: /proc/self/status
grep -h NoNewPrivs: /proc/self/status
grep -h CapBnd: /proc/self/status
test $$ != 1 && echo not first
echo farewell > /dev/termination-log
"""


def cdi(name: str) -> dict[str, Any]:
    """Of a container that is given a CDI device."""
    return {"resources": {"limits": {f"example.com/{name}": "1"}}}


@pytest.mark.usefixtures("plugin")
async def test_a_granted_device_arrives_and_no_other(node: Node) -> None:
    async with node.up():
        await node.apply(pod("looks", LOOK, restart="Never", **FUSE))
        await node.ended("looks", "Succeeded")
        assert await node.log("looks") == "f0\nopened\nOperation not permitted\nread-only\nhello\n"


@pytest.mark.usefixtures("plugin")
async def test_init_container_hands_its_device_on_and_the_sidecar_stays(node: Node) -> None:
    note: dict[str, Any] = {"volumeMounts": [{"name": "notes", "mountPath": "/notes"}]}
    init = {"name": "init", "image": BUSYBOX, "command": ["sh", "-c", "echo $GOPHER > /notes/had"], **FUSE, **note}
    sidecar = {"name": "side", "image": BUSYBOX, "command": ["sleep", "1000"], "restartPolicy": "Always"}
    spec = {"initContainers": [init, sidecar], "volumes": [{"name": "notes", "emptyDir": {}}]}
    async with node.up():
        await node.apply(
            pod("reuses", "echo had $(cat /notes/had), have $GOPHER; sleep 1000", **FUSE, **note, spec=spec)
        )
        await node.wait("reuses", "condition=Ready")
        async with node.start("pod", "logs", "-f", "reuses") as log:
            await node.line_with(log, "had f0, have f0")
        done = await node("pod", "exec", "reuses", "-c", "side", "--", "hostname")
        assert (done.code, done.out) == (0, "reuses\n")


@pytest.mark.usefixtures("plugin")
async def test_cdi_devices_arrive_whether_or_not_the_engine_knows_cdi(node: Node, tmp_path: Path) -> None:
    edits = {"env": ["CDI=yes"], "deviceNodes": [{"path": "/dev/cdi", "hostPath": "/dev/fuse", "permissions": "rw"}]}
    hooks = {"hooks": [{"hookName": "createRuntime", "path": "/bin/true"}]}
    devices = [{"name": "plain", "containerEdits": edits}, {"name": "hooked", "containerEdits": hooks}]
    directory = (node.engine.base if knows_cdi() else tmp_path) / "cdi"
    directory.mkdir(exist_ok=True)
    spec = {"cdiVersion": "0.6.0", "kind": "example.com/cdi", "devices": devices}
    (directory / "spec.json").write_text(json.dumps(spec))
    async with node.up("--cdi-spec-dirs", str(directory)):
        await node.apply(
            pod("plain", "echo $CDI; (exec 3<>/dev/cdi) && echo opened", restart="Never", **cdi("plain")),
            pod("hooked", "true", restart="Never", **cdi("hooked")),
        )
        await node.ended("plain", "Succeeded")
        assert await node.log("plain") == "yes\nopened\n"
        if knows_cdi():
            await node.ended("hooked", "Succeeded")
        else:
            await until_event(node, "Failed", "an engine without CDI cannot be given hooks")


async def test_surroundings_are_those_the_pod_asks_for(node: Node) -> None:
    spec = {
        "hostname": "front",
        "dnsPolicy": "None",
        "dnsConfig": {
            "nameservers": ["10.9.8.7"],
            "searches": ["a.example"],
            "options": [{"name": "ndots", "value": "3"}],
        },
        "hostAliases": [{"ip": "10.9.8.6", "hostnames": ["six", "six.example"]}],
        "shareProcessNamespace": True,
        "volumes": [{"name": "v", "emptyDir": {}}],
        "securityContext": {
            "runAsUser": 1000,
            "runAsGroup": 1001,
            "fsGroup": 2000,
            "supplementalGroups": [3000],
            "seccompProfile": {"type": "RuntimeDefault"},
            "sysctls": [{"name": "net.ipv4.ip_unprivileged_port_start", "value": "80"}],
        },
    }
    own: dict[str, Any] = {
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
        "securityContext": {
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    async with node.up():
        await node.apply(pod("asks", SURROUNDED, restart="Never", spec=spec, **own))
        end = await node.ended("asks", "Succeeded")
        assert (await node.log("asks")).splitlines() == [
            "front",
            "search a.example",
            "nameserver 10.9.8.7",
            "options ndots:3",
            "10.9.8.6\tsix\tsix.example",
            "1000 1001 2000 3000",
            "2000",
            "read-only",
            "80",
            "Seccomp:\t2",
            "NoNewPrivs:\t1",
            "CapBnd:\t0000000000000000",
            "not first",
        ]
        assert end["message"] == "farewell\n"


async def test_a_missing_mount_is_made_with_an_event_or_refused(node: Node, tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    volumes = {"volumes": [{"name": "host", "hostPath": {"path": str(missing)}}]}
    mount: dict[str, Any] = {"volumeMounts": [{"name": "host", "mountPath": "/host"}]}
    async with node.up("--on-missing-mount", "refuse"):
        await node.apply(pod("mounts", "true", **mount, spec=volumes))
        await node.wait("mounts", "jsonpath={.status.containerStatuses[0].state.waiting.reason}=CreateContainerError")
        assert not missing.exists()
        await node("pod", "delete", "mounts")
    async with node.up():
        await node.apply(pod("made", "ls /host", restart="Never", **mount, spec=volumes))
        await node.ended("made", "Succeeded")
        assert missing.is_dir()
        assert f"{missing}, which the pod mounts at /host, did not exist on the host" in (await node("events")).out


async def test_the_engine_looks_for_device_nodes_and_says_what_is_missing(node: Node, tmp_path: Path) -> None:
    """It may see other nodes than the node's process does."""
    (tmp_path / "absent.py").write_text(
        "from plugbay import Device, DeviceNode, plugin\n"
        '@plugin("example.com/absent")\n'
        "def discover():\n"
        '    return [Device("a", device_nodes=[DeviceNode("/dev/plugbay-absent")])]\n'
    )
    async with node.up(), node.start("serve", str(tmp_path / "absent.py"), "--log-level", "error") as serving:
        await node.apply(pod("waits", "true", resources={"limits": {"example.com/absent": "1"}}))
        await node.wait("waits", "jsonpath={.status.containerStatuses[0].state.waiting.reason}=CreateContainerError")
        message = (await node.pod("waits"))["status"]["containerStatuses"][0]["state"]["waiting"]["message"]
        assert "lstat /dev/plugbay-absent: no such file or directory" in message
        assert message.startswith('failed to generate container "'), message
        serving.terminate()
        await serving.wait()


async def test_images_say_what_runs_or_why_nothing_does(node: Node) -> None:
    async with node.up():
        await node.apply(
            pod("says", image=ECHO, restart="Never"),
            pod("told", image=ECHO, restart="Never", args=["$(WHO)"], env=[{"name": "WHO", "value": "gopher"}]),
            pod("absent", image="localhost/test/none:1", imagePullPolicy="Never"),
            pod("unreached", image="127.0.0.1:1/none:1"),
            pod("misspelt", image="Localhost/TEST"),
        )
        await node.ended("says", "Succeeded")
        await node.ended("told", "Succeeded")
        assert await node.log("says") == "image says\n"
        assert "sha256:" in container(await node.pod("says"))["imageID"]
        assert await node.log("told") == "image gopher\n"
        waiting = "jsonpath={.status.containerStatuses[0].state.waiting.reason}="
        await node.wait("absent", waiting + "ErrImageNeverPull")
        await node.wait("unreached", waiting + "ImagePullBackOff")
        await node.wait("misspelt", waiting + "InvalidImageName")
        await until_waiting(node, "unreached", 'Back-off pulling image "127.0.0.1:1/none:1": ErrImagePull: rpc error: ')


async def test_containers_end_as_a_kubelet_tells_it(node: Node) -> None:
    async with node.up():
        await node.apply(
            pod("well", "exit 0", restart="Never"),
            pod("badly", "echo bad >&2; exit 3", restart="Never", terminationMessagePolicy="FallbackToLogsOnError"),
            pod("never", restart="Never", command=["/no/such"]),
            pod("eats", "tail /dev/zero", restart="Never", resources={"limits": {"memory": "24Mi"}}),
        )
        well, badly = await node.ended("well", "Succeeded"), await node.ended("badly", "Failed")
        assert (well["exitCode"], well["reason"]) == (0, "Completed")
        assert (badly["exitCode"], badly["reason"], badly["message"]) == (3, "Error", "bad\n")
        never = await node.ended("never", "Failed")
        assert (never["exitCode"], never["reason"]) == (128, "StartError")
        assert "/no/such" in never["message"]
        assert 'container "main" in pod "never" is terminated' in (await node("pod", "logs", "never")).err
        eats = await node.ended("eats", "Failed")
        assert (eats["exitCode"], eats["reason"]) == (137, "OOMKilled")
        assert await node.log("badly") == "bad\n"


async def test_events_tell_the_life_of_a_pod(node: Node) -> None:
    async with node.up():
        await node.apply(
            pod("lives", "sleep 1000"),
            pod("crashes", "exit 1"),
            pod("root", "true", securityContext={"runAsNonRoot": True}),
            pod("unreached", image="127.0.0.1:1/none:1"),
        )
        waiting = "jsonpath={.status.containerStatuses[0].state.waiting.reason}="
        await node.wait("lives", "condition=Ready")
        await node.wait("crashes", waiting + "CrashLoopBackOff")
        await node.wait("root", waiting + "CreateContainerConfigError")
        await node.wait("unreached", waiting + "ImagePullBackOff")
        await node("pod", "delete", "lives")
        told = json.loads((await node("events", "-o", "json")).out)["items"]
        reasons: dict[str, list[str]] = defaultdict(list)
        for event in told:
            reasons[event["involvedObject"]["name"]].append(event["reason"])
        assert [each for each in reasons["lives"] if each != "Scheduled"] == ["Pulled", "Created", "Started", "Killing"]
        assert {"Pulled", "Created", "Started", "BackOff"} <= set(reasons["crashes"])
        assert {"Pulled", "Failed"} <= set(reasons["root"])
        assert {"Pulling", "Failed", "BackOff"} <= set(reasons["unreached"])
        messages = {event["message"] for event in told}
        assert {"Error: ErrImagePull", "Error: ImagePullBackOff", 'Pulling image "127.0.0.1:1/none:1"'} <= messages


async def test_a_full_log_is_rotated_and_followed_without_a_gap(node: Node) -> None:
    """The engine writes it all before the first look of the node, and the rest after the second."""
    script = "n=0; while [ $n -lt 50000 ]; do n=$((n+1)); echo $n; done; sleep 15; echo end; sleep 1000"
    async with node.up("--container-log-max-size", "100k", "--container-log-max-files", "3"):
        await node.apply(pod("talks", script, restart="Never"))
        await node.wait("talks", "condition=Ready")
        async with node.start("pod", "logs", "-f", "talks") as log:
            assert log.stdout is not None
            seen = [(await log.stdout.readline()).decode().strip() for _ in range(50001)]
        assert seen == [*map(str, range(1, 50001)), "end"]
        (directory,) = (node.root / "logs" / "pods").glob("*/main")
        assert len(list(directory.iterdir())) == 2
        assert (await node.log("talks")).splitlines() == seen
        assert await node.log("talks", "--tail", "3") == "49999\n50000\nend\n"


@pytest.mark.parametrize("is_apart", [False, True], ids=["same-mounts", "mounts-apart"])
async def test_sub_path_reaches_the_volume_and_goes_with_the_pod(node: Node, is_apart: bool) -> None:
    spec = {"volumes": [{"name": "v", "emptyDir": {}}]}
    mount: dict[str, Any] = {"volumeMounts": [{"name": "v", "mountPath": "/in", "subPath": "a/b"}]}
    if not is_apart:
        node = node.inside("--mount")
    async with node.up():
        await node.apply(pod("parts", "touch /in/mark; sleep 600", **mount, spec=spec))
        await node.wait("parts", "condition=Ready")
        uid = (await node.pod("parts"))["metadata"]["uid"]
        own = node.root / "pods" / uid
        assert (await node("pod", "exec", "parts", "--", "ls", "/in")).out == "mark\n"
        assert (own / "volumes/kubernetes.io~empty-dir/v/a/b/mark").exists()
        assert (own / "volume-subpaths").exists() is not is_apart
        assert (await node("pod", "delete", "parts", "--grace-period", "1")).code == 0
        assert not own.exists()
