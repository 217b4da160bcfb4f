"""What the options say of the runtime."""

from __future__ import annotations

from pathlib import Path

import pytest

from plugbay.cli.command_parser import CommandParser
from plugbay.cli.runtime_options import add_runtime_options, cri_config


def _socket(text: str) -> Path | None:
    parser = CommandParser()
    add_runtime_options(parser)
    config = cri_config(parser.parse_args(["--runtime", "cri", "--cri-socket", text]))
    assert config is not None
    return config.socket


@pytest.mark.parametrize("text", ["/run/a.sock", "unix:///run/a.sock"])
def test_the_engines_socket_is_a_path_or_what_a_kubelet_takes(text: str) -> None:
    assert _socket(text) == Path("/run/a.sock")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("tcp://127.0.0.1:1", "takes unix sockets only, found 'tcp://127.0.0.1:1'"),
        ("npipe:////./pipe/a", "takes unix sockets only"),
        ("unix://", "wants a path, found ''"),
        ("", "wants a path, found ''"),
    ],
)
def test_other_endpoints_are_refused(capsys: pytest.CaptureFixture[str], text: str, problem: str) -> None:
    with pytest.raises(SystemExit):
        _socket(text)
    assert problem in capsys.readouterr().err
