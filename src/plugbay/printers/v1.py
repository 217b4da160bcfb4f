"""Reading v1 objects made of plain JSON values: a field that is missing or of another type reads as empty.

Output must not depend on every field being there: servers differ, and get new fields.
"""

from __future__ import annotations

from datetime import datetime

from plugbay.documents import Json


def at(value: object, *path: str) -> object:
    """The value at ``path``; None if a step is missing."""
    for step in path:
        if not isinstance(value, dict):
            return None
        value = value.get(step)
    return value


def text(value: object, *path: str) -> str:
    found = at(value, *path)
    return found if isinstance(found, str) else ""


def number(value: object, *path: str) -> int:
    found = at(value, *path)
    return found if isinstance(found, int) else 0


def mapping(value: object, *path: str) -> Json:
    found = at(value, *path)
    return found if isinstance(found, dict) else {}


def texts(value: object, *path: str) -> list[str]:
    found = at(value, *path)
    return [str(item) for item in found] if isinstance(found, list) else []


def objects(value: object, *path: str) -> list[Json]:
    """The list of objects at ``path``, without what is not an object."""
    found = at(value, *path)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def moment(value: object, *path: str) -> datetime | None:
    """The moment at ``path``, aware; None when there is none or it cannot be read."""
    try:
        found = datetime.fromisoformat(text(value, *path))
    except ValueError:
        return None
    return found if found.tzinfo else None


def name(value: object) -> str:
    return text(value, "metadata", "name")


def namespace(value: object) -> str:
    return text(value, "metadata", "namespace")


def uid(value: object) -> str:
    return text(value, "metadata", "uid")
