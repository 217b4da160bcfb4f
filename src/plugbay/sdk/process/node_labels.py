"""The node that the process runs on: its name, and its labels as the API server of the cluster has them."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final, NoReturn

from plugbay.errors import ClusterUnusable, OperatorError, UsageError
from plugbay.ops.backoff import Backoff, Delays
from plugbay.ops.cluster import ClusterApi, not_in_a_pod, own_cluster
from plugbay.values import dataclass

logger = logging.getLogger(__name__)

NODE_NAME: Final = "NODE_NAME"
_RETRIES: Final = Delays(0.2, 30.0, jitter=0.5)
_STEADY_S: Final = 60.0
_WATCH_S: Final = 290
"""The length of a watch. API servers end one after half an hour to an hour; a shorter one shows that it still works."""
_LATE_S: Final = 30.0
_METADATA: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
"""An object without its spec and status: the whole of a node has 20 kB, and comes every few minutes."""
_GONE: Final = 410


@dataclass(frozen=True, slots=True)
class ThisNode:
    """The node of this process.

    Attributes:
        name: empty if it is not known.
        cluster: None if the process is not a pod of one.
    """

    name: str = ""
    cluster: ClusterApi | None = None


def this_node(variables: Mapping[str, str]) -> ThisNode:
    """The node that the environment names, as a pod's does that has it from the downward API."""
    return ThisNode(variables.get(NODE_NAME, ""), own_cluster(variables))


class OwnNodeLabels:
    """The labels of a node, read once or followed.

    Args:
        purpose: half a sentence that says what they are for.

    Attributes:
        labels: as they were seen last; None before.
        problem: why they cannot be read now; empty if they can.
    """

    def __init__(self, node: ThisNode, purpose: str) -> None:
        self.labels: Mapping[str, str] | None = None
        self.problem = ""
        self._node = node
        self._purpose = purpose

    async def read(self) -> Mapping[str, str]:
        """Ask for the labels.

        Raises:
            UsageError: it is not known which node it is.
            PathUnusable: the service account cannot be read.
            ClusterUnusable: the process is not a pod, or the cluster does not answer, or not with a node.
        """
        labels, _ = await self._read()
        return labels

    async def follow(self, changed: Callable[[], object]) -> NoReturn:
        """Keep `labels` true until cancelled; ``changed`` is called whenever they or the problem have changed."""
        backoff, clock = Backoff(_RETRIES, steady_s=_STEADY_S), asyncio.get_running_loop().time
        while True:
            began = clock()
            try:
                await self._watch(changed)
            except OperatorError as error:
                if self.problem != (sentence := str(error)):  # the same one over and over is one line in the log
                    logger.warning("%s", sentence)
                    self.problem = sentence
                    changed()
            await asyncio.sleep(backoff.next_delay_s(ran_s=clock() - began))

    async def _watch(self, changed: Callable[[], object]) -> None:
        """Read the labels, and follow them for as long as the server keeps the watch up."""
        labels, version = await self._read()
        self._take(labels, changed)
        query = {
            "watch": "true",
            "fieldSelector": f"metadata.name={self._node.name}",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(_WATCH_S),
        }
        try:
            async with asyncio.timeout(_WATCH_S + _LATE_S):
                async for event in self._events(query):
                    self._take(event, changed)
        except TimeoutError:
            return  # it should have ended: perhaps nothing comes any more

    async def _events(self, query: Mapping[str, str]) -> AsyncIterator[Mapping[str, str]]:
        """The labels with each change of the node."""
        from plugbay.ops.cluster_stream import opened

        async with opened(self._cluster, "api", "v1", "nodes", query=query, accept=_METADATA) as answer:
            if not answer.is_good:
                raise self._refused(f"status {answer.status}: {_message(await answer.whole())}")
            async for line in answer.lines():
                event = _read_json(line)
                match event.get("type") if isinstance(event, dict) else None:
                    case "ADDED" | "MODIFIED":
                        yield self._labels_in(event.get("object"))[0]
                    case "BOOKMARK":
                        continue
                    case "DELETED":
                        return  # to be read again, which tells that it is gone
                    case "ERROR" if _is_too_old(event):
                        return
                    case _:
                        raise self._refused(f"the watch says {line[:200].decode(errors='replace')}")

    def _take(self, labels: Mapping[str, str], changed: Callable[[], object]) -> None:
        is_news = labels != self.labels or bool(self.problem)
        if self.problem:
            logger.info("the labels of node %s can be read again", self._node.name)
        self.labels, self.problem = labels, ""
        if is_news:
            changed()

    async def _read(self) -> tuple[Mapping[str, str], str]:
        """The labels and the version of the node."""
        from plugbay.ops.cluster_stream import opened  # imported here, as all that asks a cluster

        name = self._node.name
        if not name:
            raise UsageError(f"{self._purpose}, and {NODE_NAME} does not say which node this is")
        async with opened(self._cluster, "api", "v1", "nodes", name, query={}, accept=_METADATA) as answer:
            content = await answer.whole()
        if not answer.is_good:
            raise self._refused(f"status {answer.status}: {_message(content)}")
        return self._labels_in(_read_json(content))

    @property
    def _cluster(self) -> ClusterApi:
        if self._node.cluster is None:
            raise not_in_a_pod(self._purpose)
        return self._node.cluster

    def _labels_in(self, node: Any) -> tuple[Mapping[str, str], str]:
        try:
            metadata = node["metadata"]
            labels = metadata.get("labels") or {}
            return {str(name): str(value) for name, value in labels.items()}, str(metadata.get("resourceVersion", ""))
        except (LookupError, TypeError, AttributeError) as error:
            raise self._refused("the answer is not a node") from error

    def _refused(self, problem: str) -> ClusterUnusable:
        return ClusterUnusable(
            f"the labels of node {self._node.name} cannot be read from {self._cluster.url}: {problem}; the service "
            "account of the plugin has to be allowed to get and watch nodes"
        )


def _read_json(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _message(content: bytes) -> str:
    """The words of an API server about an error."""
    answer = _read_json(content)
    said = answer.get("message") if isinstance(answer, dict) else None
    return str(said) if said else "without a reason"


def _is_too_old(event: Mapping[str, Any]) -> bool:
    status = event.get("object")
    return isinstance(status, dict) and status.get("code") == _GONE
