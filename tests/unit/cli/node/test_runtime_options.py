"""What the options say of the runtime."""

from __future__ import annotations

from pathlib import Path

import pytest

from plugbay.cli.arguments.parser import CommandParser
from plugbay.cli.node.runtime_options import add_container_log_options, add_runtime_options, cri_config, log_limits
from plugbay.runtimes.logs.files import LogLimits


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


def _limits(*options: str) -> LogLimits:
    parser = CommandParser()
    add_container_log_options(parser)
    return log_limits(parser.parse_args(options))


def test_logs_of_containers_are_a_kubelets_unless_the_options_say_otherwise() -> None:
    assert _limits() == LogLimits(10 * 2**20, 5)
    assert _limits("--container-log-max-size", "100k", "--container-log-max-files", "2") == LogLimits(100_000, 2)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--container-log-max-size", "0"), "wants a size such as 10Mi, found '0'"),
        (("--container-log-max-size", "1.5m"), "wants a size such as 10Mi, found '1.5m'"),
        (("--container-log-max-files", "1"), "wants a whole number, 2 or more, found '1'"),
    ],
)
def test_logs_that_nothing_fits_in_are_refused(
    capsys: pytest.CaptureFixture[str], options: tuple[str, ...], problem: str
) -> None:
    with pytest.raises(SystemExit):
        _limits(*options)
    assert problem in capsys.readouterr().err
