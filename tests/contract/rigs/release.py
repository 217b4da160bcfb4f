"""What tests of PostStopContainer and Deallocate share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from plugbay.errors import RpcCode
from plugbay.manager.gates import FeatureGates, parse_feature_gates
from plugbay.manager.release.notices import ReleaseNotice
from plugbay.model.devices import PluginOptions
from plugbay.model.edits import ContainerEdits
from plugbay.model.ids import ContainerName, DeviceId, PodUid
from plugbay.testing.fakes.plugin import FakePlugin, refusing
from plugbay.wire.grpc.metadata import Metadata
from plugbay.wire.grpc.server import serve_grpc
from plugbay.wire.grpc.services import Method, ServerStream, Service, Unary
from plugbay.wire.plugin_server import device_plugin_handler
from tests.contract.rigs.manager import DEADLINE_S, Bench, bench

ON: Final[FeatureGates] = parse_feature_gates("DeviceManagerDeallocate=true")
BOTH: Final = PluginOptions(post_stop_required=True, deallocate_required=True)
ALL: Final = PluginOptions(pre_start_required=True, post_stop_required=True, deallocate_required=True)
WITHOUT: Final = PluginOptions(pre_start_required=True)
P: Final = PodUid("p")
INTERNAL: Final = refusing(RpcCode.INTERNAL, "no power")


@asynccontextmanager
async def gated(root: Path, **settings: Any) -> AsyncIterator[Bench]:
    """A manager with the gate on."""
    async with bench(root, gates=ON, **settings) as b:
        yield b


def operations(plugin: FakePlugin) -> tuple[set[str], set[str]]:
    """The IDs of the PostStopContainer and of the Deallocate operations it has seen."""
    return {each.operation for each in plugin.post_stopped}, {each.operation for each in plugin.deallocated}


def ended(b: Bench, uid: str = "p", name: str = "app", instance: str = "i1") -> None:
    b.manager.container_ended(PodUid(uid), ContainerName(name), instance)


async def first_notice(b: Bench) -> ReleaseNotice:
    async with asyncio.timeout(DEADLINE_S):
        return await anext(b.manager.release_notices())


class Sequenced:
    """A behaviour that takes one step of several with each call; the last one stays."""

    def __init__(self, *steps: Any) -> None:
        self._steps = list(steps)

    async def __call__(self, devices: Sequence[DeviceId]) -> Any:
        step = self._steps.pop(0) if len(self._steps) > 1 else self._steps[0]
        return await step(devices)


async def fine(_: Sequence[DeviceId]) -> None:
    return None


async def some_edits(_: Sequence[DeviceId]) -> ContainerEdits:
    return ContainerEdits()


class Recording:
    """A plugin's service that keeps the bytes of every request: what is on the wire, whoever reads it."""

    def __init__(self, plugin: FakePlugin) -> None:
        self.requests: list[tuple[str, bytes]] = []
        service = device_plugin_handler(plugin)
        methods = {name: self._recorded(name, method) for name, method in service.methods.items()}
        self.service = Service(service.name, methods)

    def _recorded(self, name: str, method: Method) -> Method:
        match method:
            case Unary(answer):

                async def call(request: bytes) -> bytes:
                    self.requests.append((name, request))
                    return await answer(request)

                return Unary(call)
            case ServerStream(answers):

                def stream(request: bytes, metadata: Metadata) -> AsyncGenerator[bytes, None]:
                    self.requests.append((name, request))
                    return answers(request, metadata)

                return ServerStream(stream)


@asynccontextmanager
async def recorded(plugin: FakePlugin) -> AsyncIterator[Recording]:
    """``plugin``, served on its socket, with a record of the traffic."""
    recording = Recording(plugin)
    async with serve_grpc(plugin.socket, [recording.service]):
        yield recording
