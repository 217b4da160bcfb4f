"""Animals that answer Allocate badly."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from plugbay.errors import RpcCode, RpcFailed
from plugbay.wire.generated import deviceplugin_v1beta1_pb2 as pb
from plugbay.wire.grpc.metadata import Metadata
from plugbay.wire.grpc.services import Method, ServerStream, Unary
from tests.contract.testing.zoo.animal import Animal, rules


class OneAtATime(Animal):
    """Lets every call wait for the slow one before it."""

    caught_by = rules(803)

    def container(self, request: pb.ContainerAllocateRequest) -> pb.ContainerAllocateResponse:
        time.sleep(0.4)  # the event loop stands
        return super().container(request)


class AllocatesForOne(Animal):
    """Refuses an Allocate while another one is under way."""

    caught_by = rules(801)
    _is_busy = False

    async def allocate(self, request: pb.AllocateRequest) -> pb.AllocateResponse:
        if self._is_busy:
            raise RpcFailed(RpcCode.RESOURCE_EXHAUSTED, "busy")
        self._is_busy = True
        await asyncio.sleep(0.05)
        self._is_busy = False
        return await super().allocate(request)


class FewWorkers(Animal):
    """Has a pool of four workers, and each open stream takes one."""

    caught_by = rules(802)

    def methods(self) -> Mapping[str, Method]:
        self._workers = asyncio.Semaphore(4)
        return {name: self._worked(method) for name, method in super().methods().items()}

    def _worked(self, method: Method) -> Method:
        async def answer(request: bytes) -> bytes:
            assert isinstance(method, Unary)
            async with self._workers:
                return await method.answer(request)

        async def answers(request: bytes, metadata: Metadata) -> AsyncGenerator[bytes, None]:
            assert isinstance(method, ServerStream)
            async with self._workers, aclosing(method.answers(request, metadata)) as messages:
                async for message in messages:
                    yield message

        return Unary(answer) if isinstance(method, Unary) else ServerStream(answers)
