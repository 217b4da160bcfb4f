"""Static pods over real files and a fake runtime."""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

from plugbay.model.ids import PodUid
from plugbay.ops.changes import Changes
from plugbay.ops.tasks import background
from plugbay.pods.engine import PodEngine
from plugbay.pods.events import ObjectRef
from plugbay.pods.lifecycle import PodStep
from plugbay.pods.record import Deletion, PodRecord, is_static
from plugbay.pods.static.files import static_pod
from plugbay.pods.static.reader import MAX_BYTES, TICK_NS, ManifestFiles, ManifestReader
from plugbay.pods.static.source import ManifestSource, end_static_pods
from plugbay.pods.status import PodPhase
from plugbay.runtimes.sandboxes import HostSandboxes
from plugbay.testing.fake_node import DEADLINE_S, FakeNode, FakeStore
from plugbay.testing.pod_values import is_in, pod

MANIFEST = """\
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  containers:
  - name: c
    command: [run, "{argument}"]
"""


@pytest.fixture
def node(tmp_path: Path) -> FakeNode:
    return FakeNode(tmp_path)


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    return tmp_path / "manifests"


def write(path: Path, name: str = "web", argument: str = "1") -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(MANIFEST.format(name=name, argument=argument))
    return path


@asynccontextmanager
async def following(node: FakeNode, directory: Path) -> AsyncIterator[PodEngine]:
    async with node.engine() as engine:
        about = ObjectRef("Node", "", "n1", "u1")
        source = ManifestSource(directory, node=about, engine=engine, pods=node.pods, events=node.events)
        async with background(source.run(), name="static pods"):
            yield engine


def write_with_uid(path: Path, uid: str, name: str = "web", argument: str = "1") -> Path:
    write(path, argument=argument)
    path.write_text(path.read_text().replace("{name: web}", f'{{name: {name}, uid: "{uid}"}}'))
    return path


def names(node: FakeNode) -> set[str]:
    return {record.pod.name for record in node.pods}


def runs_with(argument: str) -> Callable[[PodRecord], bool]:
    return lambda record: is_in(PodPhase.RUNNING)(record) and record.pod.spec.containers[0].command[1] == argument


def test_a_static_pod_has_its_place_and_says_where_it_comes_from(tmp_path: Path) -> None:
    made = static_pod(pod(), path=tmp_path / "a.yaml", node="N1")
    assert (made.name, made.spec.node_name) == ("p-n1", "N1")
    assert made.annotations == {"kubernetes.io/config.source": "file", "kubernetes.io/config.hash": made.uid}
    assert len(made.uid) == 32
    assert is_static(made)


def test_its_identity_is_that_of_file_content_and_node(tmp_path: Path) -> None:
    made = static_pod(pod(), path=tmp_path / "a.yaml", node="n1")
    assert static_pod(pod(), path=tmp_path / "a.yaml", node="n1") == made
    others = [
        static_pod(pod(), path=tmp_path / "b.yaml", node="n1"),
        static_pod(pod(), path=tmp_path / "a.yaml", node="n2"),
        static_pod(replace(pod(), labels={"a": "b"}), path=tmp_path / "a.yaml", node="n1"),
    ]
    assert len({made.uid, *(other.uid for other in others)}) == 4


def read_manifests(directory: Path) -> ManifestFiles:
    *_, files = ManifestReader(directory, node="n1").read()
    return files


def test_small_files_do_not_wait_for_a_large_one(manifests: Path) -> None:
    write(manifests / "small.yaml")
    large = manifests / "first.yaml"
    large.write_text("---\n" * 150_000)
    first, last = ManifestReader(manifests, node="n1").read()
    assert [path.name for path in first.pods] == ["small.yaml"]
    assert first.unread == {large}
    assert not first.problems
    assert last.problems == {large: f"{large}:100001: holds more than 100000 values"}
    assert not last.unread


def test_a_file_is_read_again_only_when_it_has_changed(manifests: Path) -> None:
    reader = ManifestReader(manifests, node="n1")
    kept, changed = write(manifests / "kept.yaml"), write(manifests / "changed.yaml", name="other")
    for path in (kept, changed):
        until_older_than_a_tick(path)
    (before,) = reader.read()
    changed.write_text(changed.read_text().replace("other", "third"))
    (after,) = reader.read()
    assert after.pods[kept] is before.pods[kept]
    assert [pod.name for pod in after.pods[changed]] == ["third-n1"]
    changed.unlink()
    (last,) = reader.read()
    assert last.paths == {kept}


def test_what_the_system_refused_is_read_later_although_nothing_changes(
    manifests: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = ManifestReader(manifests, node="n1")
    path = write(manifests / "web.yaml")
    until_older_than_a_tick(path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", lambda *args, **kwargs: raise_shortage())
        (refused,) = reader.read()
    assert refused.problems == {path: f"{path}: cannot be read: {os.strerror(errno.EMFILE)}"}
    assert refused.is_in_doubt
    (after,) = reader.read()
    assert [pod.name for pod in after.pods[path]] == ["web-n1"]
    assert not after.is_in_doubt


def raise_shortage() -> None:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def test_files_of_a_directory_that_cannot_be_listed_stay_as_they_were(manifests: Path) -> None:
    reader = ManifestReader(manifests, node="n1")
    path = write(manifests.with_name("real") / "web.yaml")
    link(manifests, to="real")
    (before,) = reader.read()
    link(manifests, to=manifests.name)
    (refused,) = reader.read()
    assert refused.pods == before.pods
    assert refused.is_in_doubt
    assert list(refused.problems) == [manifests]
    link(manifests, to="real")
    (after,) = reader.read()
    assert set(after.pods) == {manifests / path.name}
    assert not after.problems


def test_a_file_written_twice_within_a_tick_is_read_twice(manifests: Path) -> None:
    reader = ManifestReader(manifests, node="n1")
    path = write(manifests / "web.yaml", name="one")
    times = path.stat()
    list(reader.read())
    path.write_text(path.read_text().replace("one", "two"))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    *_, files = reader.read()
    assert [pod.name for pod in files.pods[path]] == ["two-n1"]


def until_older_than_a_tick(path: Path) -> None:
    """File systems give two writes within a tick the same time; the reader takes no such file for known."""
    while time.time_ns() - path.stat().st_ctime_ns < TICK_NS:
        time.sleep(0.01)


def test_a_manifest_may_bring_its_uid(manifests: Path) -> None:
    made = static_pod(replace(pod(), uid=PodUid("given")), path=manifests / "a.yaml", node="n1")
    assert (made.uid, made.annotations["kubernetes.io/config.hash"]) == ("given", "given")
    assert is_static(made)


@pytest.mark.parametrize("uid", ["../other", ".", "a/b", "-a", "a" * 64, "a\\n"])
def test_a_uid_that_could_name_no_directory_is_refused(manifests: Path, uid: str) -> None:
    path = write_with_uid(manifests / "web.yaml", uid)
    files = read_manifests(manifests)
    assert not files.pods
    assert "metadata.uid: must be at most 63 letters, digits and hyphens" in files.problems[path]


def test_an_annotation_alone_makes_no_static_pod() -> None:
    claims = {"kubernetes.io/config.source": "file", "kubernetes.io/config.hash": "guessed"}
    assert not is_static(replace(pod(), uid=PodUid("u"), annotations=claims))


def test_files_are_read_by_their_suffix_and_bad_ones_named_with_their_line(manifests: Path) -> None:
    write(manifests / "good.yaml")
    write(manifests / ".hidden.yaml")
    write(manifests / "note.txt")
    bad = write(manifests / "bad.yml", name="Bad!")
    nameless = manifests / "nameless.json"
    nameless.write_text(
        '{"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "x"},"spec": {"containers": [{"name": "c"}]}}'
    )
    binary = manifests / "text.yaml"
    binary.write_bytes(b"\xff")
    files = read_manifests(manifests)
    assert [path.name for path in files.pods] == ["good.yaml"]
    assert files.problems[bad].startswith(f"{bad}:3: metadata.name: Invalid value")
    assert "needs a name" in files.problems[nameless]
    assert files.problems[binary] == f"{binary}: is not UTF-8 text"


def test_only_regular_files_of_a_sensible_size_are_read(manifests: Path) -> None:
    write(manifests / "good.yaml")
    os.mkfifo(manifests / "fifo.yaml")  # nobody writes to it
    (manifests / "directory.yaml").mkdir()
    (manifests / "zero.yaml").symlink_to("/dev/zero")
    with (manifests / "large.yaml").open("wb") as large:
        large.truncate(MAX_BYTES + 1)
    files = read_manifests(manifests)
    assert [path.name for path in files.pods] == ["good.yaml"]
    assert {path.name: problem.removeprefix(f"{path}: ") for path, problem in files.problems.items()} == {
        "directory.yaml": "cannot be read: Is a directory",
        "fifo.yaml": "not a regular file",
        "large.yaml": f"larger than {MAX_BYTES} bytes",
        "zero.yaml": "not a regular file",
    }


async def test_the_second_pod_of_a_name_is_reported_and_waits_for_its_turn(node: FakeNode, manifests: Path) -> None:
    first = write(manifests / "a.yaml", argument="1")
    second = write(manifests / "b.yaml", argument="2")
    async with following(node, manifests):
        await node.until(runs_with("1"), "web-n1")
        (event,) = [event for event in node.events if event.reason == "InvalidManifest"]
        assert event.message == f"{second}: pod default/web-n1 is there twice; {first} has the first one"
        first.unlink()
        await node.until(runs_with("2"), "web-n1")


async def test_a_manifest_becomes_a_pod_and_ends_it(node: FakeNode, manifests: Path) -> None:
    async with following(node, manifests):
        path = write(manifests / "web.yaml")
        record = await node.until(is_in(PodPhase.RUNNING), "web-n1")
        assert record.pod.spec.node_name == "n1"
        path.unlink()
        await node.when(lambda: not names(node))
        assert node.runtime.stopped == [("c", 30)]


async def test_a_directory_that_is_not_there_yet_is_named_and_waited_for(
    node: FakeNode, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with following(node, tmp_path / "later"):
        async with asyncio.timeout(DEADLINE_S):
            while "later does not exist yet; its manifests make pods once it does" not in caplog.text:  # noqa: ASYNC110  # logs notify no test
                await asyncio.sleep(0)
        (tmp_path / "ready").mkdir()
        write(tmp_path / "ready" / "web.yaml")
        (tmp_path / "ready").rename(tmp_path / "later")
        await node.until(is_in(PodPhase.RUNNING), "web-n1")


def link(path: Path, *, to: str) -> None:
    """Make ``path`` a symbolic link in one step; one to itself cannot be followed."""
    path.with_name("new").symlink_to(to)
    path.with_name("new").rename(path)


async def test_a_directory_that_cannot_be_listed_ends_no_pod(node: FakeNode, manifests: Path) -> None:
    write(manifests.with_name("real") / "web.yaml")
    link(manifests, to="real")
    async with following(node, manifests):
        before = await node.until(is_in(PodPhase.RUNNING), "web-n1")
        link(manifests, to=manifests.name)
        await node.when(lambda: any("cannot be listed" in event.message for event in node.events))
    async with following(node, manifests) as engine:  # nor does it after a restart
        await engine.create(pod(name="p"))
        await node.until(is_in(PodPhase.RUNNING), "p")
        link(manifests, to="real")
        write(manifests / "other.yaml", name="other")
        await node.until(is_in(PodPhase.RUNNING), "other-n1")
        assert [each.uid for each in node.pods if each.pod.name == "web-n1"] == [before.uid]
    assert node.runtime.stopped == []


async def test_a_changed_manifest_replaces_the_pod(node: FakeNode, manifests: Path) -> None:
    path = write(manifests / "web.yaml", argument="1")
    async with following(node, manifests):
        before = await node.until(runs_with("1"), "web-n1")
        write(path, argument="2")
        after = await node.until(runs_with("2"), "web-n1")
        assert before.uid != after.uid
        assert [record.uid for record in node.pods] == [after.uid]


async def test_a_changed_manifest_that_brings_its_uid_replaces_the_pod(node: FakeNode, manifests: Path) -> None:
    path = write_with_uid(manifests / "web.yaml", "given", argument="1")
    async with following(node, manifests):
        assert (await node.until(runs_with("1"), "web-n1")).uid == "given"
        write_with_uid(path, "given", argument="2")
        assert (await node.until(runs_with("2"), "web-n1")).uid == "given"
    write_with_uid(path, "given", argument="3")
    async with following(node, manifests):
        await node.until(runs_with("3"), "web-n1")
    async with following(node, manifests):
        await node.until(runs_with("3"), "web-n1")
    assert node.runtime.started == ["c", "c", "c"]


async def test_the_second_pod_of_a_uid_is_reported_and_waits_for_its_turn(node: FakeNode, manifests: Path) -> None:
    first = write_with_uid(manifests / "a.yaml", "given", name="a")
    second = write_with_uid(manifests / "b.yaml", "given", name="b")
    async with following(node, manifests):
        await node.until(is_in(PodPhase.RUNNING), "a-n1")
        (event,) = [event for event in node.events if event.reason == "InvalidManifest"]
        assert event.message == f"{second}: UID given is there twice; {first} has the first one"
        first.unlink()
        await node.until(is_in(PodPhase.RUNNING), "b-n1")


async def test_the_uid_of_a_pod_that_comes_from_no_manifest_is_reported(node: FakeNode, manifests: Path) -> None:
    async with following(node, manifests) as engine:
        uid = (await engine.create(pod(name="p"))).uid
        write_with_uid(manifests / "web.yaml", uid)
        await node.when(lambda: "InvalidManifest" in node.reasons())
        (event,) = [event for event in node.events if event.reason == "InvalidManifest"]
        assert event.message == ("pod default/web-n1 has the UID of pod default/p, which does not come from a manifest")
        assert names(node) == {"p"}


async def test_a_deleted_static_pod_comes_back(node: FakeNode, manifests: Path) -> None:
    write(manifests / "web.yaml")
    async with following(node, manifests) as engine:
        await node.until(is_in(PodPhase.RUNNING), "web-n1")
        await engine.delete("default", "web-n1", grace_s=0)
        await node.when(lambda: len(node.runtime.started) == 2)
        await node.until(is_in(PodPhase.RUNNING), "web-n1")


async def test_a_file_gone_bad_is_reported_and_its_pod_stays(node: FakeNode, manifests: Path) -> None:
    path = write(manifests / "web.yaml")
    write(manifests / "other.yaml", name="other")
    async with following(node, manifests):
        await node.until(is_in(PodPhase.RUNNING), "web-n1")
        path.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {}\n")
        await node.when(lambda: "InvalidManifest" in node.reasons())
        (event,) = [event for event in node.events if event.reason == "InvalidManifest"]
        assert event.message == f"{path}:4: spec.containers: Required value"
        assert (event.about.kind, event.namespace) == ("Node", "default")
        write(manifests / "third.yaml", name="third")
        await node.until(is_in(PodPhase.RUNNING), "third-n1")
        assert names(node) == {"web-n1", "other-n1", "third-n1"}
        assert event.count == 1


async def test_a_restarted_node_keeps_what_it_should_and_ends_the_rest(node: FakeNode, manifests: Path) -> None:
    write(manifests / "web.yaml")
    gone = write(manifests / "gone.yaml", name="gone")
    async with following(node, manifests):
        await node.until(is_in(PodPhase.RUNNING), "web-n1")
        await node.until(is_in(PodPhase.RUNNING), "gone-n1")
    gone.unlink()
    async with following(node, manifests):
        await node.when(lambda: names(node) == {"web-n1"})
        assert node.runtime.started == ["c", "c"]


async def test_a_restarted_node_with_another_directory_ends_the_pods_of_the_first(
    node: FakeNode, manifests: Path, tmp_path: Path
) -> None:
    write(manifests / "web.yaml")
    async with following(node, manifests):
        await node.until(is_in(PodPhase.RUNNING), "web-n1")
    write(tmp_path / "others" / "other.yaml", name="other")
    async with following(node, tmp_path / "others"):
        await node.until(is_in(PodPhase.RUNNING), "other-n1")
        await node.when(lambda: names(node) == {"other-n1"})
        assert node.runtime.stopped == [("c", 30)]


async def test_a_restarted_node_without_a_directory_ends_static_pods_and_no_others(
    node: FakeNode, manifests: Path
) -> None:
    write(manifests / "web.yaml")
    async with following(node, manifests) as engine:
        await engine.create(pod(name="p"))
        await node.until(is_in(PodPhase.RUNNING), "p")
        await node.until(is_in(PodPhase.RUNNING), "web-n1")
    async with node.engine() as engine:
        await end_static_pods(engine, node.pods)
        await node.when(lambda: names(node) == {"p"})
        assert node.runtime.stopped == [("c", 30)]


async def test_after_a_restart_a_bad_file_ends_no_pod(node: FakeNode, manifests: Path) -> None:
    path = write(manifests / "web.yaml")
    async with following(node, manifests):
        await node.until(is_in(PodPhase.RUNNING), "web-n1")
    path.write_text("{")
    async with following(node, manifests):
        write(manifests / "new.yaml", name="new")
        await node.until(is_in(PodPhase.RUNNING), "new-n1")
        assert names(node) == {"web-n1", "new-n1"}


async def test_a_name_that_is_taken_is_reported_until_it_is_free(node: FakeNode, manifests: Path) -> None:
    async with following(node, manifests) as engine:
        await engine.create(pod(name="web-n1"))
        await node.until(is_in(PodPhase.RUNNING), "web-n1")
        write(manifests / "web.yaml")
        await node.when(lambda: "InvalidManifest" in node.reasons())
        await engine.delete("default", "web-n1")
        record = await node.until(lambda record: is_static(record.pod) and is_in(PodPhase.RUNNING)(record), "web-n1")
        assert is_static(record.pod)


# --- cordon and drain ----------------------------------------------------------------------------------------------


async def test_a_drained_node_keeps_static_pods_and_takes_no_new_ones(node: FakeNode, manifests: Path) -> None:
    write(manifests / "web.yaml")
    async with following(node, manifests) as engine:
        await node.until(is_in(PodPhase.RUNNING), "web-n1")
        await engine.create(pod(name="p"))
        await node.until(is_in(PodPhase.RUNNING))
        leaving = await engine.drain(grace_s=7)
        assert [record.pod.name for record in leaving] == ["p"]
        await node.when(lambda: names(node) == {"web-n1"})
        assert node.runtime.stopped == [("c", 7)]
        await engine.create(pod(name="late"))
        record = await node.until(lambda record: record.unschedulable, "late")
        assert record.unschedulable.startswith("0/1 nodes are available: 1 node(s) were unschedulable. ")
        await engine.create(pod(name="placed", node_name="n1"))
        await node.until(is_in(PodPhase.RUNNING), "placed")
        await engine.uncordon()
        await node.until(is_in(PodPhase.RUNNING), "late")


async def test_a_drain_that_is_repeated_can_only_be_shorter(node: FakeNode) -> None:
    node.runtime.deaf = {"c"}
    async with node.engine() as engine:
        await engine.create(pod())
        await node.until(is_in(PodPhase.RUNNING))
        await engine.drain()
        await node.when(lambda: node.runtime.stopped == [("c", 30)])
        await engine.drain(grace_s=0)
        await node.when(lambda: not names(node))


class GatedStore(FakeStore):
    """Attributes: ``opens``, while it is not set, keeps whoever flushes waiting."""

    def __init__(self, moved: Changes) -> None:
        super().__init__(moved)
        self.opens = asyncio.Event()
        self.opens.set()

    async def flush(self) -> None:
        await self.opens.wait()


async def test_a_manifest_that_goes_while_its_pod_is_to_come_back_makes_none(node: FakeNode, manifests: Path) -> None:
    node.kept = store = GatedStore(node.moved)
    files = {f"{name}-n1": write(manifests / f"{name}.yaml", name=name) for name in ("a", "b")}
    async with following(node, manifests) as engine, asyncio.TaskGroup() as tasks:
        for name in files:
            await node.until(is_in(PodPhase.RUNNING), name)
        store.opens.clear()
        for name in files:
            tasks.create_task(engine.delete("default", name))
        await node.when(
            lambda: [each.deletion for each in node.pods] == [None]
        )  # it comes back; the other would be next
        [back] = names(node)
        files[next(name for name in files if name != back)].unlink()
        (manifests / "bad.yaml").write_text("{")
        await node.when(lambda: "InvalidManifest" in node.reasons())
        store.opens.set()
        await node.until(is_in(PodPhase.RUNNING), back)
        assert names(node) == {back}


class SlowSandboxes(HostSandboxes):
    """Attributes: ``removing`` is set when a removal has begun; while ``may_remove`` is not, it waits."""

    def __init__(self) -> None:
        self.removing = asyncio.Event()
        self.may_remove = asyncio.Event()

    async def remove(self, pod: PodUid) -> None:
        self.removing.set()
        await self.may_remove.wait()


async def test_static_pods_stay_when_another_goes_before_the_manifests_are_read(
    node: FakeNode, manifests: Path
) -> None:
    node.sandboxes = sandboxes = SlowSandboxes()
    write(manifests / "web.yaml")
    disk = Event()
    async with following(node, manifests) as engine:
        static = await node.until(is_in(PodPhase.RUNNING), "web-n1")
        await engine.create(pod())
        other = await node.until(is_in(PodPhase.RUNNING))
    deletion = Deletion.at(node.clock.now(), grace_s=0)  # as it is stored when the node is killed then
    node.kept.pods[other.uid] = replace(other.after(PodStep.DELETE), deletion=deletion)
    async with node.engine() as engine, AsyncExitStack() as stack:
        await sandboxes.removing.wait()
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        stack.callback(disk.set)
        reading = asyncio.ensure_future(asyncio.to_thread(disk.wait))
        about = ObjectRef("Node", "", "n1", "u1")
        source = ManifestSource(manifests, node=about, engine=engine, pods=node.pods, events=node.events)
        await stack.enter_async_context(background(source.run(), name="static pods"))
        sandboxes.may_remove.set()
        await node.when(lambda: names(node) == {"web-n1"})
        for _ in range(100):
            await asyncio.sleep(0)
        assert node.pods[static.uid].deletion is None
        disk.set()
        await reading
