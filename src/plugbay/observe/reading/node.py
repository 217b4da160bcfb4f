"""Read all sources of a node at one moment."""

from __future__ import annotations

import asyncio
from datetime import datetime

from plugbay.documents import Json
from plugbay.observe.evidence import CheckpointEvidence, KnownPod, NodeEvidence
from plugbay.observe.places import NodePlaces
from plugbay.observe.reading.checkpoint_file import read_checkpoint, written_at
from plugbay.observe.reading.cpu_state import ExclusiveCpus, read_cpu_state
from plugbay.observe.reading.host_name import read_host_name
from plugbay.observe.reading.pages import read_node_devices, read_plugin_status
from plugbay.observe.reading.pod_names import read_pod_names
from plugbay.observe.reading.podresources import DEADLINE_S, AllowedCalls, ask_pod_resources
from plugbay.observe.reading.sockets import read_sockets
from plugbay.observe.view import ReadingProblem, SocketView, Witness
from plugbay.values import dataclass


async def read_node(
    places: NodePlaces,
    *,
    now: datetime,
    asking: AllowedCalls = AllowedCalls.HARMLESS,
    pod: tuple[str, str] | None = None,
    deadline_s: float = DEADLINE_S,
) -> NodeEvidence:
    """Read what there is; a node of ours, the kubelet and each plugin's page have ``deadline_s`` each.

    The checkpoint is read before the kubelet is asked, as a list may change what the next one says, and once more if it
    was written meanwhile: so a pod that came in between is not a contradiction. Names of pods are read after it each
    time, as it may have a pod that was not there before. A node of ours, whose lists change nothing, is asked for them
    in any case.

    Args:
        pod: namespace and name of the only pod that is wanted.
    """
    async with asyncio.TaskGroup() as tasks:
        reading = [
            tasks.create_task(asyncio.to_thread(read_plugin_status, address, timeout_s=deadline_s))
            for address in places.status_pages
        ]
        given = await asyncio.to_thread(_read_given, places)
        files = await asyncio.to_thread(_read_files, places, deadline_s)
        if files.node is not None and asking is AllowedCalls.HARMLESS:
            asking = AllowedCalls.LIST
        answers = await ask_pod_resources(places.kubelet.pod_resources_socket, asking, pod=pod, deadline_s=deadline_s)
        given = await asyncio.to_thread(_read_again, places, given)
    pages = [task.result() for task in reading]
    without_pages = [problem for _, problems in pages for problem in problems]
    return NodeEvidence(
        taken=now,
        root=str(places.kubelet.root),
        checkpoint=given.checkpoint,
        host_name=files.host_name,
        pods=answers.pods,
        only_pod=pod,
        allocatable=answers.allocatable,
        known_pods=given.known_pods,
        node=files.node,
        plugins=tuple(page for page, _ in pages if page is not None),
        sockets=files.sockets,
        exclusive_cpus=files.exclusive_cpus,
        problems=(*given.problems, *answers.problems, *files.problems, *without_pages),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    """The devices that pods have been given, and the names of the pods."""

    checkpoint: CheckpointEvidence
    known_pods: dict[str, KnownPod]
    problems: tuple[ReadingProblem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Files:
    host_name: str
    node: Json | None
    sockets: tuple[SocketView, ...]
    exclusive_cpus: ExclusiveCpus | None
    problems: tuple[ReadingProblem, ...]


def _read_given(places: NodePlaces) -> _Given:
    checkpoint = read_checkpoint(places.kubelet.checkpoint)
    known_pods, without_names = read_pod_names(places.pods, places.pod_logs)
    return _Given(
        checkpoint=checkpoint,
        known_pods=known_pods,
        problems=(*_checkpoint_problem(checkpoint), *without_names),
    )


def _read_again(places: NodePlaces, before: _Given) -> _Given:
    try:
        written = written_at(places.kubelet.checkpoint.stat())
    except OSError:
        written = None
    return before if written == before.checkpoint.file.written else _read_given(places)


def _read_files(places: NodePlaces, timeout_s: float) -> _Files:
    node, without_node = read_node_devices(places.control_socket, timeout_s=timeout_s)
    sockets, without_sockets = read_sockets(places.kubelet.device_plugins, proc=places.proc)
    exclusive_cpus, without_cpus = read_cpu_state(places.cpu_state)
    return _Files(
        host_name=read_host_name(places.host),
        node=node,
        sockets=sockets,
        exclusive_cpus=exclusive_cpus,
        problems=(*without_node, *without_sockets, *without_cpus),
    )


def _checkpoint_problem(checkpoint: CheckpointEvidence) -> list[ReadingProblem]:
    return [ReadingProblem(Witness.CHECKPOINT, checkpoint.file.problem)] if checkpoint.file.problem else []
