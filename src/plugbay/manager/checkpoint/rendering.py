"""Render the manager's holdings as a checkpoint file, at a cost that depends on what changed since the last file.

Every assignment and every block of a device list is encoded once, and hashed through a `Chunk`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Final

from plugbay.allocation import bitsets
from plugbay.allocation.table import DeviceTable
from plugbay.documents import go_json
from plugbay.kubelet.checkpoint import compose, encode_entry
from plugbay.kubelet.checkpoint_data import (
    DUMP_END,
    DUMP_MIDDLE,
    DUMP_NULL,
    DUMP_START,
    PodDevicesEntry,
    dump_entry,
)
from plugbay.kubelet.fnv import Chunk, before, fnv1a, fnv1a_chunks
from plugbay.manager.state import HeldDevices
from plugbay.model.ids import DeviceId, ResourceName
from plugbay.values import dataclass

_BLOCK: Final = 64
"""The number of devices that are encoded and hashed together: a change of health encodes that many again."""
_TURN_S: Final = 0.001
_REST_S: Final = 0.0001
"""The length of a pause in which a waiting event loop can take over the interpreter, for as long as it needs."""


@dataclass(frozen=True, slots=True)
class Holdings:
    """The contents of a checkpoint, taken at one moment.

    Attributes:
        registered: tables of the resources that are registered, or whose plugin may still come back.
    """

    assignments: Sequence[HeldDevices]
    registered: Mapping[ResourceName, DeviceTable]


@dataclass(frozen=True, slots=True)
class Rendered:
    """A checkpoint file."""

    content: bytes
    checksum: int


class Renderer:
    """Renders holdings one after the other; for one thread at a time, which must not be an event loop's.

    An object that was there last time is not encoded again. Entries are sorted by pod, container and resource,
    resources by name, devices by ID.
    """

    def __init__(self) -> None:
        self._entries: dict[int, _Entry] = {}
        self._lists: dict[ResourceName, _DeviceList] = {}

    def render(self, holdings: Holdings) -> Rendered:
        pace = _Pace()
        entries = self._updated_entries(holdings.assignments, pace)
        lists = self._updated_lists(holdings.registered, pace)
        state = _after_entries(entries, pace)
        state = fnv1a_chunks(_chunks(lists), state, at_costly=pace.rest)
        registered = ",".join(f"{go_json.quoted(name)}:{blocks.encoded}" for name, blocks in lists.items())
        encoded = [entry.encoded for entry in entries] or None  # a kubelet writes null when there are no entries
        return Rendered(compose(encoded, f"{{{registered}}}", state), state)

    def _updated_entries(self, assignments: Sequence[HeldDevices], pace: _Pace) -> list[_Entry]:
        known, self._entries = self._entries, {}
        for assignment in assignments:
            # An entry keeps its assignment alive, so that no other assignment can have the same id().
            entry = known.get(id(assignment))
            if entry is None:
                pace.rest()
                entry = _Entry(assignment)
            self._entries[id(assignment)] = entry
        return sorted(self._entries.values(), key=attrgetter("key"))

    def _updated_lists(
        self, registered: Mapping[ResourceName, DeviceTable], pace: _Pace
    ) -> Mapping[ResourceName, _DeviceList]:
        known, self._lists = self._lists, {}
        for name in sorted(registered):
            devices = known.get(name)
            if devices is None or not devices.has_ids_of(registered[name]):
                devices = _DeviceList(registered[name])
            devices.update(registered[name], pace)
            self._lists[name] = devices
        return self._lists


class _Entry:
    """One assignment, encoded."""

    __slots__ = ("assignment", "chunk", "encoded", "key")

    def __init__(self, assignment: HeldDevices) -> None:
        self.assignment = assignment
        self.key = (assignment.pod, assignment.container, assignment.resource)
        entry = PodDevicesEntry(*self.key, assignment.by_node, assignment.response)
        self.encoded = encode_entry(entry)
        self.chunk = Chunk(b" " + dump_entry(entry))


class _DeviceList:
    """The healthy devices of one resource, encoded in blocks of ranks."""

    def __init__(self, table: DeviceTable) -> None:
        self._ranks = table.ranks
        self._blocks: list[_Block | None] = [None] * -(-len(table.devices) // _BLOCK)
        self.encoded = "[]"

    def has_ids_of(self, table: DeviceTable) -> bool:
        """Whether ``table`` lists the same devices: then it shares the ranks."""
        return table.ranks is self._ranks

    def update(self, table: DeviceTable, pace: _Pace) -> None:
        is_first = True
        for index, block in enumerate(self._blocks):
            start = index * _BLOCK
            healthy = table.healthy >> start & (1 << _BLOCK) - 1
            if block is None or block.healthy != healthy or block.is_first != is_first:
                pace.rest()
                devices = bitsets.select(healthy, table.devices[start : start + _BLOCK])
                self._blocks[index] = _Block(healthy, [device.id for device in devices], is_first=is_first)
            is_first = is_first and not healthy
        self.encoded = f"[{','.join(block.encoded for block in self._filled())}]"

    def chunks(self) -> Iterator[Chunk]:
        return (block.chunk for block in self._filled())

    def _filled(self) -> Iterator[_Block]:
        return (block for block in self._blocks if block is not None and block.healthy)


class _Block:
    """Some neighbouring devices; ``is_first`` if no listed device comes before them."""

    __slots__ = ("chunk", "encoded", "healthy", "is_first")

    def __init__(self, healthy: int, ids: Sequence[DeviceId], *, is_first: bool) -> None:
        self.healthy = healthy
        self.is_first = is_first
        self.encoded = go_json.quoted_list(ids)[1:-1]
        self.chunk = Chunk(f"{'' if is_first else ' '}{' '.join(ids)}".encode())


class _Pace:
    """Lets the event loop have the interpreter now and then: a computing thread would keep it for 5 ms at a time."""

    def __init__(self) -> None:
        self._since = time.perf_counter()

    def rest(self) -> None:
        """Sleep if the last rest is long ago; to be called before each piece of work."""
        if time.perf_counter() - self._since > _TURN_S:
            time.sleep(_REST_S)
            self._since = time.perf_counter()


def _after_entries(entries: Sequence[_Entry], pace: _Pace) -> int:
    """The hash of the text of `dump` up to the registered devices."""
    if not entries:
        return fnv1a(DUMP_START + DUMP_NULL)
    # Every entry's chunk begins with a space. The first entry must not have one, so the start is computed without it.
    start = before(ord(" "), fnv1a(DUMP_START + b"["))
    return fnv1a(b"]", fnv1a_chunks((entry.chunk for entry in entries), start, at_costly=pace.rest))


def _chunks(lists: Mapping[ResourceName, _DeviceList]) -> Iterator[Chunk]:
    """The text of `dump` from the registered devices on."""
    yield Chunk(DUMP_MIDDLE + b"map[")
    for index, (name, devices) in enumerate(lists.items()):
        yield Chunk(f"{'] ' if index else ''}{name}:[".encode())
        yield from devices.chunks()
    yield Chunk((b"]]" if lists else b"]") + DUMP_END)
