"""Animals with bad preferences."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Iterable

from plugbay.errors import RpcCode, RpcFailed
from plugbay.wire.generated import deviceplugin_v1beta1_pb2 as pb
from tests.contract.testing.zoo.animal import Animal, rules


class PrefersTooFew(Animal):
    caught_by = rules(501)

    def preferred(self, available: Iterable[str], must_include: Iterable[str], size: int) -> list[str]:
        must_include = list(must_include)
        return super().preferred(available, must_include, max(size - 1, len(must_include), 1))


class DropsMustInclude(Animal):
    caught_by = rules(502)

    def preferred(self, available: Iterable[str], must_include: Iterable[str], size: int) -> list[str]:
        return sorted(available)[:size]


class PrefersUnavailable(Animal):
    caught_by = rules(503)

    def preferred(self, available: Iterable[str], must_include: Iterable[str], size: int) -> list[str]:
        return super().preferred(self.ids, must_include, size)


class PrefersAtRandom(Animal):
    caught_by = rules(504)

    def preferred(self, available: Iterable[str], must_include: Iterable[str], size: int) -> list[str]:
        self._turns = getattr(self, "_turns", None) or itertools.count()
        ids, start = sorted(available), next(self._turns)
        turned = (ids[(start + place) % len(ids)] for place in range(len(ids)))
        return list(dict.fromkeys((*must_include, *turned)))[:size]


class PrefersByPlace(Animal):
    """Takes the first devices of the request, which a kubelet shuffles."""

    caught_by = rules(507)

    def preferred(self, available: Iterable[str], must_include: Iterable[str], size: int) -> list[str]:
        return list(dict.fromkeys((*must_include, *available)))[:size]


class PrefersSlowly(Animal):
    caught_by = rules(505)

    async def prefer(self, request: pb.PreferredAllocationRequest) -> pb.PreferredAllocationResponse:
        offered = sum(len(each.available_deviceIDs) for each in request.container_requests)
        await asyncio.sleep(offered**2 / 500_000)
        return await super().prefer(request)


class PreferenceMissing(Animal):
    """Announces that it has preferences, and has none."""

    caught_by = rules(204)

    async def prefer(self, request: pb.PreferredAllocationRequest) -> pb.PreferredAllocationResponse:
        raise RpcFailed(RpcCode.UNIMPLEMENTED, "method GetPreferredAllocation not implemented")


class PreferenceFails(Animal):
    """Fails where it has to include a device."""

    caught_by = rules(509)

    def preferred(self, available: Iterable[str], must_include: Iterable[str], size: int) -> list[str]:
        if [*must_include]:
            raise RpcFailed(RpcCode.INTERNAL, "no way")
        return super().preferred(available, must_include, size)


class PreferenceUnannounced(Animal):
    """Has preferences that no kubelet asks for."""

    caught_by = rules(206)
    options = pb.DevicePluginOptions(pre_start_required=True, post_stop_required=True, deallocate_required=True)


class PreferenceDies(Animal):
    """Dies of a device that it does not know."""

    caught_by = rules(506)

    def preferred(self, available: Iterable[str], must_include: Iterable[str], size: int) -> list[str]:
        available = list(available)
        if {*available} - {*self.ids}:
            os._exit(2)
        return super().preferred(available, must_include, size)
