"""Animals that answer Allocate badly."""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing

from plugbay.errors import RpcCode, RpcFailed
from plugbay.wire.generated import deviceplugin_v1beta1_pb2 as pb
from plugbay.wire.grpc.metadata import Metadata
from plugbay.wire.grpc.services import Method, ServerStream, Unary
from tests.contract.testing.zoo.animal import Animal, rules


class HangsInAllocate(Animal):
    caught_by = rules(425)

    async def allocate(self, request: pb.AllocateRequest) -> pb.AllocateResponse:
        await self.stopping.wait()
        return await super().allocate(request)


class DiesOnUnknownId(Animal):
    caught_by = rules(406, 604)

    def check(self, ids: Sequence[str]) -> None:
        if {*ids} - {*self.ids}:
            os._exit(2)
        super().check(ids)


class AcceptsUnknownId(Animal):
    caught_by = rules(405, 423)

    def check(self, ids: Sequence[str]) -> None:
        if known := [each for each in ids if each in self.ids]:
            super().check(known)


class AnswersForAnotherContainer(Animal):
    """Answers for several containers in the wrong order."""

    caught_by = rules(404)

    async def allocate(self, request: pb.AllocateRequest) -> pb.AllocateResponse:
        answer = await super().allocate(request)
        return pb.AllocateResponse(container_responses=reversed(answer.container_responses))


class AnswersForOneContainer(Animal):
    """Answers for the first of several containers alone."""

    caught_by = rules(403)

    async def allocate(self, request: pb.AllocateRequest) -> pb.AllocateResponse:
        answer = await super().allocate(request)
        return pb.AllocateResponse(container_responses=answer.container_responses[:1])


class UnstableAnswers(Animal):
    """Answers the same question differently each time."""

    caught_by = rules(409)
    _turns = itertools.count()

    def container(self, request: pb.ContainerAllocateRequest) -> pb.ContainerAllocateResponse:
        answer = super().container(request)
        answer.envs["ANIMALS_TURN"] = str(next(self._turns))
        return answer


class GivesOnce(Animal):
    """Gives a device once, until it hears of a Deallocate, which kubelets do not know."""

    caught_by = rules(426)

    def container(self, request: pb.ContainerAllocateRequest) -> pb.ContainerAllocateResponse:
        answer = super().container(request)
        self._used: set[str] = getattr(self, "_used", set())
        if used := sorted({*request.devices_ids} & self._used):
            raise RpcFailed(RpcCode.FAILED_PRECONDITION, f"in use: {', '.join(used)}")
        self._used |= {*request.devices_ids}
        return answer

    async def deallocate(self, request: pb.DeallocateRequest) -> pb.Empty:
        self._used -= {id for each in request.container_requests for id in each.devices_ids}
        return await super().deallocate(request)


class OneAtATime(Animal):
    """Lets every call wait for the slow one before it."""

    caught_by = rules(803)

    def container(self, request: pb.ContainerAllocateRequest) -> pb.ContainerAllocateResponse:
        time.sleep(0.3)  # the event loop stands
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
    """Has a pool of four workers, of which each open stream takes one."""

    caught_by = rules(802)
    workers = 4

    def methods(self) -> Mapping[str, Method]:
        self._workers = asyncio.Semaphore(self.workers)
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


class SlowAllocate(Animal):
    caught_by = rules(424)

    async def allocate(self, request: pb.AllocateRequest) -> pb.AllocateResponse:
        await asyncio.sleep(1.2)
        return await super().allocate(request)


class DiesOfEmptyRequest(Animal):
    caught_by = rules(407)

    def check(self, ids: Sequence[str]) -> None:
        if not ids:
            os._exit(2)
        super().check(ids)


class GivesTwice(Animal):
    """Gives a device twice that is asked for twice."""

    caught_by = rules(408)

    def check(self, ids: Sequence[str]) -> None:
        super().check(sorted({*ids}))

    def container(self, request: pb.ContainerAllocateRequest) -> pb.ContainerAllocateResponse:
        answer = super().container(request)
        answer.mounts.extend(_mount(each) for each in request.devices_ids)
        return answer


class GivesFirstAlone(Animal):
    """Gives the first of several devices."""

    caught_by = rules(410)

    def container(self, request: pb.ContainerAllocateRequest) -> pb.ContainerAllocateResponse:
        answer = super().container(request)
        answer.mounts.append(_mount(request.devices_ids[0]))
        return answer


def _mount(id: str) -> pb.Mount:
    return pb.Mount(container_path=f"/animals/{id}", host_path="/tmp")
