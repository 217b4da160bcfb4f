"""The table of states is whole, and each state can be reached and left as section 5.1 draws it."""

from __future__ import annotations

import pytest

from plugbay.wire.http2.stream_states import TRANSITIONS, Breach, Happening, StreamState, fault

CLOSED = {StreamState.ENDED, StreamState.RESET_BY_US, StreamState.RESET_BY_PEER}
RECEIVED = [happening for happening in Happening if happening.name.endswith("RECEIVED")]


def test_whatever_a_peer_does_has_an_answer_in_every_state() -> None:
    assert TRANSITIONS.keys() == set(StreamState)
    assert all(happening in TRANSITIONS[state] for state in StreamState for happening in RECEIVED)


def test_closed_streams_stay_closed() -> None:
    for state in CLOSED:
        assert {follows for follows in TRANSITIONS[state].values() if isinstance(follows, StreamState)} <= {state}
        assert Happening.RESET_SENT not in TRANSITIONS[state]


def test_every_state_is_reached_from_idle() -> None:
    reached, waiting = set[StreamState](), [StreamState.IDLE]
    while waiting:
        state = waiting.pop()
        reached.add(state)
        follows = {each for each in TRANSITIONS[state].values() if isinstance(each, StreamState)}
        waiting += follows - reached
    assert reached == set(StreamState)


def test_an_end_is_counted_once_for_each_side() -> None:
    """The four ways through the middle of the figure in section 5.1."""
    for first, second in (
        (Happening.END_SENT, Happening.END_RECEIVED),
        (Happening.END_RECEIVED, Happening.END_SENT),
    ):
        between = TRANSITIONS[StreamState.OPEN][first]
        assert isinstance(between, StreamState)
        assert TRANSITIONS[between][second] is StreamState.ENDED
        assert not isinstance(TRANSITIONS[between].get(first), StreamState)


@pytest.mark.parametrize("breach", Breach)
def test_every_breach_is_told_in_words(breach: Breach) -> None:
    found = fault(breach, Happening.DATA_RECEIVED, 7)
    assert (found is None) is (breach is Breach.CROSSED)
    if breach in (Breach.PROTOCOL_ERROR, Breach.STREAM_CLOSED):
        assert "data received on stream 7" in str(found)
