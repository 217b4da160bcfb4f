"""Read everything once: all sources at the same time, each with a deadline."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeVar

from plugbay.observe.doctor.evidence.calls import ask_engine, ask_plugins, ask_pod_resources, ask_registrants
from plugbay.observe.doctor.evidence.checkpoint import read_checkpoint
from plugbay.observe.doctor.evidence.containers import read_engine, read_given, read_networks, read_specs
from plugbay.observe.doctor.evidence.host import Gaps, Host, is_our_node
from plugbay.observe.doctor.evidence.kubelet import read_kubelet
from plugbay.observe.doctor.evidence.listeners import read_lost_listeners
from plugbay.observe.doctor.evidence.logs import read_happenings
from plugbay.observe.doctor.evidence.machine import read_journals, read_machine, with_given
from plugbay.observe.doctor.evidence.machine_values import CniSight, EngineSight, HostFile, MachineSight, SpecSight
from plugbay.observe.doctor.evidence.objects import Objects, merged, read_objects
from plugbay.observe.doctor.evidence.pods import read_pods
from plugbay.observe.doctor.evidence.sockets import (
    read_directory,
    read_socket,
    read_sockets,
)
from plugbay.observe.doctor.evidence.values import (
    CheckpointSight,
    DirectorySight,
    EvidenceSource,
    Examined,
    JournalSight,
    KubeletEvidence,
    LostListener,
    PodHappening,
    PodResourcesSight,
    PodSight,
    SocketSight,
)
from plugbay.observe.view import SocketState

_T = TypeVar("_T")
_THREAD: Final = "reading the node's "


async def read_evidence(host: Host, *, objects: Iterable[Path] = (), may_list: bool = False) -> Examined:
    """All that can be read about the machine's node.

    Args:
        objects: files with v1 objects.
        may_list: PodResources may be asked by List; our own node always is.
    """
    gaps = Gaps()
    paths = host.kubelet
    plugins_directory, registry_directory = paths.device_plugins, paths.plugins_registry
    async with asyncio.TaskGroup() as tasks:

        def reading(source: EvidenceSource, missing: _T, read: Callable[[], _T]) -> asyncio.Task[_T]:
            return tasks.create_task(_in_time(source, missing, read, host, gaps))

        nowhere = DirectorySight("", is_there=False)
        nothing: tuple[SocketSight, ...] = ()
        plugins = reading(EvidenceSource.DIRECTORIES, nowhere, lambda: read_directory(plugins_directory, host, gaps))
        registry = reading(EvidenceSource.DIRECTORIES, nowhere, lambda: read_directory(registry_directory, host, gaps))
        sockets = reading(EvidenceSource.SOCKETS, nothing, lambda: read_sockets(plugins_directory, host, gaps))
        registrants = reading(
            EvidenceSource.SOCKETS, nothing, lambda: read_sockets(registry_directory, host, gaps, below=True)
        )
        answers = reading(EvidenceSource.SOCKETS, None, lambda: read_socket(paths.pod_resources_socket, host, gaps))
        none_lost: tuple[LostListener, ...] = ()
        lost = reading(EvidenceSource.LISTENERS, none_lost, lambda: read_lost_listeners(plugins_directory, host, gaps))
        checkpoint = reading(EvidenceSource.CHECKPOINT, CheckpointSight(""), lambda: read_checkpoint(host, gaps))
        found = reading(EvidenceSource.OBJECTS, Objects(), lambda: read_objects(host, objects, gaps))
        directories = reading(EvidenceSource.PODS, tuple[PodSight, ...](), lambda: read_pods(host, gaps))
        specs = reading(EvidenceSource.CDI, SpecSight(), lambda: read_specs(host, gaps))
        no_engine: tuple[EngineSight | None, CniSight] = (None, CniSight())
        engine = reading(EvidenceSource.ENGINE, no_engine, lambda: _engine_and_networks(host, gaps))
        machine = reading(EvidenceSource.LIMITS, MachineSight(host.now_s), lambda: read_machine(host, gaps))
        journals = reading(EvidenceSource.JOURNALS, tuple[JournalSight, ...](), lambda: read_journals(host, gaps))
        log_gaps = Gaps()
        no_log: tuple[tuple[PodHappening, ...], str] = ((), "")
        log = reading(EvidenceSource.HAPPENINGS, no_log, lambda: _log(host, log_gaps))
    objects_found = found.result()
    pods = tuple(merged((*objects_found.pods, *directories.result())))
    registration = next((each for each in sockets.result() if each.path.endswith("/kubelet.sock")), None)
    pid = registration.pid if registration else 0
    no_kubelet = KubeletEvidence(str(host.kubelet_root))
    kubelet = await _in_time(EvidenceSource.SETTINGS, no_kubelet, lambda: read_kubelet(host, gaps, pid=pid), host, gaps)
    evidence = Examined(
        replace(
            kubelet,
            is_ours=objects_found.is_ours,
            runtime=objects_found.runtime,
        ),
        plugins.result(),
        registry.result(),
        registration,
        answers.result(),
        tuple(each for each in sockets.result() if each is not registration),
        registrants.result(),
        tuple(each for each in lost.result() if not each.path.endswith("/kubelet.sock")),
        checkpoint.result(),
        pods=pods,
        happenings=tuple(objects_found.happenings),
        resources=tuple(objects_found.resources),
        releases=tuple(objects_found.releases),
        specs=specs.result(),
        engine=engine.result()[0],
        cni=engine.result()[1],
        machine=machine.result(),
        journals=journals.result(),
    )
    evidence = await _asked(evidence, host, gaps, may_list=may_list or objects_found.is_ours)
    evidence = _with_log(evidence, objects_found, *log.result())
    unread = () if objects_found.happenings else log_gaps.noted
    return replace(evidence, gaps=(*gaps.noted, *unread))


def hanging_readings() -> int:
    """The number of readings that are going on in this process: between examinations, those that hang."""
    return sum(thread.name.startswith(_THREAD) for thread in threading.enumerate())


def _engine_and_networks(host: Host, gaps: Gaps) -> tuple[EngineSight | None, CniSight]:
    engine = read_engine(host, gaps)
    return engine, read_networks(host, gaps, engine)


async def _asked(evidence: Examined, host: Host, gaps: Gaps, *, may_list: bool) -> Examined:
    """The evidence with what plugins and PodResources answer, and the checkpoint as it is after that."""
    no_files: tuple[HostFile, ...] = ()
    sockets, registrants, engine, pod_resources = await asyncio.gather(
        ask_plugins(evidence.sockets, host),
        ask_registrants(evidence.registry_sockets, host),
        ask_engine(evidence.engine, host),
        _ask_kubelet(evidence, host, gaps, may_list=may_list),
    )
    after = await _checkpoint(host, gaps)
    if after.entries != evidence.checkpoint.entries and pod_resources.held is not None:  # it changed meanwhile
        pod_resources = await _ask_kubelet(replace(evidence, checkpoint=after), host, gaps, may_list=may_list)
        after = await _checkpoint(host, gaps)
    entries = after.entries
    given = await _in_time(EvidenceSource.GIVEN, no_files, lambda: read_given(entries, host), host, gaps)
    return replace(
        evidence,
        sockets=sockets,
        registry_sockets=registrants,
        engine=engine,
        pod_resources=pod_resources,
        checkpoint=after,
        machine=with_given(evidence.machine, given),
    )


async def _checkpoint(host: Host, gaps: Gaps) -> CheckpointSight:
    return await _in_time(
        EvidenceSource.CHECKPOINT, CheckpointSight(""), lambda: read_checkpoint(host, gaps), host, gaps
    )


async def _ask_kubelet(evidence: Examined, host: Host, gaps: Gaps, *, may_list: bool) -> PodResourcesSight:
    socket = evidence.pod_resources_socket
    if socket is None or socket.state is not SocketState.LISTENING:
        return PodResourcesSight()
    holders = {each.pod_uid for each in evidence.checkpoint.entries}
    names = [(each.namespace, each.name) for each in evidence.pods if each.uid in holders and each.name]
    return await ask_pod_resources(host, names, gaps, may_list=may_list)


def _log(host: Host, gaps: Gaps) -> tuple[tuple[PodHappening, ...], str]:
    """The kubelet's log; the events of our own node say all that its log does."""
    return ((), "") if is_our_node(host) else read_happenings(host, gaps)


def _with_log(evidence: Examined, found: Objects, said: tuple[PodHappening, ...], version: str) -> Examined:
    known = found.kubelet_version or version
    where = "the node's object" if found.kubelet_version else "its log"
    kubelet = replace(evidence.kubelet, version=known, version_from=where if known else "")
    return replace(evidence, kubelet=kubelet, happenings=(*evidence.happenings, *said))


async def _in_time(source: EvidenceSource, missing: _T, read: Callable[[], _T], host: Host, gaps: Gaps) -> _T:
    """Read in a thread that may hang: the process ends without it. A source that fails does not spoil the others."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[_T] = loop.create_future()

    def finish(result: _T) -> None:
        if not done.cancelled():
            done.set_result(result)

    def work() -> None:
        try:
            result = read()
        except OSError as error:
            gaps.note(source, host.shown(error.filename) if error.filename else source.value, error)
            result = missing
        except Exception as error:  # whatever lies on a node that is broken
            gaps.note(source, source.value, f"{type(error).__name__}: {error}")
            result = missing
        with contextlib.suppress(RuntimeError):  # the loop has been closed: nothing waits any more
            loop.call_soon_threadsafe(finish, result)

    threading.Thread(target=work, name=f"{_THREAD}{source.value}", daemon=True).start()
    try:
        async with asyncio.timeout(host.read_s):
            return await done
    except TimeoutError:
        gaps.note(source, source.value, f"not read within {host.read_s:g} s: a file system or a process hangs")
        return missing
