"""Animals that fail before or after a container."""

from __future__ import annotations

import asyncio

from plugbay.errors import RpcCode, RpcFailed
from plugbay.wire.generated import deviceplugin_v1beta1_pb2 as pb
from tests.contract.testing.zoo.animal import Animal, rules

_UNIMPLEMENTED = RpcFailed(RpcCode.UNIMPLEMENTED, "method not implemented")


class PreStartMissing(Animal):
    """Announces PreStartContainer, and has none: no container starts."""

    caught_by = rules(205)

    async def pre_start(self, request: pb.PreStartContainerRequest) -> pb.PreStartContainerResponse:
        raise _UNIMPLEMENTED


class PreStartFails(Animal):
    caught_by = rules(601)

    async def pre_start(self, request: pb.PreStartContainerRequest) -> pb.PreStartContainerResponse:
        raise RpcFailed(RpcCode.INTERNAL, "no power")


class PreStartOnce(Animal):
    """Refuses a container that starts again."""

    caught_by = rules(603)

    async def pre_start(self, request: pb.PreStartContainerRequest) -> pb.PreStartContainerResponse:
        self._prepared: set[str] = getattr(self, "_prepared", set())
        if self._prepared & {*request.devices_ids}:
            raise RpcFailed(RpcCode.FAILED_PRECONDITION, "prepared already")
        self._prepared |= {*request.devices_ids}
        return await super().pre_start(request)


class PreStartForgets(Animal):
    """Knows no allocation from before its start."""

    caught_by = rules(605)

    async def allocate(self, request: pb.AllocateRequest) -> pb.AllocateResponse:
        self._allocated = True
        return await super().allocate(request)

    async def pre_start(self, request: pb.PreStartContainerRequest) -> pb.PreStartContainerResponse:
        if not getattr(self, "_allocated", False):
            raise RpcFailed(RpcCode.FAILED_PRECONDITION, "not allocated")
        return await super().pre_start(request)


class PreStartHangs(Animal):
    caught_by = rules(602)

    async def pre_start(self, request: pb.PreStartContainerRequest) -> pb.PreStartContainerResponse:
        await self.stopping.wait()
        return await super().pre_start(request)


class PostStopMissing(Animal):
    caught_by = rules(606)

    async def post_stop(self, request: pb.PostStopContainerRequest) -> pb.Empty:
        raise _UNIMPLEMENTED


class DeallocateOnce(Animal):
    """Refuses a repeated call."""

    caught_by = rules(610)

    async def deallocate(self, request: pb.DeallocateRequest) -> pb.Empty:
        self._done: set[str] = getattr(self, "_done", set())
        operation = request.container_requests[0].operation_id
        if operation in self._done:
            raise RpcFailed(RpcCode.INTERNAL, "released already")
        self._done.add(operation)
        return pb.Empty()


class DeallocateRefusesUnknown(Animal):
    caught_by = rules(611)

    async def deallocate(self, request: pb.DeallocateRequest) -> pb.Empty:
        self.check(request.container_requests[0].devices_ids)
        return pb.Empty()


class KeepsDeallocated(Animal):
    """Never gives a device again that was released."""

    caught_by = rules(613)

    async def deallocate(self, request: pb.DeallocateRequest) -> pb.Empty:
        self._used: set[str] = getattr(self, "_used", set()) | {*request.container_requests[0].devices_ids}
        return pb.Empty()

    def container(self, request: pb.ContainerAllocateRequest) -> pb.ContainerAllocateResponse:
        if used := {*request.devices_ids} & getattr(self, "_used", set()):
            raise RpcFailed(RpcCode.FAILED_PRECONDITION, f"used: {', '.join(used)}")
        return super().container(request)


class PostStopHangs(Animal):
    caught_by = rules(612)

    async def post_stop(self, request: pb.PostStopContainerRequest) -> pb.Empty:
        await asyncio.sleep(20)
        return pb.Empty()


class PostStopOnce(Animal):
    """Refuses a repeated call."""

    caught_by = rules(607)

    async def post_stop(self, request: pb.PostStopContainerRequest) -> pb.Empty:
        self._stopped: set[str] = getattr(self, "_stopped", set())
        if request.operation_id in self._stopped:
            raise RpcFailed(RpcCode.INTERNAL, "stopped already")
        self._stopped.add(request.operation_id)
        return pb.Empty()


class PostStopRefusesUnknown(Animal):
    caught_by = rules(608)

    async def post_stop(self, request: pb.PostStopContainerRequest) -> pb.Empty:
        self.check(request.devices_ids)
        return pb.Empty()


class DeallocateMissing(Animal):
    caught_by = rules(609)

    async def deallocate(self, request: pb.DeallocateRequest) -> pb.Empty:
        raise _UNIMPLEMENTED
