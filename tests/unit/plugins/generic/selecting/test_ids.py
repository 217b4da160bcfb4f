"""IDs of units: as long as any number of copies allows, and never the same for two identities."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.model.ids import MAX_DEVICE_ID_BYTES, parse_device_id
from plugbay.plugins.generic.selecting.ids import id_of_identities

MOST_COPIES = 100_000


@pytest.mark.parametrize("length", [43, 44, 45, 200])
def test_the_last_of_all_copies_has_an_id_that_kubelets_take(length: int) -> None:
    last = id_of_identities(MOST_COPIES - 1, ["u" * length])
    assert len(last) <= MAX_DEVICE_ID_BYTES
    parse_device_id(last)


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"))


@given(st.lists(st.lists(TEXTS, min_size=1), unique_by=tuple))
def test_identities_of_any_characters_have_ids_of_their_own(identities: list[list[str]]) -> None:
    ids = [id_of_identities(copy, each) for each in identities for copy in (0, 1, 12)]
    assert len(set(ids)) == len(ids)
    for each in ids:
        parse_device_id(each)


def test_a_serial_number_that_ends_as_a_copy_does_is_no_copy() -> None:
    assert id_of_identities(0, ["usb:1209:0001:A::1"]) != id_of_identities(1, ["usb:1209:0001:A"])
