from plugbay.sdk.states import TRANSITIONS, Event, State


def test_every_state_is_in_the_table() -> None:
    assert set(TRANSITIONS) == set(State)


def test_every_state_but_the_last_can_be_reached_and_left() -> None:
    reached = {after for events in TRANSITIONS.values() for after in events.values()}
    assert reached == set(State)
    for state in set(State) - {State.STOPPED}:
        assert any(after is not state for after in TRANSITIONS[state].values())


def test_stop_is_possible_wherever_something_runs() -> None:
    for state in (State.STARTING, State.SERVING, State.REGISTERED, State.STREAMING):
        assert TRANSITIONS[state][Event.STOP_REQUESTED] is State.DRAINING


def test_ready_only_after_registration_and_stream() -> None:
    into_streaming = [
        (state, event)
        for state, events in TRANSITIONS.items()
        for event, to in events.items()
        if to is State.STREAMING and state is not to
    ]
    assert into_streaming == [(State.REGISTERED, Event.STREAM_OPENED)]


def test_a_stream_that_ends_late_never_surprises() -> None:
    assert all(Event.STREAM_LOST in events for events in TRANSITIONS.values())
