"""The JSON Schema of configs, made of the same table of fields as the reader. Pure.

Editors complete and explain fields by it. It is stricter than the reader about the case of keys, and knows nothing of
what fields say only together, such as names that stand twice.

Source: JSON Schema 2020-12.
"""

from __future__ import annotations

from typing import Any, Final

from plugbay.plugins.generic.config.fields import FILE
from plugbay.plugins.generic.config.shapes import Definitions

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_TITLE: Final = "Config of plugbay's generic plugin"


def config_schema() -> dict[str, Any]:
    """The schema of a file that is ours or squat's."""
    definitions: Definitions = {}
    FILE.schema(definitions)
    own = definitions.pop(FILE.name)
    own["anyOf"] = [{"required": [key]} for key in ("devices", "device")]
    return {"$schema": _DIALECT, "title": _TITLE, **own, "$defs": dict(sorted(definitions.items()))}
