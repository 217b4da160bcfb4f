"""Attributes and capacities of devices, by the rules of ResourceSlices.

A device plugin's kubelet does not learn them. They are checked all the same, so that today's plugins can publish them
tomorrow.

Source: Kubernetes 1.36 ``resource.k8s.io/v1``, limits of ``Device``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from plugbay.errors import InvalidQuantity
from plugbay.model.dns import SUBDOMAIN
from plugbay.model.semver import SemVer

if TYPE_CHECKING:
    from plugbay.model.quantity import Quantity

Scalar = bool | int | str | SemVer
AttributeValue = Scalar | tuple[Scalar, ...]
"""A tuple is a list; it is not empty, and its items have one type."""

MAX_KEYS: Final = 26
"""A slice has room for 32 attributes; the ID, the NUMA node and the like of every device need the rest."""
MAX_VALUES: Final = 48
MAX_TEXT_BYTES: Final = 64
_MAX_DOMAIN: Final = 63
_MAX_INT: Final = 2**63
_KEY: Final = re.compile(rf"((?P<domain>{SUBDOMAIN})/)?[A-Za-z_][A-Za-z0-9_]{{0,31}}")


def parse_capacity(capacity: Mapping[str, Quantity | int | str]) -> dict[str, Quantity]:
    """Parse the amounts of capacities: ``80Gi`` and ``4`` are as good as a `Quantity`.

    Raises:
        ValueError: a value is not an amount, or is negative; the text tells which.
    """
    # Imported here: with the fractions behind it, it would cost every plugin process half a megabyte.
    from plugbay.model.quantity import Quantity

    parsed = {}
    for key, amount in capacity.items():
        try:
            parsed[key] = amount if isinstance(amount, Quantity) else Quantity.parse(str(amount))
        except InvalidQuantity as error:
            raise ValueError(f"capacity {key!r}: {error}") from error
        if parsed[key].value < 0:
            raise ValueError(f"capacity {key!r} is less than nothing")
    return parsed


def problem_of(attributes: Mapping[str, AttributeValue], capacity: Mapping[str, Quantity]) -> str | None:
    """The problem with a device's attributes and capacities; None when they can be published."""
    return next(_problems(attributes, capacity), None)


def _problems(attributes: Mapping[str, AttributeValue], capacity: Mapping[str, Quantity]) -> Iterator[str]:
    for key in (*attributes, *capacity):
        match = _KEY.fullmatch(key)
        if match is None or len(match["domain"] or "") > _MAX_DOMAIN:
            yield f"{key!r} is not a name for an attribute or capacity; it has to be like model or example.com/model"
    for key, value in attributes.items():
        yield from (f"attribute {key!r} {problem}" for problem in _value_problems(value))
    if len(attributes) + len(capacity) > MAX_KEYS:
        yield f"{len(attributes) + len(capacity)} attributes and capacities are more than {MAX_KEYS}"
    if (values := sum(len(value) if isinstance(value, tuple) else 1 for value in attributes.values())) > MAX_VALUES:
        yield f"{values} values of attributes are more than {MAX_VALUES}"


def _value_problems(value: object) -> Iterator[str]:
    items = value if isinstance(value, tuple) else (value,)
    if len({type(item) for item in items}) != 1:
        yield "is an empty list" if not items else "is a list of several types"
    for item in items:
        match item:
            case bool():  # before int: a bool is an int, too
                pass
            case int() if not -_MAX_INT <= item < _MAX_INT:
                yield f"is {item}, which does not fit in 64 bits"
            case str() if len(item.encode(errors="replace")) > MAX_TEXT_BYTES:
                yield f"has a text of more than {MAX_TEXT_BYTES} bytes"
            case int() | str() | SemVer():
                pass
            case _:
                yield f"is {item!r}, which is not a bool, int, str or SemVer"
