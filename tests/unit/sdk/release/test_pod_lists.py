"""When a kubelet is not in the middle of an Allocate."""

from __future__ import annotations

import asyncio

import pytest

from plugbay.model.ids import DeviceId, ResourceName
from plugbay.sdk.release.evidence.pod_lists import STORED_S, Quiet
from tests.unit.sdk.virtual_loop import VirtualLoop

GOPHER, OTHER = ResourceName("example.com/gopher"), ResourceName("example.com/other")
A, B, C = (GOPHER, DeviceId("a")), (GOPHER, DeviceId("b")), (OTHER, DeviceId("a"))


def test_it_is_quiet_again_once_the_answer_is_stored_for_sure(loop: VirtualLoop) -> None:
    async def ask() -> None:
        quiet, now = Quiet(), asyncio.get_running_loop().time
        assert quiet.is_quiet
        with quiet.allocating([A]):
            with quiet.allocating([B]):
                assert not quiet.is_quiet
            assert not quiet.is_quiet
        answered = now()
        await quiet.until_quiet()
        assert now() >= answered + STORED_S

    loop.run_until_complete(ask())


@pytest.mark.parametrize(
    ("held", "is_quiet"),
    [
        pytest.param([A, B], True, id="all-of-it"),
        pytest.param([A, B, C], True, id="more"),
        pytest.param([A], False, id="another-container-has-the-rest"),
        pytest.param([C], False, id="another-resource"),
    ],
)
def test_start_with_what_was_given_last_shows_that_it_is_stored(
    loop: VirtualLoop, held: list[tuple[ResourceName, DeviceId]], is_quiet: bool
) -> None:
    async def ask() -> None:
        quiet = Quiet()
        with quiet.allocating([A, B]):
            quiet.stored([A, B])
            assert not quiet.is_quiet
        quiet.stored(held)
        assert quiet.is_quiet is is_quiet
        with quiet.allocating():
            pass
        quiet.stored(held)
        assert not quiet.is_quiet

    loop.run_until_complete(ask())
