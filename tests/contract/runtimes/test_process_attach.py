"""Clients attached to containers of the process runtime."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest

from plugbay.errors import ExecFailed
from plugbay.runtimes.exec_input import Console, ExecInput
from plugbay.runtimes.port import ContainerSpec
from tests.container_specs import changed
from tests.contract.rigs import attachments
from tests.contract.rigs.process import runtime_on, sh, spec, state_dir, whole_log

__all__ = ["spec", "state_dir"]

CASES = [
    attachments.every_client_sees_what_the_container_prints,
    attachments.the_first_client_ends_the_input_of_a_container_for_one,
    attachments.a_client_that_leaves_ends_the_input_of_a_container_for_one,
    attachments.a_terminal_has_a_size_and_is_the_containers_own,
    attachments.a_container_talks_on_after_its_node_was_restarted,
    attachments.much_goes_both_ways,
    attachments.a_client_that_reads_nothing_holds_no_end_up,
    attachments.a_client_that_reads_nothing_is_left_after_a_while,
]
Case = Callable[[attachments.Opener, ContainerSpec], Awaitable[None]]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
async def test_attach(state_dir: Path, spec: ContainerSpec, case: Case) -> None:
    await case(partial(runtime_on, state_dir), spec)


async def test_a_container_that_has_ended_takes_no_client(state_dir: Path, spec: ContainerSpec) -> None:
    async with runtime_on(state_dir) as runtime:
        state = await runtime.start(sh(spec, "true"))
        await runtime.wait(state.id)
        with pytest.raises(ExecFailed, match="it is not running"):
            await anext(runtime.attach(state.id, ExecInput(Console.PIPES), gives_input=False))


async def test_a_container_that_is_just_ending_is_refused_once_its_log_is_whole(
    state_dir: Path, spec: ContainerSpec
) -> None:
    async with runtime_on(state_dir) as runtime:
        for attempt in range(20):
            state = await runtime.start(changed(sh(spec, "echo hello"), attempt=attempt))
            with contextlib.suppress(ExecFailed):
                async for _ in runtime.attach(state.id, ExecInput(Console.PIPES), gives_input=False):
                    pass
            assert await whole_log(runtime, state.id) == b"hello\n"
