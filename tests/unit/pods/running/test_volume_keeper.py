"""Volumes of config maps, secrets, fields and tokens: pods wait for them, and they follow what they are made of."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from plugbay.kernel.mounts import mounted
from plugbay.model.edits import Mount
from plugbay.model.pods import EmptyDir, EnvVar, Pod, Volume, VolumeMount
from plugbay.model.projections import (
    ConfigKind,
    EnvSource,
    FieldFile,
    FieldFiles,
    KeyFiles,
    KeyReference,
    Projection,
    ProjectionKind,
    TokenFile,
)
from plugbay.model.quantity import Quantity
from plugbay.pods.engine import PodEngine
from plugbay.pods.record import PodRecord, Running, Waiting
from plugbay.pods.running.configs import PodAccess
from plugbay.pods.running.projecting import ACCOUNT_DIRECTORY, VolumeFiles
from plugbay.pods.running.sub_paths import SubPathMeans
from plugbay.pods.running.volumes import Volumes
from plugbay.runtimes.port import ContainerId
from plugbay.testing.fake_node import FakeNode
from plugbay.testing.pod_values import container, pod

MAP, SECRET = ConfigKind.CONFIG_MAP, ConfigKind.SECRET
SETTINGS = Projection(ProjectionKind.CONFIG_MAP, (KeyFiles(MAP, "settings"),))
NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")


class TellingVolumes(Volumes):
    """Volumes that tell a test when they were written."""

    def __init__(self, root: Path, node: FakeNode) -> None:
        super().__init__(root, SubPathMeans.OPEN)
        self._node = node
        self.writes = 0

    def prepare(self, pod: Pod, files: VolumeFiles | None = None) -> dict[str, Path]:
        paths = super().prepare(pod, files)
        self._tell()
        return paths

    def renew(self, pod: Pod, files: VolumeFiles) -> None:
        super().renew(pod, files)
        self._tell()

    def _tell(self) -> None:
        self.writes += 1
        self.loop.call_soon_threadsafe(self._node.moved.notify)

    loop: asyncio.AbstractEventLoop


@pytest.fixture
def world(tmp_path: Path) -> Iterator[FakeNode]:
    node = FakeNode(tmp_path)
    node.volumes = TellingVolumes(tmp_path / "pods", node)
    yield node
    assert [path for path, _ in mounted(proc_root=Path("/proc")) if path.is_relative_to(tmp_path)] == []


@asynccontextmanager
async def engine(world: FakeNode) -> AsyncIterator[PodEngine]:
    """An engine whose pods are deleted at the end, so that nothing stays mounted."""
    TellingVolumes.loop = asyncio.get_running_loop()
    async with world.engine() as engine:
        try:
            yield engine
        finally:
            for record in list(world.pods):
                await engine.delete(record.pod.namespace, record.pod.name, grace_s=0)
            await world.when(lambda: not list(world.pods))


def with_volume(source: Projection | EmptyDir) -> Pod:
    return pod(container("c", volume_mounts=(VolumeMount("v", "/v"),)), volumes=(Volume("v", source),))


def runs(record: PodRecord) -> bool:
    return all(isinstance(each.state, Running) for each in record.containers.values())


def place(world: FakeNode, mount_path: str = "/v") -> Path:
    return Path(mounts(world)[mount_path].host_path)


def mounts(world: FakeNode) -> dict[str, Mount]:
    spec = world.runtime.specs[ContainerId("p_c_0")]
    return {each.container_path: each for each in spec.mounts}


async def test_a_pod_waits_for_its_config_map_and_starts_at_once_when_it_comes(world: FakeNode) -> None:
    async with engine(world) as running:
        await running.create(with_volume(SETTINGS))
        await world.when(lambda: "FailedMount" in world.reasons())
        [event] = [each for each in world.events if each.reason == "FailedMount"]
        assert event.message == 'MountVolume.SetUp failed for volume "v" : configmap "settings" not found'
        [state] = [each.state for each in world.pods.named("default", "p").containers.values()]
        assert state == Waiting("ContainerCreating")
        world.configs.put(MAP, "settings", {"a": b"1"})
        await world.until(runs)  # though the clock stands still
        assert (place(world) / "a").read_text() == "1"
        assert mounts(world)["/v"].read_only, "nothing but the node writes there"


async def test_files_follow_the_object_and_the_container_goes_on(world: FakeNode) -> None:
    world.configs.put(MAP, "settings", {"a": b"1"})
    async with engine(world) as running:
        await running.create(with_volume(SETTINGS))
        await world.until(runs)
        world.configs.put(MAP, "settings", {"b": b"2"})
        await world.when((place(world) / "b").exists)
        assert [path.name for path in place(world).iterdir() if not path.name.startswith("..")] == ["b"]
        assert world.runtime.started == ["c"]


async def test_files_stay_when_the_object_goes(world: FakeNode) -> None:
    world.configs.put(MAP, "settings", {"a": b"1"})
    async with engine(world) as running:
        await running.create(with_volume(SETTINGS))
        await world.until(runs)
        world.configs.remove(MAP, "settings")
        await world.when(lambda: "FailedMount" in world.reasons())
        assert (place(world) / "a").read_text() == "1"
        world.configs.put(MAP, "settings", {"a": b"2"})
        await world.when(lambda: (place(world) / "a").read_text() == "2")


async def test_labels_and_annotations_follow_the_pod(world: FakeNode) -> None:
    fields = FieldFiles((FieldFile("labels", "metadata.labels"), FieldFile("note", "metadata.annotations['note']")))
    async with engine(world) as running:
        record = await running.create(with_volume(Projection(ProjectionKind.DOWNWARD_API, (fields,))))
        await world.until(runs)
        assert (place(world) / "labels").read_text() == ""
        await running.update(
            world.pods[record.uid], replace(record.pod, labels={"a": "1"}, annotations={"note": "new"})
        )
        await world.when(lambda: (place(world) / "labels").read_text() == 'a="1"')
        assert (place(world) / "note").read_text() == "new"


async def test_a_container_waits_for_the_objects_of_its_environment(world: FakeNode) -> None:
    variable = EnvVar("A", source=KeyReference(MAP, "settings", "a"))
    async with engine(world) as running:
        await running.create(pod(container("c", env=(variable,), env_from=(EnvSource(SECRET, "key"),))))
        await world.when(lambda: "Failed" in world.reasons())
        [state] = [each.state for each in world.pods.named("default", "p").containers.values()]
        assert state == Waiting("CreateContainerConfigError", 'secret "key" not found')
        assert [each.message for each in world.events if each.reason == "Failed"] == ['Error: secret "key" not found']
        world.configs.put(SECRET, "key", {"k": b"v"})
        await world.when(lambda: len([each for each in world.events if each.reason == "Failed"]) > 1)
        world.configs.put(MAP, "settings", {"a": b"1"})
        await world.until(runs)
        assert world.runtime.specs[ContainerId("p_c_0")].env == {"k": "v", "A": "1"}


async def test_a_restarted_node_goes_on_although_the_object_is_gone(world: FakeNode) -> None:
    world.configs.put(MAP, "settings", {"a": b"1"})
    async with world.engine() as running:
        TellingVolumes.loop = asyncio.get_running_loop()
        await running.create(with_volume(SETTINGS))
        await world.until(runs)
    world.configs.remove(MAP, "settings")
    async with engine(world):
        await world.when(lambda: "FailedMount" in world.reasons())
        world.runtime.finish("p_c_0", 1)
        await world.until(lambda record: [each.attempt for each in record.containers.values()] == [1])
        assert (place(world) / "a").read_text() == "1"


@NEEDS_ROOT
async def test_a_secret_lies_in_memory_as_long_as_its_pod(world: FakeNode) -> None:
    world.configs.put(SECRET, "key", {"k": b"v"})
    async with engine(world) as running:
        await running.create(with_volume(Projection(ProjectionKind.SECRET, (KeyFiles(SECRET, "key"),), 0o400)))
        await world.until(runs)
        volume = place(world)
        assert volume.is_mount()
        assert (volume / "k").read_text() == "v"
        assert volume.parents[2].stat().st_mode & 0o077 == 0, "other users do not even enter"
    assert not volume.exists()


@NEEDS_ROOT
async def test_a_restarted_node_takes_a_secret_up_again(world: FakeNode) -> None:
    world.configs.put(SECRET, "key", {"k": b"v"})
    async with world.engine() as running:
        TellingVolumes.loop = asyncio.get_running_loop()
        await running.create(with_volume(Projection(ProjectionKind.SECRET, (KeyFiles(SECRET, "key"),))))
        await world.until(runs)
    world.configs.put(SECRET, "key", {"k": b"w"})
    async with engine(world):
        await world.when(lambda: (place(world) / "k").read_text() == "w")
        assert [path for path, _ in mounted(proc_root=Path("/proc"))].count(place(world)) == 1


@NEEDS_ROOT
async def test_an_empty_dir_in_memory_has_its_limit(world: FakeNode) -> None:
    async with engine(world) as running:
        await running.create(with_volume(EmptyDir(in_memory=True, size_limit=Quantity.parse("1Mi"))))
        await world.until(runs)
        with pytest.raises(OSError, match="No space"):
            (place(world) / "big").write_bytes(bytes(2**20 + 4096))


async def test_the_account_gives_each_container_a_token_that_is_renewed_in_time(world: FakeNode) -> None:
    world.configs.account = PodAccess(mounts_token=True)
    world.configs.put(MAP, "kube-root-ca.crt", {"ca.crt": b"CA"})
    async with engine(world) as running:
        await running.create(pod())
        await world.until(runs)
        directory = place(world, ACCOUNT_DIRECTORY)
        assert {name: (directory / name).read_text() for name in ("token", "ca.crt", "namespace")} == {
            "token": "-1",
            "ca.crt": "CA",
            "namespace": "default",
        }
        await world.when(lambda: any(nap > 2000 for nap in world.clock.naps))
        world.clock.advance(3607 * 0.8 + 1)
        await world.when(lambda: (directory / "token").read_text() == "-2")
        assert world.pods.named("default", "p").pod.spec.volumes == (), "it is the node's, not the pod's"


async def test_a_token_has_the_audience_that_was_asked_for(world: FakeNode) -> None:
    token = TokenFile("t", audience="vault", expires_s=600)
    async with engine(world) as running:
        await running.create(with_volume(Projection(ProjectionKind.PROJECTED, (token,))))
        await world.until(runs)
        assert (place(world) / "t").read_text() == "vault-1"
