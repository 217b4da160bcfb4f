"""What the options of ``node up`` make of the limits of PostStopContainer and Deallocate."""

from __future__ import annotations

import pytest

from plugbay.cli.arguments.parser import CommandParser
from plugbay.cli.node.release_options import add_release_options, release_limits
from plugbay.errors import UsageError
from plugbay.manager.config import Exhaustion, ReleaseLimits, Unconfirmed


def limits(*options: str) -> ReleaseLimits:
    parser = CommandParser()
    add_release_options(parser)
    return release_limits(parser.parse_args(options))


def test_the_defaults_are_those_of_the_manager() -> None:
    assert limits() == ReleaseLimits()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--release-wait", "90s"), ReleaseLimits(wait_s=90)),
        (("--release-wait", "0"), ReleaseLimits(wait_s=0)),
        (("--release-give-up", "1h"), ReleaseLimits(max_age_s=3600)),
        (("--release-attempts", "7"), ReleaseLimits(max_attempts=7)),
        (("--on-release-give-up", "quarantine"), ReleaseLimits(on_exhaustion=Exhaustion.QUARANTINE)),
        (("--on-unconfirmed-post-stop", "fail"), ReleaseLimits(on_unconfirmed=Unconfirmed.FAIL)),
    ],
    ids=str,
)
def test_each_option_sets_one_limit(options: tuple[str, ...], expected: ReleaseLimits) -> None:
    assert limits(*options) == expected


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--release-wait", "-1s"), "--release-wait cannot be below zero"),
        (("--release-give-up", "0"), "--release-give-up has to be above zero"),
        (("--release-attempts", "0"), "--release-attempts has to be above zero"),
    ],
)
def test_limits_that_make_no_sense_are_refused(options: tuple[str, ...], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        limits(*("=".join(options),))
