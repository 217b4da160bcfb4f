"""Waiting for the driver's events, in a thread that pushes each as it happens. In the worker process only."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from ctypes import c_void_p, cast
from typing import Any, Final

import pynvml as nvml

from plugbay.plugins.nvidia.nvml.turns import LEFT_OUT, gpus_in_turn

TYPES: Final = 8 | 2 | 1
"""XIDs, and double-bit and single-bit ECC errors."""
_NO_INSTANCE: Final = 0xFFFFFFFF


class Watch:
    """One event set, with all GPUs that can be watched, and the thread that waits for it.

    Args:
        wait_ms: a wait ends after this time without an event; a thread that is no longer wanted ends then.
        push: called in the thread with each event: ``("event", uuid, type, number, gpu_instance, compute_instance)``
            with None for no instance, and ``("unwatched", code, problem)`` when no more will come.
        left_out: GPUs that the driver must not be asked to watch, see `gpus_in_turn`.

    Raises:
        NVMLError: the driver makes no event set.

    Attributes:
        unwatched: what the driver answered for each GPU that it does not watch, by UUID or by index.
        too_old: the UUIDs of GPUs that report no events.
        returned_at: when the last wait returned, on the monotonic clock.
    """

    def __init__(
        self, wait_ms: int, push: Callable[[tuple[object, ...]], None], left_out: Collection[tuple[int, int]]
    ) -> None:
        self._wait_ms = wait_ms
        self._push = push
        self._uuids: dict[int | None, str] = {}
        self._is_wanted = True
        self._set = nvml.nvmlEventSetCreate()
        self.unwatched: dict[str, str] = {}
        self.too_old: list[str] = []
        try:
            for index, may_be_asked in gpus_in_turn(left_out, push):
                if may_be_asked:
                    self._register(index)
                else:
                    self.unwatched[str(index)] = LEFT_OUT
        except nvml.NVMLError:
            self._free()
            raise
        self.returned_at = time.monotonic()
        threading.Thread(target=self._wait, name="nvml events", daemon=True).start()

    def stop(self) -> None:
        """Push no more events. The thread ends when its wait does."""
        self._is_wanted = False

    def is_stuck(self) -> bool:
        """Whether a wait has taken far longer than it was asked to."""
        return self._is_wanted and time.monotonic() - self.returned_at > 3 * self._wait_ms / 1000

    def _register(self, index: int) -> None:
        uuid = str(index)
        try:
            device = nvml.nvmlDeviceGetHandleByIndex(index)
            uuid = nvml.nvmlDeviceGetUUID(device)
            if not _register(device, TYPES & nvml.nvmlDeviceGetSupportedEventTypes(device), self._set):
                self.too_old.append(uuid)
        except nvml.NVMLError as error:
            self.unwatched[uuid] = str(error)
        else:
            # Kept here: a GPU that is lost does not tell its UUID any more.
            self._uuids[_address(device)] = uuid

    def _wait(self) -> None:
        ended: tuple[object, ...] | None = None
        while self._is_wanted and ended is None:
            try:
                event = nvml.nvmlEventSetWait_v2(self._set, self._wait_ms)
            except nvml.NVMLError as error:
                if error.value != nvml.NVML_ERROR_TIMEOUT:
                    ended = ("unwatched", error.value, str(error))
            else:
                self._tell(event)
            self.returned_at = time.monotonic()
        if ended is not None and self._is_wanted:
            self._is_wanted = False
            self._push(ended)
        self._free()

    def _free(self) -> None:
        try:
            nvml.nvmlEventSetFree(self._set)
        except nvml.NVMLError:  # it went with its driver
            pass

    def _tell(self, event: Any) -> None:
        uuid = self._uuids.get(_address(event.device))
        if uuid is None or not self._is_wanted:
            return
        instances = (event.gpuInstanceId, event.computeInstanceId)
        self._push(
            ("event", uuid, event.eventType, event.eventData, *(None if i == _NO_INSTANCE else i for i in instances))
        )


def _register(device: Any, types: int, events: Any) -> bool:
    """Add a GPU to an event set; False if it is too old for events, which only this call of the driver tells."""
    try:
        nvml.nvmlDeviceRegisterEvents(device, types, events)
    except nvml.NVMLError as error:
        if error.value != nvml.NVML_ERROR_NOT_SUPPORTED:
            raise
        return False
    return True


def _address(device: Any) -> int | None:
    return cast(device, c_void_p).value
