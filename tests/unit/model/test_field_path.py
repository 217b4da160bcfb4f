from __future__ import annotations

import pytest

from plugbay.model.field_path import FieldPath, field_text


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ((), ""),
        (("spec",), "spec"),
        (("spec", "containers", 0, "ports"), "spec.containers[0].ports"),
        (("limits", "example.com/gopher"), "limits[example.com/gopher]"),
        (("items", 1), "items[1]"),
    ],
    ids=repr,
)
def test_field_text(path: FieldPath, text: str) -> None:
    assert field_text(path) == text
