"""Texts that describe things: YAML and JSON.

`texts` reads both with the line of each value and writes YAML; `go_json` reads and writes JSON as Go does.

May live here: formats of texts. May not: what a text is about.
"""

from __future__ import annotations

from typing import TypeAlias

JsonValue: TypeAlias = "dict[str, JsonValue] | list[JsonValue] | str | int | float | bool | None"
"""A JSON value that was read."""
JsonObject: TypeAlias = "dict[str, JsonValue]"
"""A JSON object that was read."""
Json: TypeAlias = "dict[str, object]"
"""A JSON object to be written."""
