from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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


def test_what_was_set_up_is_torn_down() -> None:
    assert [state for state, events in TRANSITIONS.items() if Event.DRAINED in events] == [State.DRAINING]
    assert TRANSITIONS[State.DRAINING][Event.DRAINED] is State.TEARING_DOWN
    assert TRANSITIONS[State.SETTING_UP][Event.STOP_REQUESTED] is State.STOPPED


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


def test_diagram_in_the_docs_is_current() -> None:
    tool = Path(__file__).parents[3] / "tools/states.py"
    checked = subprocess.run([sys.executable, str(tool), "--check"], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")
