"""The kinds of definitions, served from the moment they are stored until the last of their objects is gone.

Source: Kubernetes 1.36 ``apiextensions-apiserver/pkg/controller/finalizer/crd_finalizer.go``.
"""

from __future__ import annotations

import logging
from typing import Final

from plugbay.documents import Json
from plugbay.errors import PlugbayError
from plugbay.node.api.applying.field_manager import FieldWriter
from plugbay.node.api.collections import Collections
from plugbay.node.api.resources import ApiResource, ResourceTable
from plugbay.node.api.stored.custom.definitions import CLEAN_UP, DEFINITIONS, name_conflict, settled
from plugbay.node.api.stored.custom.kinds import custom_kinds
from plugbay.node.api.stored.writing import ObjectWriter
from plugbay.node.api.writing.delete_options import AT_ONCE
from plugbay.objects.metadata import is_deleting
from plugbay.objects.table import ObjectKey, ObjectTable
from plugbay.objects.watch import Change
from plugbay.ops.changes import Changes
from plugbay.ops.clock import Clock
from plugbay.ops.routing import HttpError
from plugbay.pods.status import timestamp
from plugbay.printers import v1

logger = logging.getLogger(__name__)

_RETRY_S: Final = 5.0
_STATUS: Final = FieldWriter("kube-apiserver", "status")


class DefinitionKeeper:
    """Has the API serve what definitions say, tells so in their status, and ends the objects of those that end."""

    def __init__(
        self,
        objects: ObjectTable,
        writer: ObjectWriter,
        collections: Collections,
        *,
        resources: ResourceTable,
        clock: Clock,
    ) -> None:
        self._objects = objects
        self._writer = writer
        self._collections = collections
        self._resources = resources
        self._built_in = tuple(resources)
        self._clock = clock
        self._served: dict[str, list[ApiResource]] = {}
        """The rows of each definition, by its name."""
        self._due = Changes()
        for definition in self._definitions():
            self._serve(definition)
        objects.attach(self)

    def put(self, change: Change, key: ObjectKey, value: Json) -> None:
        """Take in a change of an object; the table of objects tells of it. Definitions have effect at once."""
        if (key.group, key.plural) == (DEFINITIONS.group, DEFINITIONS.plural):
            if change is Change.DELETED:
                self._replace(key.name, [])
            else:
                self._serve(value)
            self._due.notify()
        elif change is Change.DELETED:
            self._due.notify()

    async def run(self) -> None:
        """Follow changes until cancelled."""
        async for _ in self._due:
            try:
                for name in [v1.name(each) for each in self._definitions()]:
                    place = ObjectKey(DEFINITIONS.group, DEFINITIONS.plural, "", name)
                    if (definition := self._objects.get(place)) is not None:
                        await (self._end(definition) if is_deleting(definition) else self._settle(definition))
            except (PlugbayError, HttpError) as error:
                logger.warning(
                    "cannot serve custom resources as their definitions say, trying again in %g s: %s", _RETRY_S, error
                )
                await self._clock.sleep(_RETRY_S)
                self._due.notify()

    def _definitions(self) -> list[Json]:
        """All of them, the oldest first."""
        found = self._objects.of(DEFINITIONS.group, DEFINITIONS.plural)
        return sorted(found, key=lambda each: (v1.text(each, "metadata", "creationTimestamp"), v1.name(each)))

    def _problem(self, definition: Json) -> str:
        accepted = [each for each in self._definitions() if v1.name(each) in self._served]
        return "" if v1.name(definition) in self._served else name_conflict(definition, accepted, self._built_in)

    def _serve(self, definition: Json) -> None:
        if not self._problem(definition):
            self._replace(v1.name(definition), custom_kinds(definition))

    def _replace(self, name: str, rows: list[ApiResource]) -> None:
        """Serve ``rows``, and no other ones that a definition had."""
        before = {each.version: each for each in self._served.pop(name, [])}
        for each in rows:
            old = before.pop(each.version, None)
            self._resources.put(each)
            self._collections.serve(each, instead_of=old)
        for old in before.values():
            self._resources.remove(old)
            self._collections.drop(old)
        if rows:
            self._served[name] = rows

    async def _settle(self, definition: Json) -> None:
        if v1.name(definition) not in self._served:
            self._serve(definition)  # the definition that had its names may be gone
        value = settled(definition, self._problem(definition), timestamp(self._clock.now()))
        if value != definition:
            await self._writer.keep_status(DEFINITIONS, definition, v1.mapping(value, "status"), _STATUS)

    async def _end(self, definition: Json) -> None:
        """Have the objects of a definition deleted, and let it go when there are none left."""
        rows = self._served.get(v1.name(definition), [])
        if rows:
            for value in self._objects.of(rows[0].group, rows[0].plural):
                if not is_deleting(value):
                    await self._writer.delete(rows[0], value, AT_ONCE)
            if self._objects.of(rows[0].group, rows[0].plural):
                return
        held = v1.texts(definition, "metadata", "finalizers")
        if CLEAN_UP in held:
            metadata = v1.mapping(definition, "metadata") | {"finalizers": [each for each in held if each != CLEAN_UP]}
            await self._writer.update(DEFINITIONS, definition, definition | {"metadata": metadata})
