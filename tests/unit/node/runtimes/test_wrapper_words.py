from __future__ import annotations

import errno

import pytest

from plugbay.node.runtimes.process.wrapper_words import start_reason


@pytest.mark.parametrize(
    ("number", "text", "reason"),
    [
        pytest.param(errno.EMFILE, "", "CreateContainerError", id="descriptors"),
        pytest.param(errno.EAGAIN, "", "CreateContainerError", id="processes"),
        pytest.param(errno.ENOENT, "", "StartError", id="no-program"),
        pytest.param(0, "pipe2: Too many open files in system", "CreateContainerError", id="an-engines-descriptors"),
        pytest.param(0, "clone: Resource temporarily unavailable", "CreateContainerError", id="an-engines-processes"),
        pytest.param(0, "cannot allocate memory", "StartError", id="the-containers-own-limit"),
        pytest.param(None, "", "StartError", id="nothing-known"),
    ],
)
def test_what_passes_is_no_run(number: int | None, text: str, reason: str) -> None:
    assert start_reason(number, "StartError", text=text) == reason
