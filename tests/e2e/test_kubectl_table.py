"""What kubectl prints against a node, compared with transcripts reviewed against what an API server would answer.

The tables are the transcripts ``kubectl_table/*.txt``, each for a node of its own:

- ``$ COMMAND`` is run by a shell among the files of ``kubectl_table/manifests``, by each kubectl; ``$1.32 COMMAND`` is
  left to kubectl 1.32 and later, since an older one lacks it or words its answer otherwise;
- the lines that follow are its standard output, those with ``2> `` its standard error, ``[CODE]`` an exit code other
  than 0;
- ``...`` stands for any lines; a name of `DYNAMIC`, for what differs from run to run; two spaces or more, for any such
  number.

The answers were recorded from a node and reviewed by hand from knowledge of kubectl 1.32 and an API server; none was
recorded from an API server. README.md of the tables names where they are known to differ from one.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from plugbay.node.config import NodeConfig
from plugbay.node.run import open_node
from plugbay.ops.clock import SystemClock
from plugbay.ops.listening import TcpAddress
from tests.contract.rigs.node_run import DEADLINE_S
from tests.e2e.test_kubectl_streams import before_websockets, installed, version_of

__all__ = ["before_websockets", "installed"]  # fixtures

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

TABLES: Final = Path(__file__).parent / "kubectl_table"
DYNAMIC: Final = {
    "<age>": r"(?:\d+[smhd])+",
    "<any>": r".*",
    "<date>": r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d \S+",
    "<hash>": r"[a-z0-9]{5,10}",
    "<number>": r"\d+",
    "<time>": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z",
    "<uid>": r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
}


class Expected(NamedTuple):
    line: int
    command: str
    since: tuple[int, int]
    out: list[str]
    err: list[str]
    code: int


def read_table(text: str) -> Iterator[Expected]:
    for number, first, rest in blocks(text):
        match = re.fullmatch(r"\$(?:(\d+)\.(\d+))? (.+)", first)
        assert match, first
        since = (int(match[1] or 0), int(match[2] or 0))
        code = next((int(code[1]) for code in map(re.compile(r"\[(\d+)\]").fullmatch, rest) if code), 0)
        err = [line[3:] for line in rest if line.startswith("2> ")]
        out = [line for line in rest if not line.startswith("2> ") and not re.fullmatch(r"\[\d+\]", line)]
        yield Expected(number, match[3], since, trimmed(out), err, code)


def blocks(text: str) -> Iterator[tuple[int, str, list[str]]]:
    """The line number, the first line and the further lines of each command."""
    lines = text.splitlines()
    starts = [number for number, line in enumerate(lines) if re.match(r"\$[\d.]* ", line)]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        yield start + 1, lines[start], lines[start + 1 : end]


def trimmed(lines: list[str]) -> list[str]:
    """The lines without spaces at their ends, and without the empty ones at the end."""
    text = "\n".join(line.rstrip() for line in lines).rstrip("\n")
    return text.split("\n") if text else []


def pattern(lines: list[str]) -> str:
    """A regular expression of lines; each ends with a newline."""
    return "".join(r"(?:.*\n)*?" if line == "..." else line_pattern(line) + r"\n" for line in lines)


def line_pattern(line: str) -> str:
    names = "|".join(DYNAMIC)
    parts = re.split(rf"({names}|(?<=\S) {{2,}}(?=\S))", line)
    return "".join(
        DYNAMIC.get(part) or (" {2,}" if part.isspace() and i % 2 else re.escape(part)) for i, part in enumerate(parts)
    )


def differs(expected: list[str], printed: str) -> bool:
    lines = trimmed(printed.splitlines())
    return re.fullmatch(pattern(expected), "".join(f"{line}\n" for line in lines)) is None


@asynccontextmanager
async def shell(root: Path, directory: Path, program: str) -> AsyncIterator[Shell]:
    """A shell for kubectl and a node; nothing is left at the end."""
    (directory / "bin").mkdir()
    (directory / "bin/kubectl").write_text(f'#!/bin/sh\nexec {program} "$@"\n')
    (directory / "bin/kubectl").chmod(0o755)
    shutil.copytree(TABLES / "manifests", directory / "manifests")
    config = NodeConfig(root, name="n1", api=TcpAddress("127.0.0.1", 0))
    environ = {
        "HOME": str(directory),
        "KUBECONFIG": str(config.kubeconfig),
        "PATH": f"{directory / 'bin'}:{os.environ['PATH']}",
    }
    async with open_node(config, environ=os.environ, clock=SystemClock()):
        run = Shell(directory / "manifests", environ)
        try:
            yield run
        finally:
            await run("kubectl delete deployments,replicasets,daemonsets,jobs -A --all --cascade=foreground")
            await run("kubectl delete pods -A --all --force --grace-period=0")


class Shell(NamedTuple):
    directory: Path
    environ: dict[str, str]

    async def __call__(self, command: str) -> tuple[int, str, str]:
        """The exit code, standard output and standard error."""
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *("sh", "-c", command), cwd=self.directory, env=self.environ, stdin=pipe, stdout=pipe, stderr=pipe
        )
        async with asyncio.timeout(DEADLINE_S):
            out, err = await process.communicate()
        return process.returncode or 0, out.decode(), err.decode()


@pytest.mark.parametrize("table", sorted(path.stem for path in TABLES.glob("*.txt")))
@pytest.mark.parametrize("kubectl", ["installed", "before_websockets"])
async def test_kubectl_prints_what_its_transcript_says(
    table: str, kubectl: str, request: pytest.FixtureRequest, sockets: Path, tmp_path: Path
) -> None:
    program = request.getfixturevalue(kubectl)
    version = version_of(program)
    wrong = []
    async with shell(sockets, tmp_path, program) as run:
        for each in read_table((TABLES / f"{table}.txt").read_text()):
            if version < each.since:
                continue
            code, out, err = await run(each.command)
            if code != each.code or differs(each.out, out) or differs(each.err, err):
                wrong.append(f"{table}.txt:{each.line}: {each.command}\n{out}{err}[{code}]")
    assert not wrong, "\n\n".join(wrong)


def test_the_tables_have_more_than_ninety_commands() -> None:
    assert sum(len(list(read_table(path.read_text()))) for path in TABLES.glob("*.txt")) >= 90
