"""What is seen of a node of ours while a script runs, written down in the form of a recording."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable

from plugbay.manager.manager import DeviceManager
from plugbay.manager.metrics import manager_metrics
from plugbay.node.api.objects import pod_object
from plugbay.node.control import RunningNode
from plugbay.objects.watch import Change
from plugbay.ops.changes import Changes
from plugbay.ops.metrics import Histogram
from tests.replay.recording import Json


class Notebook:
    """
    Attributes:
        changes: tells when something was written.
        uids: names of pods by UID.
        snapshots: by key.
        metrics: as the last node counted them.
        forced: pods deleted by force. An API server removes such a pod at once, and shows nothing of its end.
    """

    def __init__(self, plugins: Iterable[str], *, runtime: str) -> None:
        self._runtime = runtime
        self.changes = Changes()
        self.uids: dict[str, str] = {}
        self.snapshots: dict[str, Json] = {}
        self.metrics: Json = {}
        self.forced: set[str] = set()
        self._plugins: dict[str, list[Json]] = {name: [] for name in plugins}
        self._nodes: list[Json] = []
        self._pods: dict[str, list[Json]] = {}
        self._events: dict[str, Json] = {}

    @property
    def pods(self) -> dict[str, list[Json]]:
        return self._pods

    def observations(self) -> Json:
        """All so far; it grows."""
        return {
            "plugin_log": self._plugins,
            "node": self._nodes,
            "pods": self._pods,
            "events": list(self._events.values()),
            "snapshots": self.snapshots,
            "metrics_delta": self.metrics,
        }

    def logger(self, plugin: str) -> Callable[[Json], None]:
        """Where a plugin writes its rows."""

        def log(row: Json) -> None:
            self._plugins[plugin].append(row)
            self.changes.notify()

        return log

    async def follow(self, running: RunningNode) -> None:
        """Write down what happens on a node, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow_pods(running))
            tasks.create_task(self._follow_node(running))
            tasks.create_task(self._follow_events(running))

    async def _follow_pods(self, running: RunningNode) -> None:
        subscription = running.pods.watch()
        while True:
            for change, record in await subscription.next():
                name = record.pod.name
                self.uids[record.uid] = name
                rows = self._pods.setdefault(name, [])
                shown: Json = dict(pod_object(record, runtime=self._runtime))
                if name not in self.forced:
                    deletion = {"deletionTimestamp": "set"} if "deletionTimestamp" in shown["metadata"] else {}
                    rows.append(shown["status"] | deletion)
                if change is Change.DELETED:
                    rows.append({"object": "gone"})
                self.changes.notify()

    async def _follow_node(self, running: RunningNode) -> None:
        async for _ in running.devices.changes():
            self._nodes.append({"resources": counts(running)})
            self.changes.notify()

    async def _follow_events(self, running: RunningNode) -> None:
        subscription = running.events.watch()
        while True:
            for _, event in await subscription.next():
                if event.about.kind != "Pod":
                    continue  # a kubelet says nothing of plugins, and the recordings nothing of nodes
                self._events[event.name] = {
                    "pod": event.about.name,
                    "type": event.type.value,
                    "reason": event.reason,
                    "message": event.message,
                    "count": event.count,
                    "container": event.about.field_path,
                }
                self.changes.notify()


def counts(running: RunningNode) -> Json:
    """Capacity and allocatable by resource, as in a recording."""
    return {name: [str(each.capacity), str(each.allocatable)] for name, each in running.devices.resources().items()}


def counted(running: RunningNode) -> Json:
    """What a node has counted for each resource, in the form of a recording: histograms by their number of samples."""
    assert isinstance(running.devices, DeviceManager)
    return {
        f"{metric.name}{suffix}{{{','.join(f'{key}={json.dumps(value)}' for key, value in labels.items())}}}": count
        for metric in manager_metrics(running.devices)
        for labels, sample in metric.samples
        for suffix, count in [("_count", sample.count) if isinstance(sample, Histogram) else ("", sample)]
    }
