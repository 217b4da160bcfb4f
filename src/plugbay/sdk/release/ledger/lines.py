"""Lines of a journal: a use as it is from here on, or the end of one. Pure.

Compatibility: a line is the CRC-32 of a JSON object in eight hexadecimal digits, a space, the object. The first one
names the format. A reader skips lines it cannot read, so that an older program loses only what a newer one has added
to the format. A journal of a later format is refused as a whole, and left as it is.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import Final, TypeAlias, cast

from plugbay.model.assignments import AssignmentKey, Origin, Owner
from plugbay.model.ids import ContainerName, DeviceId, PodUid, ResourceName
from plugbay.sdk.release.uses import KubeletLife, Use, UsePhase
from plugbay.values import dataclass

FORMAT: Final = 1
_COMPACT: Final = json.JSONEncoder(separators=(",", ":"))
_LINE: Final = re.compile(rb"([0-9a-f]{8}) (\{.*\})")


@dataclass(frozen=True, slots=True)
class Header:
    """Attributes: ``boot`` names the boot of the machine that all times of the journal count from."""

    boot: str
    resource: ResourceName


@dataclass(frozen=True, slots=True)
class Answered:
    """The kubelet is about to be told that the devices are its own.

    Attributes:
        at: when, in seconds since the machine started; None in journals of older programs.
    """

    key: AssignmentKey
    at: float | None


@dataclass(frozen=True, slots=True)
class Closed:
    """The use is released, or never was one."""

    key: AssignmentKey


Record: TypeAlias = Header | KubeletLife | Use | Answered | Closed


@dataclass(frozen=True, slots=True)
class Content:
    """The content of a journal.

    Attributes:
        header: None if it has none that can be read.
        uses: those that are not closed, in the order in which they began.
        bad_lines: the numbers, from 1, of lines that are not as they were written; a torn last line does not count.
        newer: the number of the later format that it is in; 0 if it is in ours.
    """

    header: Header | None
    life: KubeletLife | None
    uses: tuple[Use, ...]
    bad_lines: tuple[int, ...]
    newer: int = 0


@dataclass(frozen=True, slots=True)
class Newer:
    """A header of a later format."""

    format: int


def encode(record: Record) -> bytes:
    """One line."""
    if isinstance(record, Answered):  # written while a kubelet waits: setting up an encoder takes longer
        text = f'{{"answered":{json.dumps(record.key)},"at":{json.dumps(record.at)}}}'.encode()
    else:
        text = _COMPACT.encode(_as_json(record)).encode()
    return b"%08x %b\n" % (zlib.crc32(text), text)


def read(content: bytes) -> Content:
    """Put the lines of a journal together, the later ones winning."""
    header: Header | None = None
    life: KubeletLife | None = None
    uses: dict[AssignmentKey, Use] = {}
    bad: list[int] = []
    newer = 0
    for number, record in _records(content):
        match record:
            case None:
                bad.append(number)
            case Newer():
                newer = max(newer, record.format)
            case Header():
                header = record
            case KubeletLife():
                life = record
            case Use():
                _drop_overlaps(uses, record)
                uses[record.key] = record
            case Answered():
                if (use := uses.get(record.key)) is not None and use.phase is UsePhase.ALLOCATING:
                    since = use.since if record.at is None else record.at
                    uses[record.key] = replace(use, phase=UsePhase.OPEN, since=since)
            case Closed():
                uses.pop(record.key, None)
    return Content(header, life, tuple(uses.values()), tuple(bad), newer)


def _drop_overlaps(uses: dict[AssignmentKey, Use], fresh: Use) -> None:
    """Keep each unit in one use that was not overtaken: after a lost line, in the use written last."""
    if fresh.is_overtaken:
        return
    others = [use for use in uses.values() if use.key != fresh.key and not use.is_overtaken]
    for other in [use for use in others if use.units.keys() & fresh.units.keys()]:
        left = other.without(fresh.units.keys())
        if left is None:
            del uses[other.key]
        else:
            uses[other.key] = left


def _records(content: bytes) -> Iterator[tuple[int, Record | Newer | None]]:
    lines = content.split(b"\n")
    lines.pop()  # empty, or torn: its writer died before anything relied on it
    for number, line in enumerate(lines, 1):
        yield number, _decode(line)


def _decode(line: bytes) -> Record | Newer | None:
    found = _LINE.fullmatch(line)
    if found is None or zlib.crc32(found[2]) != int(found[1], 16):
        return None
    try:
        return _from_json(json.loads(found[2]))
    except (ValueError, KeyError, TypeError, AttributeError):  # a newer program's, or a foreign one with a right CRC
        return None


def _as_json(record: Header | KubeletLife | Use | Closed) -> dict[str, object]:
    match record:
        case Header():
            return {"format": FORMAT, "boot": record.boot, "resource": record.resource}
        case KubeletLife():
            life = {"life": record.id, "since": record.since, "heirOf": sorted(record.heir_of)}
            return life | ({"store": record.store} if record.store else {})
        case Closed():
            return {"closed": record.key}
        case Use():
            return _use_as_json(record)


def _use_as_json(use: Use) -> dict[str, object]:
    """Leave out what is as at the beginning: the line is written while a kubelet waits."""
    shown: dict[str, object] = {
        "use": use.key,
        "resource": use.resource,
        "units": use.units,
        "since": use.since,
        "life": use.life,
        "phase": use.phase.value,
    }
    if use.seen_in:
        shown |= {"seenIn": use.seen_in, "pod": use.pod}
    if use.owners:
        shown["owners"] = [[owner.namespace, owner.pod, owner.container, owner.uid] for owner in use.owners]
    if use.started:
        shown["started"] = sorted(use.started)
    if use.stops:
        shown["stops"] = use.stops
    if use.origin is not None:
        shown["origin"] = use.origin.value
    if use.is_overtaken:
        shown["overtaken"] = True
    return shown


def _from_json(value: dict[str, object]) -> Record | Newer:
    match value:
        case {"format": 1, "boot": str(boot), "resource": str(resource)}:
            return Header(boot, ResourceName(resource))
        case {"format": int(later)} if later > FORMAT:
            return Newer(later)
        case {"life": str(life), "since": float() | int() as since, "heirOf": list(heir_of)} if "use" not in value:
            return KubeletLife(life, float(since), frozenset(map(str, heir_of)), str(value.get("store", "")))
        case {"answered": str(key)}:
            at = value.get("at")
            return Answered(AssignmentKey(key), float(at) if isinstance(at, float | int) else None)
        case {"closed": str(key)}:
            return Closed(AssignmentKey(key))
        case {"use": str(key), "units": dict(units), "since": float() | int() as since, "life": str(life)} if units:
            return Use(
                key=AssignmentKey(key),
                resource=ResourceName(str(value["resource"])),
                units={DeviceId(str(unit)): DeviceId(str(device)) for unit, device in units.items()},
                since=float(since),
                life=life,
                phase=UsePhase(value["phase"]),
                seen_in=str(value.get("seenIn", "")),
                pod=PodUid(str(value.get("pod", ""))),
                owners=tuple(map(_owner, cast("Iterable[list[str]]", value.get("owners", ())))),
                started=frozenset(map(DeviceId, cast("Iterable[str]", value.get("started", ())))),
                stops=int(cast("int", value.get("stops", 0))),
                origin=Origin(value["origin"]) if "origin" in value else None,
                is_overtaken=value.get("overtaken") is True,
            )
    raise ValueError("no record of ours")


def _owner(parts: list[str]) -> Owner:
    namespace, pod, container, uid = parts
    return Owner(namespace=namespace, pod=pod, container=ContainerName(container), uid=PodUid(uid))


def is_of_earlier_boot(content: Content, boot: str) -> bool:
    return content.header is not None and content.header.boot != boot


def as_found(content: Content, boot: str, allocating: Collection[AssignmentKey]) -> Content:
    """Return ``content`` as a process that takes the journal over has to see it.

    A machine that was started anew has no containers, so all is over. No kubelet has made an
    assignment of an Allocate that was never answered.

    Args:
        boot: names this boot of the machine.
        allocating: the uses whose Allocate a living process is answering.
    """
    is_rebooted = is_of_earlier_boot(content, boot)
    uses = [
        _over(use) if is_rebooted or (use.phase is UsePhase.ALLOCATING and use.key not in allocating) else use
        for use in content.uses
    ]
    return replace(content, life=None if is_rebooted else content.life, uses=tuple(uses))


def _over(use: Use) -> Use:
    return use if use.phase is UsePhase.RELEASING else replace(use, phase=UsePhase.RELEASING, origin=Origin.SYNTHESISED)
