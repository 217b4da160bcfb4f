"""Animals that register badly."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from plugbay.wire.generated import deviceplugin_v1beta1_pb2 as pb
from plugbay.wire.grpc.metadata import Metadata
from plugbay.wire.grpc.server import serve_grpc
from plugbay.wire.grpc.services import Forwarded, Service
from tests.contract.testing.zoo.animal import Animal, rules


class RegistersBeforeServing(Animal):
    """Serves 0.3 s after it has called Register; the kubelet dials it meanwhile."""

    caught_by = rules(105)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        self._registering = [asyncio.create_task(super().register())]
        await asyncio.sleep(0.3)
        async with super().serving():
            yield

    async def register(self) -> bool:
        return await (self._registering.pop() if self._registering else super().register())


class AbsoluteEndpoint(Animal):
    caught_by = rules(104)

    def endpoint(self) -> str:
        return str(self.socket)


class RegistersInStorm(Animal):
    """Registers every 10 ms, though it is registered, and many times at once while it is refused."""

    caught_by = rules(108, 113, 116, 911)

    async def keep_registered(self) -> None:
        while True:
            if not await self.register():
                await asyncio.gather(*(self.register() for _ in range(10)))
            await asyncio.sleep(0.01)


class GivesUpRegistering(Animal):
    """Tries to register once at its start: refused, it waits for ever."""

    caught_by = rules(110)
    _is_known = False

    async def register(self) -> bool:
        is_accepted = await super().register()
        self._is_known = self._is_known or is_accepted
        if not self._is_known:
            await self.stopping.wait()
        return is_accepted


class LosesPatience(Animal):
    """Ends if the kubelet takes more than a second to answer."""

    caught_by = rules(112)

    async def register(self) -> bool:
        try:
            async with asyncio.timeout(1):
                return await super().register()
        except TimeoutError:
            self.stop()
            return False


class SlowOptions(Animal):
    caught_by = rules(202, 704)

    async def get_options(self, request: pb.Empty) -> pb.DevicePluginOptions:
        await asyncio.sleep(1.2)
        return await super().get_options(request)


class ChangesOptions(Animal):
    """Wants PreStartContainer the first time that it is asked, and not again."""

    caught_by = rules(203)
    _was_asked = False

    async def get_options(self, request: pb.Empty) -> pb.DevicePluginOptions:
        options = pb.DevicePluginOptions()
        options.CopyFrom(self.options)
        options.pre_start_required = not self._was_asked
        self._was_asked = True
        return options


class AnswersEverything(Animal):
    """Answers a method that it does not know as if it had done what was asked."""

    caught_by = rules(207)

    def serving(self) -> AbstractAsyncContextManager[None]:
        known = [Service("v1beta1.DevicePlugin", self.methods())]
        return serve_grpc(self.socket, known, grace_s=0.2, otherwise=lambda _: Forwarded(self.anything))

    async def anything(self, request: bytes, metadata: Metadata, left_s: float | None) -> AsyncGenerator[bytes, None]:
        yield b""


class DiesOfUnknownMethod(AnswersEverything):
    """Ends when it is asked for a method that it does not know."""

    caught_by = rules(207)

    async def anything(self, request: bytes, metadata: Metadata, left_s: float | None) -> AsyncGenerator[bytes, None]:
        os._exit(2)
        yield b""
