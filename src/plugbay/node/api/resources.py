"""The table of the kinds of objects that the API has. Pure.

Discovery, routes, tables and selectors are made from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from typing import Final

from plugbay.documents import Json
from plugbay.manifest.schema import POD
from plugbay.manifest.shapes import Table
from plugbay.node.api.applying.typed.builtin_types import builtin_type
from plugbay.node.api.applying.typed.types import VersionedType
from plugbay.node.api.field_selectors import (
    EVENT_FIELDS,
    NEW_EVENT_FIELDS,
    NODE_FIELDS,
    POD_FIELDS,
    SelectableFields,
)
from plugbay.objects import merge_rules
from plugbay.objects.event_views import core_event, core_event_problems, new_event_problems
from plugbay.objects.messages.fields import object_table
from plugbay.objects.metadata import NameRule, subdomain_rule
from plugbay.objects.problems import FieldProblem
from plugbay.objects.strategic_merge import MergeRule
from plugbay.printers import tables
from plugbay.printers.tables import TableColumns
from plugbay.values import dataclass

_READ: Final = ("get", "list", "watch")


@dataclass(frozen=True, slots=True)
class Subresource:
    """A part of an object with verbs of its own, such as ``log``.

    Attributes:
        kind: the kind of what it takes or gives, of ``group`` and ``version``.
    """

    name: str
    kind: str
    verbs: tuple[str, ...]
    group: str = ""
    version: str = "v1"


@dataclass(frozen=True, slots=True)
class ScaledFields:
    """The fields of an object that its subresource ``scale`` shows in the same shape for every kind.

    Attributes:
        wanted, present: the number of pods that are wanted, and of those that there are.
        selector: the labels of these pods, as a selector or as its text; empty where the kind tells none.
    """

    wanted: tuple[str, ...] = ("spec", "replicas")
    present: tuple[str, ...] = ("status", "replicas")
    selector: tuple[str, ...] = ("spec", "selector")


SCALE: Final = Subresource("scale", "Scale", ("get", "patch", "update"), "autoscaling", "v1")


@dataclass(frozen=True, slots=True)
class StoredKind:
    """The rules of a kind whose objects are stored as clients write them.

    Attributes:
        prepare: fills in defaults and normalizes: of what a client wants and the state before (None for a new object),
            what is stored. It may raise `HttpError` for what cannot be read.
        check: what is wrong with a prepared object, besides its metadata; the second argument is the state before.
        ending: what becomes of an object whose deletion begins.
        has_generation: whether changes of its specification are counted.
        creates_on_update: whether PUT makes an object that there is not.
        most: the number of objects that are kept; the oldest go. 0 for any.
        needs_version: whether PUT has to name the state that it changes.
        warning: told with every write, for a kind that nothing on this node acts on.
        remarks: told with a write of this object.
        prune: leaves out the fields that the kind does not know, and names them; None where `ApiResource.schema` does.
        scaled: the fields of the subresource ``scale``; None where there is none.
    """

    prepare: Callable[[Json, Json | None], Json] = lambda wanted, before: wanted
    check: Callable[[Json, Json | None], Iterable[FieldProblem]] = lambda value, before: ()
    ending: Callable[[Json], Json] = lambda value: value
    name_rule: NameRule = subdomain_rule
    has_generation: bool = False
    creates_on_update: bool = False
    needs_version: bool = False
    most: int = 0
    warning: str = ""
    remarks: Callable[[Json], tuple[str, ...]] = lambda value: ()
    prune: Callable[[Json], tuple[Json, tuple[str, ...]]] | None = None
    scaled: ScaledFields | None = None


@dataclass(frozen=True, slots=True)
class ApiResource:
    """One kind of objects.

    Attributes:
        group: empty for the core group.
        verbs: as discovery names them.
        fields: those that field selectors may name.
        schema: the fields that objects have; None where any is taken.
        merging: the rules of strategic merge patches; None where there are no such patches.
        stored: the rules of a kind that is stored as it is; None for pods, nodes and what else has a room of its own.
        custom: of a custom resource, how an applied configuration is merged.
        described: the fields in OpenAPI's words, where they are given so.
    """

    group: str
    version: str
    plural: str
    singular: str
    kind: str
    is_namespaced: bool
    verbs: tuple[str, ...]
    columns: TableColumns
    fields: SelectableFields = field(compare=False)
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[Subresource, ...] = ()
    schema: Table | None = field(default=None, compare=False)
    merging: MergeRule | None = field(default=merge_rules.OBJECT, compare=False)
    stored: StoredKind | None = field(default=None, compare=False)
    custom: VersionedType | None = field(default=None, compare=False)
    described: Json | None = field(default=None, compare=False)

    @property
    def applying(self) -> VersionedType:
        """The way in which an applied configuration is merged, and what of an object is owned by itself."""
        return self.custom or builtin_type(self.group, self.version, self.kind)

    @property
    def qualified(self) -> str:
        """Its name with its group, as in messages: ``deployments.apps``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def has_status(self) -> bool:
        """Whether its status is written apart from the rest."""
        return any(each.name == "status" for each in self.subresources)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def base(self) -> str:
        """The path of its group and version."""
        return f"/apis/{self.api_version}" if self.group else f"/api/{self.version}"


PODS: Final = ApiResource(
    "",
    "v1",
    "pods",
    "pod",
    "Pod",
    True,
    ("create", "delete", "deletecollection", *_READ, "patch", "update"),
    tables.PODS,
    POD_FIELDS,
    ("po",),
    ("all",),
    (
        Subresource("attach", "PodAttachOptions", ("create", "get")),
        Subresource("binding", "Binding", ("create",)),
        Subresource("eviction", "Eviction", ("create",), "policy", "v1"),
        Subresource("exec", "PodExecOptions", ("create", "get")),
        Subresource("log", "Pod", ("get",)),
        Subresource("portforward", "PodPortForwardOptions", ("create", "get")),
        Subresource("status", "Pod", ("get", "patch", "update")),
    ),
    POD,
    merge_rules.POD,
)
NODES: Final = ApiResource(
    "",
    "v1",
    "nodes",
    "node",
    "Node",
    False,
    (*_READ, "patch", "update"),
    tables.NODES,
    NODE_FIELDS,
    ("no",),
    subresources=(
        Subresource("proxy", "NodeProxyOptions", ("get",)),
        Subresource("status", "Node", ("get", "patch", "update")),
    ),
    merging=merge_rules.NODE,
)
_EVENT_VERBS: Final = ("create", "delete", "deletecollection", *_READ, "patch", "update")
_MOST_EVENTS: Final = 1000
EVENTS: Final = ApiResource(
    "",
    "v1",
    "events",
    "event",
    "Event",
    True,
    _EVENT_VERBS,
    tables.EVENTS,
    EVENT_FIELDS,
    ("ev",),
    schema=object_table("v1", "Event"),
    stored=StoredKind(check=core_event_problems, creates_on_update=True, most=_MOST_EVENTS),
)
NEW_EVENTS: Final = ApiResource(
    "events.k8s.io",
    "v1",
    "events",
    "event",
    "Event",
    True,
    _EVENT_VERBS,
    TableColumns(tables.EVENTS.columns, lambda value, now: tables.EVENTS.cells(core_event(value), now)),
    NEW_EVENT_FIELDS,
    ("ev",),
    schema=object_table("events.k8s.io/v1", "Event"),
    stored=StoredKind(check=new_event_problems, creates_on_update=True, most=_MOST_EVENTS),
)

RESOURCES: Final = (EVENTS, NEW_EVENTS, NODES, PODS)
"""The kinds that have rooms of their own; those that are stored as they are come on top."""


class ResourceTable:
    """The kinds of objects that are served at this moment; definitions of custom resources add to them.

    Attributes:
        version: grows with every change.
    """

    def __init__(self, resources: Iterable[ApiResource]) -> None:
        self._rows = {_place(each): each for each in resources}
        self.version = 0

    def __iter__(self) -> Iterator[ApiResource]:
        return iter(tuple(self._rows.values()))

    def find(self, group: str, version: str, plural: str) -> ApiResource | None:
        return self._rows.get((group, version, plural))

    def of_group(self, group: str) -> list[ApiResource]:
        return [each for each in self if each.group == group]

    def put(self, resource: ApiResource) -> None:
        """Serve a kind, or serve it in another way."""
        self._rows[_place(resource)] = resource
        self.version += 1

    def remove(self, resource: ApiResource) -> None:
        del self._rows[_place(resource)]
        self.version += 1


def _place(resource: ApiResource) -> tuple[str, str, str]:
    return resource.group, resource.version, resource.plural
