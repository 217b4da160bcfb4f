"""Several resources over the same hardware, such as a whole FPGA and its partitions: one way to use it at a time.

While a device is in use, the devices of the other resources that are part of the same hardware are withdrawn from their
lists; nothing else is, least of all a device that is in use itself. A kubelet may have read an older list, so an
Allocate that comes all the same is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from plugbay.errors import HardwareInUse
from plugbay.model.devices import Device
from plugbay.model.ids import DeviceId, ResourceName, parse_resource_name

if TYPE_CHECKING:
    import asyncio


class Modes:
    """Give one object to all plugins concerned, as their attribute ``modes``; they have to be served by one process.

    Args:
        hardware_of: which piece of hardware a device is, or is part of: equal texts are the same piece.
    """

    def __init__(self, hardware_of: Callable[[Device], str]) -> None:
        self._hardware_of = hardware_of
        self._modes: dict[ResourceName, Mode] = {}
        self._restored: set[ResourceName] = set()
        self._looking: set[ResourceName] = set()
        self._waiting: set[asyncio.Future[None]] = set()

    def mode(self, resource: str) -> Mode:
        """The mode of ``resource``; the same object each time."""
        name = parse_resource_name(resource)
        if name not in self._modes:
            self._modes[name] = Mode(name, self._hardware_of, self._modes)
        return self._modes[name]

    @property
    def unrestored(self) -> frozenset[ResourceName]:
        """The resources for which it is not known yet what was in use when this process started."""
        return frozenset(self._modes.keys() - self._restored)

    def restore(self, assigned: Mapping[ResourceName, Collection[DeviceId]]) -> None:
        """Note devices that were in use when this process started, as far as the kubelet knows."""
        for name in self.unrestored:
            self._modes[name].restore(assigned.get(name, ()))
        self._restored.update(self._modes)

    @contextmanager
    def looking(self, resource: ResourceName) -> Iterator[None]:
        """Run the block while ``resource`` is served; before its first list the hardware of used devices is unknown."""
        self._looking.add(resource)
        try:
            yield
        finally:
            self.looked(resource)

    def looked(self, resource: ResourceName) -> None:
        """Note that ``resource`` has its first list, or will have none."""
        self._looking.discard(resource)
        for each in self._waiting:
            if not each.done():
                each.set_result(None)

    @property
    def unseen(self) -> Collection[ResourceName]:
        """Resources without a first list that have devices in use; which hardware these are of is not known."""
        return sorted(name for name in self._looking if self.mode(name).used)

    async def until_looked(self) -> None:
        """Wait for the first list of every resource that is served."""
        import asyncio  # workers and plain clients of the package, which never wait here, do without it

        while self._looking:
            news = asyncio.get_running_loop().create_future()
            self._waiting.add(news)
            try:
                await news
            finally:
                self._waiting.discard(news)


class Mode:
    """The use of the hardware as one resource. All of it belongs to the event loop's thread.

    Attributes:
        tell: is called with the reason when devices of this resource are withdrawn or offered again.
    """

    def __init__(
        self, resource: ResourceName, hardware_of: Callable[[Device], str], all_modes: Mapping[ResourceName, Mode]
    ) -> None:
        self.resource = resource
        self.tell: Callable[[str], object] | None = None
        self._hardware_of = hardware_of
        self._all_modes = all_modes
        self._hardware: dict[DeviceId, str] = {}  # of listed devices, replicas one by one, and of those in use
        self._used: set[DeviceId] = set()

    @property
    def used(self) -> frozenset[DeviceId]:
        """The devices in use, as the kubelet names them."""
        return frozenset(self._used)

    def learn(self, devices: Iterable[Device]) -> None:
        """Note all devices of now; a device in use may be gone: its hardware may show itself in the other mode only."""
        fresh = {
            listed.id: hardware
            for device, hardware in [(device, self._hardware_of(device)) for device in devices]
            for listed in device.listed()
        }
        kept = {each: self._hardware[each] for each in self._used if each in self._hardware}
        before, self._hardware = self._in_use(), kept | fresh
        self._tell_others(before)

    def withdrawn(self, devices: Iterable[Device]) -> frozenset[DeviceId]:
        """The ``devices``, all learned, that cannot be given because of another mode; none that is in use itself."""
        taken = {hardware for other in self._others() for hardware in other._in_use()}
        if not taken:
            return frozenset()
        withdrawn = set()
        for device in devices:
            units = [each.id for each in device.listed()]
            if self._hardware.get(units[0]) in taken and self._used.isdisjoint(units):
                withdrawn.add(device.id)
        return frozenset(withdrawn)

    def check(self, devices: Iterable[DeviceId]) -> None:
        """Refuse devices whose hardware is in use in another mode.

        Raises:
            HardwareInUse: one of ``devices`` is part of hardware that is in use in another mode.
        """
        holders = {hardware: other.resource for other in self._others() for hardware in other._in_use()}
        for device in devices:
            hardware = self._hardware.get(device)
            if hardware is not None and hardware in holders and device not in self._used:
                raise HardwareInUse(device, hardware, holders[hardware])

    @contextmanager
    def using(self, devices: Iterable[DeviceId], *, undone_by: type[BaseException] = BaseException) -> Iterator[None]:
        """Take ``devices`` into use from here on, unless the block fails ``undone_by`` such an error: an Allocate call.

        Raises:
            HardwareInUse: see `check`.
        """
        fresh = set(devices) - self._used
        self.check(fresh)
        self._change(self._used | fresh)
        try:
            yield
        except undone_by:  # by default cancelled too: the kubelet gave up, and takes the devices for free
            self._change(self._used - fresh)
            raise

    def release(self, devices: Iterable[DeviceId]) -> None:
        """Note that ``devices`` are in use no longer; a repeat does no harm."""
        self._change(self._used.difference(devices))

    def restore(self, devices: Iterable[DeviceId]) -> None:
        """Note that ``devices`` were in use before this process started."""
        self._change(self._used.union(devices))

    def _change(self, used: set[DeviceId]) -> None:
        before = self._in_use()
        self._used = used
        self._tell_others(before)

    def _tell_others(self, before: set[str]) -> None:
        after = self._in_use()
        whys = [f"{each} is in use as {self.resource}" for each in sorted(after - before)]
        whys += [f"{each} is no longer in use as {self.resource}" for each in sorted(before - after)]
        if not whys:
            return
        for other in self._others():
            if other.tell is not None:
                other.tell(", ".join(whys))

    def _in_use(self) -> set[str]:
        return {self._hardware[each] for each in self._used if each in self._hardware}

    def _others(self) -> Iterator[Mode]:
        return (mode for mode in self._all_modes.values() if mode is not self)
