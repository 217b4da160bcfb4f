"""The managers of an object: the entries of ``metadata.managedFields``, read and written. Pure.

Source: apimachinery 1.36 ``pkg/util/managedfields/internal/managedfields.go``, ``internal/capmanagers.go``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from enum import Enum
from typing import Final, NamedTuple

from plugbay.documents import Json
from plugbay.node.api.applying.sets import FieldSet, UnreadableSet
from plugbay.printers import v1
from plugbay.values import dataclass

MAX_UPDATERS: Final = 10
"""The most managers by updates that are told apart; the oldest ones become one."""
_ANCIENT: Final = "ancient-changes"
_FIELDS_TYPE: Final = "FieldsV1"


class UnreadableManagers(ValueError):
    """``managedFields`` that cannot be read; its text says why."""


class WriteOperation(Enum):
    """The way in which a manager came to own fields."""

    APPLY = "Apply"
    UPDATE = "Update"


class ManagerId(NamedTuple):
    """The identity of a manager.

    Attributes:
        api_version: empty for one that applies: it stays the same when it applies another version.
    """

    name: str
    operation: WriteOperation
    api_version: str = ""
    subresource: str = ""

    def __str__(self) -> str:
        text = f'"{self.name}"'
        if self.subresource:
            text += f' with subresource "{self.subresource}"'
        return f"{text} using {self.api_version}" if self.operation is WriteOperation.UPDATE else text


@dataclass(frozen=True, slots=True)
class Owned:
    """The fields that a manager owns, as one version names them."""

    fields: FieldSet
    api_version: str


@dataclass(frozen=True, slots=True)
class Managers:
    """All managers of an object.

    Attributes:
        times: the moments at which they last changed what they own, as texts.
    """

    owned: Mapping[ManagerId, Owned] = field(default_factory=dict)
    times: Mapping[ManagerId, str] = field(default_factory=dict)

    @classmethod
    def of(cls, entries: object) -> Managers:
        """Read ``managedFields``.

        Raises:
            UnreadableManagers: an entry cannot be read.
        """
        if entries is None:
            return cls()
        if not isinstance(entries, list):
            raise UnreadableManagers("managedFields must be a list")
        owned, times = {}, {}
        for index, entry in enumerate(entries):
            who = _manager_of(entry, index)
            try:
                owned[who] = Owned(FieldSet.from_v1(v1.at(entry, "fieldsV1") or {}), v1.text(entry, "apiVersion"))
            except UnreadableSet as error:
                raise UnreadableManagers(f"managedFields entry {index}: {error}") from None
            if time := v1.text(entry, "time"):
                times[who] = time
        return cls(owned, times)

    def to_v1(self) -> list[Json]:
        """The entries: those of appliers first, then the oldest first."""

        def place(who: ManagerId) -> tuple[object, ...]:
            time = _seconds(self.times.get(who, ""))
            return who.operation.value, time, who.name, self.owned[who].api_version, who.subresource

        return [self._entry(who) for who in sorted(self.owned, key=place)]

    def _entry(self, who: ManagerId) -> Json:
        owned = self.owned[who]
        entry: Json = {"manager": who.name, "operation": who.operation.value, "apiVersion": owned.api_version}
        if who in self.times:
            entry["time"] = self.times[who]
        entry |= {"fieldsType": _FIELDS_TYPE, "fieldsV1": owned.fields.to_v1()}
        return entry | ({"subresource": who.subresource} if who.subresource else {})

    def capped(self) -> Managers:
        """No more than ten managers by updates: the oldest ones of a version become one."""
        updaters = [who for who in self.owned if who.operation is WriteOperation.UPDATE]
        excess = len(updaters) - MAX_UPDATERS
        if excess <= 0:
            return self
        owned, times = dict(self.owned), dict(self.times)
        firsts: dict[str, ManagerId] = {}
        for who in sorted(updaters, key=lambda each: (_seconds(self.times.get(each, "")), each)):
            if excess <= 0:
                break
            version = owned[who].api_version
            bucket = ManagerId(_ANCIENT, WriteOperation.UPDATE, version)
            if version not in firsts:
                firsts[version] = who
                continue
            if bucket not in owned:
                owned[bucket] = owned.pop(firsts[version])
            ancient = owned[bucket].fields | owned[who].fields
            del owned[who]
            owned[bucket] = Owned(ancient, version)
            if who in times:
                times[bucket] = times[who]
            excess -= 1
        return Managers(owned, {who: time for who, time in times.items() if who in owned})


def _manager_of(entry: object, index: int) -> ManagerId:
    problem = ""
    if v1.text(entry, "operation") not in ("Apply", "Update"):
        problem = "operation must be `Apply` or `Update`"
    elif not v1.text(entry, "apiVersion"):
        problem = "apiVersion must not be empty"
    elif not v1.text(entry, "fieldsType"):
        problem = "missing fieldsType"
    elif v1.text(entry, "fieldsType") != _FIELDS_TYPE:
        problem = f'invalid fieldsType "{v1.text(entry, "fieldsType")}"'
    if problem:
        raise UnreadableManagers(f"managedFields entry {index}: {problem}")
    operation = WriteOperation(v1.text(entry, "operation"))
    version = "" if operation is WriteOperation.APPLY else v1.text(entry, "apiVersion")
    return ManagerId(v1.text(entry, "manager"), operation, version, v1.text(entry, "subresource"))


def _seconds(time: str) -> int:
    try:
        return int(datetime.fromisoformat(time).timestamp())
    except ValueError:
        return 0
