from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from plugbay.sdk.serving.states import KEPT, REGISTRATIONS, TRANSITIONS, LifeEvent, State, shown


def test_every_state_is_in_the_table() -> None:
    assert set(TRANSITIONS) == set(State)


def test_every_state_but_the_last_can_be_reached_and_left() -> None:
    reached = {after for events in TRANSITIONS.values() for after in events.values()}
    assert reached == set(State)
    for state in set(State) - {State.STOPPED}:
        assert any(after is not state for after in TRANSITIONS[state].values())


def test_stop_is_possible_wherever_something_runs() -> None:
    for state in (State.STARTING, State.STANDING_BY, *KEPT):
        assert TRANSITIONS[state][LifeEvent.STOP_REQUESTED] is State.DRAINING


def test_what_was_set_up_is_torn_down() -> None:
    assert [state for state, events in TRANSITIONS.items() if LifeEvent.DRAINED in events] == [State.DRAINING]
    assert TRANSITIONS[State.DRAINING][LifeEvent.DRAINED] is State.TEARING_DOWN
    assert TRANSITIONS[State.SETTING_UP][LifeEvent.STOP_REQUESTED] is State.STOPPED


def test_ready_only_after_registration_and_stream() -> None:
    into_streaming = [
        (state, event)
        for state, events in TRANSITIONS.items()
        for event, to in events.items()
        if to is State.STREAMING and state is not to
    ]
    assert into_streaming == [
        (State.SERVING, LifeEvent.REGISTERED_READING),
        (State.FORGOTTEN, LifeEvent.REGISTERED_READING),
        (State.REGISTERED, LifeEvent.STREAM_OPENED),
        (State.STANDING_BY, LifeEvent.LEFT_READING),
    ]


def test_lost_stream_is_the_word_of_a_registration_that_was_dropped() -> None:
    dropped = {
        (state, event)
        for state, events in TRANSITIONS.items()
        for event, to in events.items()
        if to is State.FORGOTTEN and state is not to and event not in (LifeEvent.ASKED_ANEW, LifeEvent.LEFT_ALONE)
    }
    assert dropped == {
        (State.STREAMING, LifeEvent.STREAM_LOST),
        (State.REGISTERED, LifeEvent.STREAM_MISSING),
        (State.REGISTERED, LifeEvent.REGISTERED_HUNG_UP),
        (State.SERVING, LifeEvent.REGISTERED_HUNG_UP),
    }


def test_only_a_socket_whose_registration_was_dropped_is_given_up_for_a_new_one() -> None:
    assert [state for state, events in TRANSITIONS.items() if LifeEvent.RENEWAL in events] == [State.FORGOTTEN]


def test_new_kubelet_has_to_be_told_whatever_the_one_before_knew() -> None:
    after = {state: TRANSITIONS[state][LifeEvent.REGISTRATION_LOST] for state in KEPT}
    assert after.pop(State.FORGOTTEN) is State.FORGOTTEN  # a plugin watcher still has to see a new socket
    assert set(after.values()) == {State.SERVING}


def test_new_registration_can_be_asked_for_at_any_time_and_counts_where_there_is_a_socket() -> None:
    after = {state: events[LifeEvent.ASKED_ANEW] for state, events in TRANSITIONS.items()}
    assert after == {state: State.FORGOTTEN if state in KEPT else state for state in State}


def test_registration_is_accepted_only_for_a_socket_that_is_kept() -> None:
    accepting = {state for state, events in TRANSITIONS.items() if REGISTRATIONS & events.keys()}
    assert accepting == KEPT


def test_onlookers_are_told_of_a_dropped_registration_as_of_none() -> None:
    assert {state: shown(state) for state in State if shown(state) is not state} == {State.FORGOTTEN: State.SERVING}


def test_a_stream_that_ends_late_never_surprises() -> None:
    assert all(LifeEvent.STREAM_LOST in events for events in TRANSITIONS.values())


def test_diagram_in_the_docs_is_current() -> None:
    tool = Path(__file__).parents[4] / "tools/states.py"
    checked = subprocess.run([sys.executable, str(tool), "--check"], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")
