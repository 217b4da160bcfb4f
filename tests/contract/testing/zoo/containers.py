"""Animals that answer Allocate badly."""

from __future__ import annotations

import time

from plugbay.wire.generated import deviceplugin_v1beta1_pb2 as pb
from tests.contract.testing.zoo.animal import Animal, rules


class OneAtATime(Animal):
    """Lets every call wait for the slow one before it."""

    caught_by = rules(803)

    def container(self, request: pb.ContainerAllocateRequest) -> pb.ContainerAllocateResponse:
        time.sleep(0.4)  # the event loop stands
        return super().container(request)
