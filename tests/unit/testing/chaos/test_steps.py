"""Steps of chaos as lines of a file."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.errors import InvalidDocument
from plugbay.testing.chaos.planning import make_plan
from plugbay.testing.chaos.steps import ChaosStep, StepKind, parse_steps, steps_text


@given(st.integers(0, 10**9), st.integers(0, 60))
def test_plan_is_read_as_it_was_written(seed: int, length: int) -> None:
    plan = make_plan(seed, length=length)
    assert parse_steps(steps_text(plan, title=f"seed {seed}"), "steps") == plan


def test_comments_and_empty_lines_are_left_out() -> None:
    text = "# seed 7\n\nrestart 0.5   # down for a while\nkill\n"
    assert parse_steps(text, "steps") == (ChaosStep(StepKind.RESTART, 0.5), ChaosStep(StepKind.KILL))


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("explode", 'steps:2: "explode" is not a step; steps are restart, crash, '),
        ("kill 3", 'steps:2: "kill" takes no amount, found "3"'),
        ("restart", 'steps:2: "restart" takes one amount, the seconds down'),
        ("restart 1 2", 'steps:2: "restart" takes one amount, the seconds down'),
        ("freeze long", 'steps:2: "freeze" takes the seconds, a number from 0 to 3600, found "long"'),
        ("freeze -1", 'steps:2: "freeze" takes the seconds, a number from 0 to 3600, found "-1"'),
        ("freeze nan", 'steps:2: "freeze" takes the seconds, a number from 0 to 3600, found "nan"'),
        ("allocate 2.5", 'steps:2: "allocate" takes the pods, a number from 0 to 3600, found "2.5"'),
    ],
)
def test_line_that_is_not_a_step_is_told(line: str, problem: str) -> None:
    with pytest.raises(InvalidDocument) as caught:
        parse_steps(f"kill\n{line}\n", "steps")
    assert str(caught.value).startswith(problem)
