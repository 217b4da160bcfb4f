"""Clients attached to containers of a real engine."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from plugbay.runtimes.exec_input import Console, TerminalSize
from plugbay.runtimes.port import ContainerSpec
from tests.contract.rigs import attachments
from tests.contract.rigs.oci import Places, places, runtime_on, spec, why_not
from tests.contract.runtimes.test_process_attach import CASES, Case

__all__ = ["places", "spec"]

pytestmark = [pytest.mark.root, pytest.mark.skipif(bool(why_not()), reason=why_not())]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
async def test_attach_on_pipes_and_terminal(places: Places, spec: ContainerSpec, case: Case) -> None:
    await case(partial(runtime_on, places), spec)


async def test_a_terminal_takes_input_and_size_as_soon_as_the_container_has_started(
    places: Places, spec: ContainerSpec, tmp_path: Path
) -> None:
    engine = tmp_path / "slow-engine"
    engine.write_text(f'#!/bin/sh\n{places.engine.program} "$@" || exit\ncase "$*" in *" run "*) sleep 1;; esac\n')
    engine.chmod(0o755)
    places.engine = replace(places.engine, program=str(engine))
    async with runtime_on(places) as runtime:
        container = attachments.talking(spec, "read line; echo got $line; stty size; read more", tty=True)
        state = await runtime.start(container)
        async with attachments.attached(runtime, state.id, Console.TERMINAL) as client:
            client.given.resize(TerminalSize(100, 40))
            await client.given.send(b"1\n")
            await client.until(b"got 1\r\n40 100\r\n")


async def test_a_terminal_of_a_short_container_loses_nothing(places: Places, spec: ContainerSpec) -> None:
    async with runtime_on(places) as runtime:
        for attempt in range(5):
            container = attachments.talking(spec, "echo one; echo two >&2; exit 3", tty=True)
            state = await runtime.start(replace(container, attempt=attempt))
            assert (await runtime.wait(state.id)).exit_code == 3
            assert b"".join([each async for each in runtime.log(state.id)]) == b"one\r\ntwo\r\n"
