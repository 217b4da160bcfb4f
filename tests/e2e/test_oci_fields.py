"""Fields of a pod, from its manifest to what its containers find, on a node with a pod network."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.contract.conftest import Plugbay
from tests.contract.rigs.oci import needs_limited_swap, why_not
from tests.contract.rigs.private_machine import needs_private_machine, private_machine
from tests.e2e.test_oci_node import Node, nothing_left, plugbay

__all__ = ["nothing_left", "plugbay"]

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
    pytest.mark.timeout(120),
]

SECURITY = {
    "runAsUser": 1000,
    "runAsGroup": 2000,
    "fsGroup": 3000,
    "supplementalGroups": [4000],
    "seccompProfile": {"type": "RuntimeDefault"},
    "sysctls": [{"name": "net.ipv4.tcp_fin_timeout", "value": "33"}],
}
SURROUNDINGS = {
    "hostname": "burrow",
    "dnsPolicy": "None",
    "dnsConfig": {
        "nameservers": ["10.0.0.9"],
        "searches": ["pod.example"],
        "options": [{"name": "ndots", "value": "2"}],
    },
    "hostAliases": [{"ip": "10.9.9.9", "hostnames": ["fox", "fox.example"]}],
    "volumes": [{"name": "notes", "emptyDir": {}}],
    "securityContext": SECURITY,
}
LOOK = """
echo $(id -u) $(id -G) $(stat -c %g:%a /tmp/notes) $(hostname) $HOSTNAME
echo $(grep -c '^Seccomp:.2' /proc/self/status) $(cat /proc/sys/net/ipv4/tcp_fin_timeout) $(tail -n 1 /etc/hosts)
echo $(cat /etc/resolv.conf)
echo shared > /dev/shm/note; echo looked; sleep 600
"""


@needs_private_machine
async def test_fields_of_a_pod_take_effect(plugbay: Plugbay, nothing_left: Any) -> None:
    async with private_machine() as machine:
        node = Node(machine, plugbay)
        async with node.up() as process:
            mounts = [{"name": "notes", "mountPath": "/tmp/notes"}]
            main = {"name": "main", "command": ["sh", "-c", LOOK], "volumeMounts": mounts}
            spec = {**SURROUNDINGS, "containers": [main, {"name": "other", "command": ["sleep", "600"]}]}
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec}
            assert (await plugbay("pod", "run", "-f", "-", given=json.dumps(pod))).code == 0
            await plugbay.until_running("web")
            async with plugbay.start("pod", "logs", "-f", "web", "-c", "main") as log:
                await plugbay.line_with(log, "looked")
            first, second, third, _ = (await plugbay("pod", "logs", "web", "-c", "main")).out.splitlines()
            assert first == "1000 2000 3000 4000 3000:2777 burrow burrow"
            assert second == "1 33 10.9.9.9 fox fox.example"
            assert third == "search pod.example nameserver 10.0.0.9 options ndots:2"
            found = await plugbay("pod", "exec", "web", "-c", "other", "--", "cat", "/dev/shm/note")
            assert (found.code, found.out) == (0, "shared\n")
            assert (await plugbay("pod", "delete", "--all", "--now")).code == 0
            await nothing_left(machine)
            process.terminate()
            await process.wait()


@needs_private_machine
@needs_limited_swap
async def test_status_tells_last_words_and_want_of_memory(plugbay: Plugbay, nothing_left: Any) -> None:
    async with private_machine() as machine:
        node = Node(machine, plugbay)
        async with node.up() as process:
            never: dict[str, Any] = {"restartPolicy": "Never"}
            told = {"terminationMessagePolicy": "FallbackToLogsOnError"}
            hungry = {"command": ["tail", "/dev/zero"], "resources": {"limits": {"memory": "32Mi"}}}
            await node.run("told", "sh", "-c", "echo no luck; exit 3", container=told, **never)
            await node.run("hungry", "true", container=hungry, **never)
            for name in ("told", "hungry"):
                waited = await plugbay("pod", "wait", "--for=jsonpath={.status.phase}=Failed", name)
                assert waited.code == 0, waited
            ends = {}
            for name in ("told", "hungry"):
                (status,) = (await node.pod(name))["status"]["containerStatuses"]
                ends[name] = status["state"]["terminated"]
            assert (ends["told"]["exitCode"], ends["told"]["reason"]) == (3, "Error")
            assert ends["told"]["message"] == "no luck\n"
            assert (ends["hungry"]["exitCode"], ends["hungry"]["reason"]) == (137, "OOMKilled")
            assert (await plugbay("pod", "delete", "--all", "--now")).code == 0
            await nothing_left(machine)
            process.terminate()
            await process.wait()
