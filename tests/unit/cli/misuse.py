"""What tests of the command line share."""

from __future__ import annotations

import pytest

from plugbay.cli.main import run


def misuse(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """What a usage error says; its exit code is 2."""
    with pytest.raises(SystemExit) as caught:
        run(argv)
    assert caught.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    return printed.err
