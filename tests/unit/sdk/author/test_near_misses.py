from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.sdk.author.near_misses import is_one_edit_away

WORDS = st.text("abc_", max_size=6)


@pytest.mark.parametrize(
    "word", ["prefered_allocation", "preferred_alocation", "preferred_allocatoin", "preferred_allocations"]
)
def test_slip_of_one_letter_is_near(word: str) -> None:
    assert is_one_edit_away(word, "preferred_allocation")


@pytest.mark.parametrize("word", ["release", "relax", "re", "", "elesae", "reeleasee"])
def test_same_word_and_other_words_are_not(word: str) -> None:
    assert not is_one_edit_away(word, "release")


@given(WORDS, WORDS)
def test_it_is_what_one_edit_gives(word: str, other: str) -> None:
    letters = {*word, *other}
    at = range(len(word) + 1)
    edits = {word[:i] + each + word[i:] for i in at for each in letters}
    edits |= {word[:i] + each + word[i + 1 :] for i in at for each in ("", *letters)}
    edits |= {word[:i] + word[i : i + 2][::-1] + word[i + 2 :] for i in at}
    assert is_one_edit_away(word, other) == (other in edits - {word})
