"""The marks that XIDs, failed probes and lost GPUs leave on devices, and how they go again. Pure.

Times are seconds on a clock that never goes back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from plugbay.model.health import HEALTHY, Health, unhealthy
from plugbay.plugins.nvidia.devices.devices import DeviceKind, NvidiaDevice
from plugbay.plugins.nvidia.health.recovery import ComesBack, RecoveryPolicy, meaning_of
from plugbay.plugins.nvidia.health.xids import XidPolicy
from plugbay.plugins.nvidia.nvml.values import XID, GpuEvent, Probe
from plugbay.values import dataclass

LOST: str = "GpuLost"
PROBE_FAILED: str = "ProbeFailed"
_GRAVITY = {ComesBack.PROBE: 0, ComesBack.CLEAN: 1, ComesBack.RESET: 2, ComesBack.NEVER: 3}


@dataclass(frozen=True, slots=True)
class Mark:
    """The reason why a device is unhealthy.

    Attributes:
        reason: one CamelCase word, such as ``Xid79``.
        problem: what happened, as half a sentence.
        way: how the device comes back.
        since: when it was marked last.
        is_reset: whether the GPU was reset since.
        errors: the uncorrected ECC errors of the first probe since; None before it.
        refusal: why the last probe did not bring the device back; empty before one.
    """

    reason: str
    problem: str
    way: ComesBack
    since: float
    is_reset: bool = False
    errors: int | None = None
    refusal: str = ""


class HealthBook:
    """The marks on devices, by the devices' IDs.

    Args:
        xids: which XIDs count.
        recovery: how devices come back.
    """

    def __init__(self, xids: XidPolicy, recovery: RecoveryPolicy) -> None:
        self.xids = xids
        self.recovery = recovery
        self._marks: dict[str, Mark] = {}
        self._lost: dict[str, str] = {}

    def health_of(self, device: NvidiaDevice) -> Health:
        """The health of a device."""
        if problem := self._lost.get(device.gpu_uuid):
            return unhealthy(LOST, f"{problem}; it is offered again when the driver finds the GPU and a probe passes")
        mark = self._marks.get(device.id)
        if mark is None:
            return HEALTHY
        refused = f"; the last probe found: {mark.refusal}" if mark.refusal not in ("", mark.problem) else ""
        return unhealthy(mark.reason, f"{mark.problem}; {self.recovery.sentence(mark.way)}{refused}")

    def take(self, event: GpuEvent, devices: Iterable[NvidiaDevice], now: float) -> tuple[NvidiaDevice, ...]:
        """Mark the devices that an event is about, and return them. Events other than XIDs mark nothing."""
        if event.type != XID or self.xids.is_ignored(event.number):
            return ()
        meaning = meaning_of(event.number)
        problem = f"XID {event.number}{f' ({meaning})' if meaning else ''}"
        hit = tuple(device for device in devices if is_about(event, device))
        for device in hit:
            self._mark(device.id, Mark(f"Xid{event.number}", problem, self.recovery.after(event.number), now))
        return hit

    def lose(self, gpu_uuid: str, problem: str) -> None:
        """The driver does not describe a GPU any more."""
        self._lost.setdefault(gpu_uuid, problem)

    def found(self, gpu_uuids: Collection[str], devices: Iterable[NvidiaDevice], now: float) -> None:
        """The driver describes these GPUs: those that were lost were reset, and have to pass a probe."""
        for uuid in [each for each in self._lost if each in gpu_uuids]:
            problem = self._lost.pop(uuid)
            for device in devices:
                if device.gpu_uuid == uuid:
                    mark = self._marks.get(device.id) or Mark(LOST, problem, ComesBack.RESET, now)
                    self._marks[device.id] = replace(mark, is_reset=True)

    def all_were_reset(self, at: float) -> None:
        """The driver was loaded anew after ``at``, and with it every GPU was reset; later marks are of the new one."""
        self._marks = {
            each: replace(mark, is_reset=True) if mark.since <= at else mark for each, mark in self._marks.items()
        }

    def keep(self, ids: Collection[str], gpu_uuids: Collection[str]) -> None:
        """Forget devices and lost GPUs that are gone for good."""
        self._marks = {each: mark for each, mark in self._marks.items() if each in ids}
        self._lost = {uuid: problem for uuid, problem in self._lost.items() if uuid in gpu_uuids}

    def marked(self, devices: Iterable[NvidiaDevice]) -> tuple[NvidiaDevice, ...]:
        """Those of the devices that are unhealthy, and that the driver describes."""
        return tuple(each for each in devices if each.id in self._marks and each.gpu_uuid not in self._lost)

    def due(self, devices: Iterable[NvidiaDevice], now: float) -> tuple[NvidiaDevice, ...]:
        """The devices to be probed now."""
        return tuple(device for device in self.marked(devices) if self._is_due(self._marks[device.id], now))

    def next_due(self, now: float) -> float | None:
        """The seconds until a device becomes clean; None when none does by time alone."""
        left = [
            mark.since + self.recovery.clean_s - now for mark in self._marks.values() if mark.way is ComesBack.CLEAN
        ]
        return min((each for each in left if each > 0), default=None)

    def probed(self, device: NvidiaDevice, outcome: Probe | str, now: float, *, is_asked_for: bool = False) -> None:
        """Hear what a probe of a device said: its values, or why there are none. What fails one is marked.

        Args:
            is_asked_for: whether an operator wants a device that passes to be offered, whatever it waits for.
        """
        problem = outcome if isinstance(outcome, str) else problem_of(outcome)
        mark = self._marks.get(device.id)
        if mark is None:
            if problem:
                self._marks[device.id] = Mark(PROBE_FAILED, problem, ComesBack.PROBE, now)
            return
        if mark.way is ComesBack.NEVER and not is_asked_for:
            return
        if isinstance(outcome, Probe):
            first = mark.errors if mark.errors is not None else outcome.ecc_uncorrected
            mark = replace(mark, is_reset=mark.is_reset or _has_begun_anew(mark, outcome), errors=first)
        if not problem and (is_asked_for or self._is_over(mark, now)):
            del self._marks[device.id]
        else:
            self._marks[device.id] = replace(mark, refusal=problem)

    def _mark(self, device_id: str, mark: Mark) -> None:
        before = self._marks.get(device_id)
        if before is not None and not before.is_reset and _GRAVITY[before.way] > _GRAVITY[mark.way]:
            return  # the graver one counts until the device is back
        self._marks[device_id] = mark

    def _is_due(self, mark: Mark, now: float) -> bool:
        return mark.way is ComesBack.RESET or self._is_over(mark, now)

    def _is_over(self, mark: Mark, now: float) -> bool:
        """Whether nothing but a probe keeps a device from coming back."""
        match mark.way:
            case ComesBack.NEVER:
                return False
            case ComesBack.PROBE:
                return True
            case ComesBack.CLEAN:
                return mark.is_reset or now - mark.since >= self.recovery.clean_s
            case ComesBack.RESET:
                return mark.is_reset


def is_about(event: GpuEvent, device: NvidiaDevice) -> bool:
    """Whether an event concerns a device: one of a whole GPU concerns all of its MIG devices.

    The reference knows one device of each GPU, and marks that one only.
    """
    if device.kind is DeviceKind.WSL:
        return True
    if device.gpu_uuid != event.uuid:
        return False
    if device.gpu_instance is None or event.gpu_instance is None or event.compute_instance is None:
        return True
    return (device.gpu_instance, device.compute_instance) == (event.gpu_instance, event.compute_instance)


def problem_of(probe: Probe) -> str:
    """The reason that keeps a GPU that answers from being used, as half a sentence; empty for nothing."""
    if probe.row_remap_failed:
        return "memory that failed cannot be replaced (row remapping failed)"
    if probe.row_remap_pending or probe.retired_pages_pending:
        return "memory that failed is replaced at the next reset of the GPU"
    return ""


def _has_begun_anew(mark: Mark, probe: Probe) -> bool:
    """Whether the counters of a GPU are lower than before, as after a reset."""
    return mark.errors is not None and probe.ecc_uncorrected is not None and probe.ecc_uncorrected < mark.errors
