"""What Tab does after `plugbay completion`: in the shells themselves."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from plugbay.cli.main import run

if TYPE_CHECKING:
    from tests.contract.conftest import Plugbay

DEADLINE_S = 60
REPOSITORY = Path(__file__).parents[3]
BASH = """
source "$SCRIPTS/bash"
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_shtab_plugbay
printf '%s\\n' "${COMPREPLY[@]}"
"""
FISH = "source $SCRIPTS/fish; complete -C (string join ' ' -- $argv)"
TYPED = [
    (["plugbay", "checkp"], ["checkpoint"]),
    (["plugbay", "pod", "des"], ["describe"]),
    (["plugbay", "pod", "r"], ["run"]),  # and not the other names that commands have
    (["plugbay", "pod", "get", "--all"], ["--all-namespaces"]),
    (["plugbay", "pod", "get", "-o", "j"], ["json", "jsonpath="]),
    (["plugbay", "node", "wait", "--ti"], ["--timeout"]),
    (["plugbay", "completion", "z"], ["zsh"]),
    (["plugbay", "serve", "--node", "scr"], ["scratch"]),
    (["plugbay", "devices", "README"], ["README.md"]),
]


@pytest.fixture(scope="module", autouse=True)
def _scripts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What the command prints for each shell, in files below ``$SCRIPTS``."""
    directory = tmp_path_factory.mktemp("completion")
    for shell in ("bash", "zsh", "fish"):
        with (directory / shell).open("w") as script, redirect_stdout(script):
            assert run(["completion", shell]) == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCRIPTS", str(directory))
        yield


def environ(**more: str) -> dict[str, str]:
    """With the command in front of the path, as where it is installed."""
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8", **more}


def completed(shell: list[str], typed: list[str], **more: str) -> list[str]:
    done = subprocess.run(
        [*shell, *typed],
        capture_output=True,
        text=True,
        check=True,
        cwd=REPOSITORY,
        env=environ(**more),
        timeout=DEADLINE_S,
    )
    assert done.stderr == ""
    return sorted(line.partition("\t")[0] for line in done.stdout.splitlines() if line)


def in_bash(typed: list[str], **more: str) -> list[str]:
    return completed(["bash", "--norc", "-c", BASH, "bash"], typed, **more)


def in_fish(typed: list[str], **more: str) -> list[str]:
    return completed(["fish", "--no-config", "-c", FISH, "--"], typed, **more)


needs_fish = pytest.mark.skipif(shutil.which("fish") is None, reason="there is no fish")
needs_zsh = pytest.mark.skipif(shutil.which("zsh") is None, reason="there is no zsh")


@pytest.mark.parametrize(("typed", "offered"), TYPED, ids=lambda words: " ".join(words))
def test_bash_completes(typed: list[str], offered: list[str]) -> None:
    assert in_bash(typed) == offered


@needs_fish
@pytest.mark.parametrize(("typed", "offered"), TYPED, ids=lambda words: " ".join(words))
def test_fish_completes(typed: list[str], offered: list[str], tmp_path: Path) -> None:
    assert in_fish(typed, HOME=str(tmp_path)) == offered


class Zsh:
    """One that people type in, on a terminal of its own."""

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal
        self._shown = b""

    def types(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def shows(self, text: str) -> None:
        """Wait until it does."""
        end = time.monotonic() + DEADLINE_S
        while text.encode() not in self._shown:
            assert time.monotonic() < end, self._shown
            self._shown += os.read(self._terminal, 4096)
        self._shown = b""


@contextmanager
def zsh(tmp_path: Path) -> Iterator[Zsh]:
    ours, its = os.openpty()
    shell = subprocess.Popen(
        ["zsh", "-f", "-i"], stdin=its, stdout=its, stderr=its, env=environ(TERM="dumb", HOME=str(tmp_path))
    )
    try:
        yield Zsh(ours)
    finally:
        shell.kill()
        shell.wait()
        os.close(ours)
        os.close(its)


@needs_zsh
@pytest.mark.timeout(DEADLINE_S * 2)
def test_zsh_completes(tmp_path: Path) -> None:
    with zsh(tmp_path) as shell:
        shell.types('autoload -U compinit && compinit -D -u; eval "$(cat $SCRIPTS/zsh)"; echo rea""dy\n')
        shell.shows("ready\r\n")
        shell.types("plugbay pod des\t")
        shell.shows("describe ")
        shell.types("\x15plugbay pod get -o y\t")
        shell.shows("yaml ")
        shell.types("\x15plugbay node wait --tim\t")
        shell.shows("--timeout")


async def test_names_of_pods_are_completed(plugbay: Plugbay, tmp_path: Path) -> None:
    async with plugbay.node_up():
        await plugbay("pod", "run", "web", "--", "sleep", "3600")
        await plugbay("pod", "run", "worker", "--", "sleep", "3600")
        more = {"PLUGBAY_ROOT": str(plugbay.root), "HOME": str(tmp_path)}
        assert await asyncio.to_thread(in_bash, ["plugbay", "pod", "logs", "w"], **more) == ["web", "worker"]
        assert await asyncio.to_thread(in_bash, ["plugbay", "node", "cordon", ""], **more) == ["n1"]
        if shutil.which("fish"):
            assert await asyncio.to_thread(in_fish, ["plugbay", "pod", "exec", "wo"], **more) == ["worker"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_that_starts_asks_no_node(shell: str) -> None:
    for line in Path(os.environ["SCRIPTS"], shell).read_text().splitlines():
        assert "plugbay pod get" not in line or "_names()" in line or line.startswith("complete "), line
