"""Config maps, secrets and fields of pods in the containers of real nodes."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from plugbay.cli.kubectl.client import NodeClient
from plugbay.kernel.mounts import mounted
from plugbay.printers import v1
from tests.contract.rigs.oci import why_not

if TYPE_CHECKING:
    from tests.contract.conftest import Plugbay

DEADLINE_S = 60
DEFAULT = "/api/v1/namespaces/default"
CONFIG_MAPS, SECRETS = f"{DEFAULT}/configmaps", f"{DEFAULT}/secrets"
KINDS = {"configMap": "configmap", "secret": "secret", "downwardAPI": "downward-api", "projected": "projected"}
RUNTIMES = [
    pytest.param("process", id="process"),
    pytest.param("oci", marks=[pytest.mark.root, pytest.mark.skipif(bool(why_not()), reason=why_not())], id="oci"),
]
Json = dict[str, Any]


class Lab:
    """A node's root, its client, and pods that print their files."""

    def __init__(self, plugbay: Plugbay, runtime: str) -> None:
        self.plugbay = plugbay
        self.client = NodeClient(plugbay.root)
        self.runtime = runtime

    async def put(self, path: str, name: str, **values: Any) -> None:
        await asyncio.to_thread(self.client.replace, f"{path}/{name}", named(name, **values))

    async def create(self, path: str, name: str, **values: Any) -> None:
        await asyncio.to_thread(self.client.create, path, named(name, **values))

    async def run(self, script: str, *volumes: Json, name: str = "p", **container: Any) -> None:
        """Start a pod whose container runs ``script``, in which ``$v`` is the place of the volume ``v``."""
        places = "".join(f"{each['name']}={self.place(each)}; " for each in volumes)
        env = [{"name": "UID_", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}, *container.pop("env", [])]
        mounts = [{"name": each["name"], "mountPath": f"/mnt/{each['name']}"} for each in volumes]
        main = {
            "name": "c",
            "command": ["sh", "-c", places + script],
            "env": env,
            "volumeMounts": [*mounts, *container.pop("volumeMounts", [])],
            **container,
        }
        spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "volumes": volumes, "containers": [main]}
        metadata = {"name": name, "labels": {"tier": "web"}}
        pod: Json = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        await asyncio.to_thread(self.client.create, f"{DEFAULT}/pods", pod)

    def place(self, volume: Json) -> str:
        """A container of the process runtime finds its volumes on the host only."""
        if self.runtime == "oci":
            return f"/mnt/{volume['name']}"
        [kind] = volume.keys() & KINDS.keys()
        return f"{self.plugbay.root}/pods/$UID_/volumes/kubernetes.io~{KINDS[kind]}/{volume['name']}"

    async def output(self, name: str = "p") -> str:
        """All that the container printed, once its pod has succeeded."""
        waited = await self.plugbay("pod", "wait", f"pod/{name}", "--for=jsonpath={.status.phase}=Succeeded")
        assert waited.code == 0, (waited, (await self.plugbay("pod", "describe", name)).out)
        return (await self.plugbay("pod", "logs", name)).out

    async def printed(self, line: str, name: str = "p") -> None:
        """Wait until the container printed a line."""

        def read() -> None:
            seen = b""
            with self.client.read(f"{DEFAULT}/pods/{name}/log", {"follow": "true"}) as chunks:
                for chunk in chunks:
                    seen += chunk
                    if f"{line}\n".encode() in seen:
                        return
            raise AssertionError(f"the output ended without {line}: {seen!r}")

        async with asyncio.timeout(DEADLINE_S):
            await self.plugbay.until_running(name)
            await asyncio.to_thread(read)

    async def event(self, reason: str) -> str:
        """The message of the first event for this reason."""

        def look() -> str:
            with self.client.watch("/api/v1/events") as events:
                found: Any = next(each.object for each in events if each.object["reason"] == reason)
                return str(found["message"])

        async with asyncio.timeout(DEADLINE_S):
            return await asyncio.to_thread(look)

    async def status(self, name: str = "p") -> Json:
        pod = await asyncio.to_thread(self.client.get, f"{DEFAULT}/pods/{name}")
        statuses: Any = v1.mapping(pod, "status")["containerStatuses"]
        [status] = statuses
        return dict(status)

    def mounts(self) -> list[Path]:
        return [path for path, _ in mounted(proc_root=Path("/proc")) if path.is_relative_to(self.plugbay.root)]


def named(name: str, **values: Any) -> Json:
    return {"metadata": {"name": name}, **values}


def encoded(**values: str) -> Json:
    return {name: base64.b64encode(text.encode()).decode() for name, text in values.items()}


@pytest.fixture(params=RUNTIMES)
def runtime(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@asynccontextmanager
async def a_lab(plugbay: Plugbay, runtime: str) -> AsyncIterator[Lab]:
    async with plugbay.node_up("--runtime", runtime):
        yield Lab(plugbay, runtime)
    assert Lab(plugbay, runtime).mounts() == []
    assert list((plugbay.root / "pods").iterdir()) == []


async def test_files_and_variables_reach_the_container(plugbay: Plugbay, runtime: str) -> None:
    async with a_lab(plugbay, runtime) as lab:
        await lab.create(CONFIG_MAPS, "settings", data={"colour": "blue", "deep": "1"})
        await lab.create(SECRETS, "key", data=encoded(password="s3cret"))
        settings = {"name": "v", "configMap": {"name": "settings", "items": [{"key": "colour", "path": "a/b"}]}}
        key = {"name": "k", "secret": {"secretName": "key", "defaultMode": 0o400}}
        labels = {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}
        sources = [
            {"configMap": {"name": "settings"}},
            {"secret": {"name": "key"}},
            {"downwardAPI": {"items": [labels]}},
        ]
        script = (
            "cat $v/a/b; echo; stat -L -c %a $k/password; cat $k/password; echo; cd $all; echo *; cat labels; echo; env"
        )
        await lab.run(
            script,
            settings,
            key,
            {"name": "all", "projected": {"sources": sources}},
            env=[
                {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "key", "key": "password"}}},
                {"name": "CPUS", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
            ],
            envFrom=[
                {"prefix": "SET_", "configMapRef": {"name": "settings"}},
                {"secretRef": {"name": "no", "optional": True}},
            ],
            resources={"limits": {"cpu": "250m"}},
        )
        lines = (await lab.output()).splitlines()
    assert lines[:5] == ["blue", "400", "s3cret", "colour deep labels password", 'tier="web"']
    assert {"PASSWORD=s3cret", "CPUS=250", "SET_colour=blue", "SET_deep=1"} <= set(lines)


async def test_a_pod_waits_for_what_it_refers_to_and_starts_when_it_is_there(plugbay: Plugbay, runtime: str) -> None:
    async with a_lab(plugbay, runtime) as lab:
        env = [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "a"}}}]
        await lab.run("cat $k/b; echo; echo $A", {"name": "k", "secret": {"secretName": "key"}}, env=env)
        assert await lab.event("FailedMount") == 'MountVolume.SetUp failed for volume "k" : secret "key" not found'
        assert (await lab.status())["state"] == {"waiting": {"reason": "ContainerCreating"}}
        await lab.create(SECRETS, "key", data=encoded(b="2"))
        assert await lab.event("Failed") == 'Error: configmap "settings" not found'
        await lab.create(CONFIG_MAPS, "settings", data={"a": "1"})
        assert await lab.output() == "2\n1\n"


async def test_files_follow_their_objects_and_no_container_restarts(plugbay: Plugbay, runtime: str) -> None:
    async with a_lab(plugbay, runtime) as lab:
        await lab.create(CONFIG_MAPS, "settings", data={"a": "old"})
        labels = {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels['tier']"}}
        sources = [{"configMap": {"name": "settings"}}, {"downwardAPI": {"items": [labels]}}]
        script = 'while :; do echo "$(cat $v/a) $(cat $v/labels)"; sleep 0.1; done'
        await lab.run(script, {"name": "v", "projected": {"sources": sources}})
        await lab.printed("old web")
        await lab.put(CONFIG_MAPS, "settings", data={"a": "new"})
        await lab.printed("new web")
        pod = await asyncio.to_thread(lab.client.get, f"{DEFAULT}/pods/p")
        metadata = {**v1.mapping(pod, "metadata"), "labels": {"tier": "db"}}
        await asyncio.to_thread(lab.client.replace, f"{DEFAULT}/pods/p", {**pod, "metadata": metadata})
        await lab.printed("new db")
        assert (await lab.status())["restartCount"] == 0


async def test_a_killed_node_takes_the_volumes_up_again(plugbay: Plugbay, runtime: str) -> None:
    async with plugbay.node_up("--runtime", runtime) as node:
        lab = Lab(plugbay, runtime)
        await lab.create(SECRETS, "key", data=encoded(a="old"))
        await lab.run("while :; do cat $k/a; echo; sleep 0.1; done", {"name": "k", "secret": {"secretName": "key"}})
        await lab.printed("old")
        await lab.put(SECRETS, "key", data=encoded(a="newer"))
        node.kill()  # perhaps in the middle of the change
        await node.wait()
    async with a_lab(plugbay, runtime) as lab:
        await lab.printed("newer")
        await lab.put(SECRETS, "key", data=encoded(a="newest"))
        await lab.printed("newest")
        assert (await lab.status())["restartCount"] == 0
        assert len(lab.mounts()) == len(set(lab.mounts()))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")
async def test_secrets_lie_in_memory(plugbay: Plugbay, runtime: str) -> None:
    async with a_lab(plugbay, runtime) as lab:
        await lab.create(SECRETS, "key", data=encoded(a="1"))
        await lab.run("stat -f -c %T $k/; sleep 1000", {"name": "k", "secret": {"secretName": "key"}})
        await lab.printed("tmpfs")
        [volume] = [path for path in lab.mounts() if path.name == "k"]
        assert volume.parents[2].stat().st_mode & 0o077 == 0


@pytest.mark.root
@pytest.mark.skipif(bool(why_not()), reason=why_not())
async def test_containers_cannot_write_their_files_nor_see_those_of_others(plugbay: Plugbay) -> None:
    async with a_lab(plugbay, "oci") as lab:
        await lab.create(SECRETS, "key", data=encoded(a="1"))
        await lab.run("sleep 1000", {"name": "k", "secret": {"secretName": "key"}}, name="holder")
        await plugbay.until_running("holder")
        await lab.create(CONFIG_MAPS, "settings", data={"a": "1"})
        script = f"(echo 2 > $v/a) 2>/dev/null || echo refused; ls {plugbay.root} 2>/dev/null | grep -c pods; true"
        await lab.run(script, {"name": "v", "configMap": {"name": "settings"}})
        assert await lab.output() == "refused\n0\n"


@pytest.mark.root
@pytest.mark.skipif(bool(why_not()), reason=why_not())
async def test_a_part_of_a_volume_does_not_follow(plugbay: Plugbay) -> None:
    async with a_lab(plugbay, "oci") as lab:
        await lab.create(CONFIG_MAPS, "settings", data={"a": "old"})
        part = {"name": "v", "mountPath": "/etc/part", "subPath": "a"}
        script = 'while :; do echo "$(cat $v/a) $(cat /etc/part)"; sleep 0.1; done'
        await lab.run(script, {"name": "v", "configMap": {"name": "settings"}}, volumeMounts=[part])
        await lab.printed("old old")
        await lab.put(CONFIG_MAPS, "settings", data={"a": "new"})
        await lab.printed("new old")


@pytest.mark.root
@pytest.mark.skipif(bool(why_not()), reason=why_not())
async def test_files_belong_to_the_group_of_the_pod(plugbay: Plugbay) -> None:
    async with a_lab(plugbay, "oci") as lab:
        await lab.create(SECRETS, "key", data=encoded(a="1"))
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p"},
            "spec": {
                "restartPolicy": "Never",
                "securityContext": {"runAsUser": 1234, "fsGroup": 4711},
                "volumes": [{"name": "k", "secret": {"secretName": "key", "defaultMode": 0o400}}],
                "containers": [
                    {
                        "name": "c",
                        "command": ["sh", "-c", "stat -L -c '%g %a' /k/a; cat /k/a"],
                        "volumeMounts": [{"name": "k", "mountPath": "/k"}],
                    }
                ],
            },
        }
        assert (await plugbay("pod", "run", "-f", "-", given=json.dumps(pod))).code == 0
        assert await lab.output() == "4711 440\n1"
