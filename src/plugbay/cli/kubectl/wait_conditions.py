"""The conditions of ``pod wait --for`` and ``node wait --for``. Pure.

Source: kubectl 1.36 ``pkg/cmd/wait``, ``condition.go`` and ``json.go``; resources are ours.
"""

from __future__ import annotations

import re
from typing import Final, TypeAlias

from plugbay.documents import Json
from plugbay.errors import UsageError
from plugbay.model.ids import is_extended_resource
from plugbay.printers import v1
from plugbay.printers.jsonpath import JsonPath, find, parse_jsonpath
from plugbay.values import dataclass

_RESOURCE: Final = re.compile(r"(?P<name>[^=<>]+)(?:(?P<sign>>?=)(?P<amount>[0-9]{1,9}))?")
_AMOUNTS: Final = {"resource": "allocatable", "capacity": "capacity"}
"""The names of an amount: in ``--for``, and in the node's status."""
_POD_CONDITIONS: Final = "condition=NAME[=STATUS], delete or jsonpath='{.PATH}'[=VALUE]"
_NODE_CONDITIONS: Final = (
    "resource=R=N, resource=R>=N, capacity=R=N, condition=NAME[=STATUS] or jsonpath='{.PATH}'[=VALUE]"
)


@dataclass(frozen=True, slots=True)
class ConditionIs:
    """A condition of the object has a status; case does not matter."""

    type: str
    status: str = "True"

    def holds(self, value: Json) -> bool:
        return self._status(value).lower() == self.status.lower()

    def seen(self, value: Json) -> str:
        """The reason why the condition is not met, as the end of a sentence."""
        return f"{self.type} is {self._status(value) or 'not set'}"

    def _status(self, value: Json) -> str:
        for condition in v1.objects(value, "status", "conditions"):
            if v1.text(condition, "type").lower() == self.type.lower():
                return v1.text(condition, "status")
        return ""


@dataclass(frozen=True, slots=True)
class ValueIs:
    """A field of the object has a value; any value for None. ``text`` is the path as it was given."""

    path: JsonPath
    value: str | None
    text: str = ""

    def holds(self, value: Json) -> bool:
        found = find(value, self.path)
        return found is not None and self.value in (None, found)

    def seen(self, value: Json) -> str:
        found = find(value, self.path)
        return f"{self.text} is {'not set' if found is None else found}"


@dataclass(frozen=True, slots=True)
class Deleted:
    """The pod is gone."""

    def holds(self, value: Json) -> bool:
        return False

    def seen(self, value: Json) -> str:
        return ""


@dataclass(frozen=True, slots=True)
class ResourceIs:
    """The condition that a node has an amount of a resource: exactly, or at least.

    Attributes:
        amounts: ``allocatable`` or ``capacity``.
    """

    amounts: str
    resource: str
    amount: int
    exactly: bool

    def holds(self, value: Json) -> bool:
        found = int(v1.text(value, "status", self.amounts, self.resource) or "0")
        return found == self.amount if self.exactly else found >= self.amount

    def seen(self, value: Json) -> str:
        capacity = v1.text(value, "status", "capacity", self.resource)
        if not capacity:
            return f"the node has no {self.resource}: no plugin has offered it"
        allocatable = v1.text(value, "status", "allocatable", self.resource) or "0"
        return f"{self.resource} has capacity {capacity}, of which {allocatable} can be allocated"


WaitCondition: TypeAlias = ConditionIs | ValueIs | Deleted | ResourceIs


def parse_condition(text: str) -> WaitCondition:
    """The condition that ``--for`` of a pod names.

    Raises:
        UsageError: ``text`` is nothing that can be waited for.
    """
    if text.lower() == "delete":
        return Deleted()
    if found := _of_any_object(text):
        return found
    raise UsageError(f"--for wants {_POD_CONDITIONS}, found {text!r}")


def parse_node_condition(text: str) -> WaitCondition:
    """The condition that ``--for`` of a node names; raises as `parse_condition`."""
    kind, _, rest = text.partition("=")
    if kind in _AMOUNTS and rest:
        return _resource_is(kind, rest)
    if found := _of_any_object(text):
        return found
    raise UsageError(f"--for wants {_NODE_CONDITIONS}, found {text!r}")


def _of_any_object(text: str) -> WaitCondition | None:
    kind, _, rest = text.partition("=")
    if kind == "condition" and rest:
        name, _, status = rest.partition("=")
        return ConditionIs(name, status or "True")
    if kind == "jsonpath" and rest:
        return _value_is(rest)
    return None


def _resource_is(kind: str, rest: str) -> ResourceIs:
    """``R=N``, ``R>=N``, or ``R`` alone, which is at least one."""
    match = _RESOURCE.fullmatch(rest)
    if match is None or not is_extended_resource(match["name"]):
        raise UsageError(f"--for={kind} wants a resource and a number, such as example.com/gopher=2, found {rest!r}")
    return ResourceIs(_AMOUNTS[kind], match["name"], int(match["amount"] or "1"), exactly=match["sign"] == "=")


def _value_is(rest: str) -> ValueIs:
    """``{...}=value``: an equals sign may stand in the path too, but not behind its brace."""
    if rest.startswith("{"):
        end = rest.rfind("}") + 1
        path, separator, value = rest[:end], rest[end : end + 1], rest[end + 1 :]
    else:
        path, separator, value = rest.partition("=")
    if separator not in ("", "=") or (separator and not value):
        raise UsageError(f"--for=jsonpath wants '{{.PATH}}'=VALUE, found {rest!r}")
    return ValueIs(parse_jsonpath(path), value if separator else None, path)
