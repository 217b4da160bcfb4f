"""What ``pod wait --for`` waits for: pure.

Source: kubectl 1.36 ``pkg/cmd/wait``, ``condition.go`` and ``json.go``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from plugbay.cli import v1
from plugbay.cli.jsonpath import JsonPath, find, parse_jsonpath
from plugbay.errors import UsageError


@dataclass(frozen=True, slots=True)
class ConditionIs:
    """A condition of the pod has a status; case does not matter."""

    type: str
    status: str = "True"

    def holds(self, pod: v1.Json) -> bool:
        for condition in v1.objects(pod, "status", "conditions"):
            if v1.text(condition, "type").lower() == self.type.lower():
                return v1.text(condition, "status").lower() == self.status.lower()
        return False


@dataclass(frozen=True, slots=True)
class ValueIs:
    """A field of the pod has a value; any value for None."""

    path: JsonPath
    value: str | None

    def holds(self, pod: v1.Json) -> bool:
        found = find(pod, self.path)
        return found is not None and self.value in (None, found)


@dataclass(frozen=True, slots=True)
class Deleted:
    """The pod is gone."""

    def holds(self, pod: v1.Json) -> bool:
        return False


WaitCondition: TypeAlias = ConditionIs | ValueIs | Deleted


def parse_condition(text: str) -> WaitCondition:
    """What ``--for`` says.

    Raises:
        UsageError: ``text`` is nothing that can be waited for.
    """
    kind, _, rest = text.partition("=")
    if text.lower() == "delete":
        return Deleted()
    if kind == "condition" and rest:
        name, _, status = rest.partition("=")
        return ConditionIs(name, status or "True")
    if kind == "jsonpath" and rest:
        return _value_is(rest)
    raise UsageError(f"--for wants condition=NAME[=STATUS], delete or jsonpath='{{.PATH}}'[=VALUE], found {text!r}")


def _value_is(rest: str) -> ValueIs:
    """``{...}=value``: an equals sign may stand in the path too, but not behind its brace."""
    if rest.startswith("{"):
        end = rest.rfind("}") + 1
        path, separator, value = rest[:end], rest[end : end + 1], rest[end + 1 :]
    else:
        path, separator, value = rest.partition("=")
    if separator not in ("", "=") or (separator and not value):
        raise UsageError(f"--for=jsonpath wants '{{.PATH}}'=VALUE, found {rest!r}")
    return ValueIs(parse_jsonpath(path), value if separator else None)
