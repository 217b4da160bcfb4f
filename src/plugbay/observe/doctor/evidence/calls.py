"""Ask plugins and the kubelet, with deadlines: only calls that change nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from plugbay.errors import PlugbayError, RpcCode, RpcFailed
from plugbay.observe.doctor.evidence.host import Gaps, Host
from plugbay.observe.doctor.evidence.machine_values import EngineSight
from plugbay.observe.doctor.evidence.values import Answer, EvidenceSource, PodResourcesSight, SocketSight
from plugbay.observe.reading.meeting import reachable
from plugbay.observe.view import SocketState

if TYPE_CHECKING:
    from plugbay.kubelet.podresources import PodResourcesClient
    from plugbay.model.podresources import ContainerDevices, PodResources

_AT_ONCE: Final = 5
_PAUSE_S: Final = 0.02
"""A kubelet takes ten calls at once, of all clients together, then a hundred a second: half of it is left to others.

Source: kubelet 1.36 ``pkg/kubelet/apis/podresources/constants.go``.
"""
_MOST_PODS: Final = 50
_LATE: Final = (RpcCode.DEADLINE_EXCEEDED, RpcCode.CANCELLED)


async def ask_plugins(sockets: Sequence[SocketSight], host: Host) -> tuple[SocketSight, ...]:
    """The sockets, with the answer of each to GetDevicePluginOptions, which kubelets call as well."""
    return tuple(await asyncio.gather(*(_ask_plugin(each, host) for each in sockets)))


async def _ask_plugin(sight: SocketSight, host: Host) -> SocketSight:
    if sight.state is not SocketState.LISTENING:
        return sight
    # Imported here: it brings protobuf.
    from plugbay.wire.plugin_client import PluginClient

    with reachable(host.at(sight.path)) as path:
        client = PluginClient(Path(path))
        try:
            async with asyncio.timeout(host.answer_s):
                await client.options(timeout_s=host.answer_s)
        except (TimeoutError, PlugbayError) as error:
            return _after(sight, error)
        finally:
            await client.close()
    return replace(sight, answer=Answer.ANSWERED)


async def ask_registrants(sockets: Sequence[SocketSight], host: Host) -> tuple[SocketSight, ...]:
    """The sockets of the plugin watcher, with the resource that each names by GetInfo."""
    return tuple(await asyncio.gather(*(_ask_registrant(each, host) for each in sockets)))


async def _ask_registrant(sight: SocketSight, host: Host) -> SocketSight:
    if sight.state is not SocketState.LISTENING:
        return sight
    from plugbay.wire.pluginregistration import DEVICE_PLUGIN, PluginRegistrationClient

    with reachable(host.at(sight.path)) as path:
        client = PluginRegistrationClient(Path(path))
        try:
            async with asyncio.timeout(host.answer_s):
                info = await client.info(timeout_s=host.answer_s)
        except (TimeoutError, PlugbayError) as error:
            return _after(sight, error)
        finally:
            await client.close()
    name = info.name if info.type == DEVICE_PLUGIN else ""
    return replace(sight, answer=Answer.ANSWERED, resource=name)


def _after(sight: SocketSight, error: Exception) -> SocketSight:
    """Tell by a failed call: no answer in time, or a refusal, which is an answer."""
    if isinstance(error, TimeoutError) or (isinstance(error, RpcFailed) and error.code in _LATE):
        return replace(sight, answer=Answer.SILENT)
    return replace(sight, answer=Answer.ANSWERED, problem=str(error))


async def ask_engine(engine: EngineSight | None, host: Host) -> EngineSight | None:
    """The engine; where it is containerd's version that decides on CDI, as the version that it tells does."""
    if engine is None or not engine.is_cdi_default or not engine.is_listening:
        return engine
    from plugbay.wire.cri import CriClient

    with reachable(host.at(engine.socket)) as path:
        client = CriClient(Path(path))
        try:
            async with asyncio.timeout(host.answer_s):
                version = (await client.version()).version
        except (TimeoutError, PlugbayError):
            return engine
        finally:
            await client.close()
    is_first = version.lstrip("v").startswith(("0.", "1."))
    return engine if is_first else replace(engine, cdi=True)


async def ask_pod_resources(
    host: Host, names: Iterable[tuple[str, str]], gaps: Gaps, *, may_list: bool
) -> PodResourcesSight:
    """The answers of PodResources.

    List makes a stock kubelet drop the assignments of pods that have ended, and if it waits for an Allocate call
    meanwhile, a device may so get two owners. Get and GetAllocatableResources are harmless.

    Args:
        names: the pods that `Get` asks for.
        may_list: ask by List instead.
    """
    from plugbay.kubelet.podresources import PodResourcesClient

    socket = host.kubelet.pod_resources_socket
    sight = PodResourcesSight(call="List" if may_list else "Get")
    with reachable(socket) as path:
        async with PodResourcesClient(Path(path)) as client:
            try:
                async with asyncio.timeout(host.answer_s):
                    found = await client.allocatable()
                sight = replace(sight, allocatable=_by_resource(found.devices))
                async with asyncio.timeout(host.answer_s):
                    pods = await (client.list() if may_list else _get(client, sorted(set(names)), host, gaps))
                return replace(sight, held={(each.namespace, each.name): _held(each) for each in pods})
            except TimeoutError:
                why = f"no answer within {host.answer_s:g} s"
                is_late = True
            except PlugbayError as error:
                why = str(error)
                is_late = isinstance(error, RpcFailed) and error.code in _LATE
    call, source = "GetAllocatableResources", EvidenceSource.POD_RESOURCES
    if sight.allocatable is not None:
        call, source = sight.call, EvidenceSource.HOLDINGS
    gaps.note(source, f"{call} at {host.shown(socket)}", why)
    return replace(sight, is_late=is_late)


async def _get(
    client: PodResourcesClient, names: list[tuple[str, str]], host: Host, gaps: Gaps
) -> tuple[PodResources, ...]:
    if len(names) > _MOST_PODS:
        what = f"Get at {host.shown(host.kubelet.pod_resources_socket)}"
        gaps.note(EvidenceSource.HOLDINGS, what, f"only {_MOST_PODS} of {len(names)} pods were asked for")
    answers: list[PodResources | None] = []
    for number, (namespace, name) in enumerate(names[:_MOST_PODS]):
        if number >= _AT_ONCE:
            await asyncio.sleep(_PAUSE_S)
        answers.append(await client.get(namespace, name))
    return tuple(each for each in answers if each is not None)


def _by_resource(devices: Iterable[ContainerDevices]) -> Mapping[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for each in devices:
        found.setdefault(each.resource, set()).update(each.device_ids)
    return {name: frozenset(ids) for name, ids in found.items()}


def _held(pod: PodResources) -> Mapping[str, Mapping[str, frozenset[str]]]:
    return {each.name: _by_resource(each.devices) for each in pod.containers}
