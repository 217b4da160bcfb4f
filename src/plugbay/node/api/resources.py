"""The table of the kinds of objects that the API has. Pure.

Discovery, routes, tables and selectors are made from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from plugbay.node.api.field_selectors import EVENT_FIELDS, NAMESPACE_FIELDS, NODE_FIELDS, POD_FIELDS
from plugbay.printers import tables
from plugbay.printers.tables import TableColumns

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
class ApiResource:
    """One kind of objects.

    Attributes:
        group: empty for the core group.
        verbs: as discovery names them.
        fields: those that field selectors may name.
    """

    group: str
    version: str
    plural: str
    singular: str
    kind: str
    is_namespaced: bool
    verbs: tuple[str, ...]
    columns: TableColumns
    fields: frozenset[str]
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[Subresource, ...] = ()

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
        Subresource("eviction", "Eviction", ("create",), "policy", "v1"),
        Subresource("exec", "PodExecOptions", ("create", "get")),
        Subresource("log", "Pod", ("get",)),
    ),
)
NODES: Final = ApiResource(
    "", "v1", "nodes", "node", "Node", False, (*_READ, "patch"), tables.NODES, NODE_FIELDS, ("no",)
)
EVENTS: Final = ApiResource("", "v1", "events", "event", "Event", True, _READ, tables.EVENTS, EVENT_FIELDS, ("ev",))
NAMESPACES: Final = ApiResource(
    "", "v1", "namespaces", "namespace", "Namespace", False, _READ, tables.NAMESPACES, NAMESPACE_FIELDS, ("ns",)
)

RESOURCES: Final = (EVENTS, NAMESPACES, NODES, PODS)
