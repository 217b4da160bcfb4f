"""Every `plugbay` command that the documentation, the examples and the help pages show is one that there is."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from plugbay.cli.arguments.parser import CommandParser
from plugbay.cli.main import make_parser
from tests.test_docs import ALL

REPOSITORY: Final = Path(__file__).parents[1]
EXAMPLES: Final = [path for pattern in ("*.py", "*.yaml") for path in sorted(REPOSITORY.glob(f"examples/**/{pattern}"))]
PAGES: Final = [REPOSITORY / "README.md", *sorted(REPOSITORY.glob("docs/*.md"))]

SHOWN: Final = re.compile(r"#   (?P<command>plugbay .*)")
QUOTED: Final = re.compile(r"`(?P<command>plugbay [^`]*)`")
SUBSTITUTED: Final = re.compile(r"\$\([^)]*\)")
"""What a shell puts in place, such as the host's name."""
WORDS: Final = re.compile(r"\bR\b|[|…\[]|\b[A-Z]{3,}\b")
"""In running text, what stands for something else: not a command that could be typed."""


def in_blocks() -> Iterator[tuple[str, str]]:
    for block in ALL:
        if block.language == "sh":
            for number, line in enumerate(block.text.splitlines(), start=block.line):
                if line.startswith("plugbay "):
                    yield f"{block.page}:{number}", line


def in_text() -> Iterator[tuple[str, str]]:
    for path in PAGES:
        for match in QUOTED.finditer(path.read_text(encoding="utf-8").replace("\n", " ")):
            if not WORDS.search(match["command"]):
                yield path.name, match["command"]


def in_examples() -> Iterator[tuple[str, str]]:
    for path in EXAMPLES:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            if shown := SHOWN.match(line):
                yield f"{path.relative_to(REPOSITORY)}:{number}", shown["command"]


def in_help(parser: CommandParser) -> Iterator[tuple[str, str]]:
    yield from ((parser.prog, line.partition(" && ")[2] or line) for line in parser.examples)
    for command in parser.commands.values():
        yield from in_help(command)


def quick_starts() -> Iterator[tuple[str, list[str]]]:
    """The commands of each place that shows plugins together with a node or its pods."""
    places = [(f"{block.page}:{block.line}", block.text.splitlines()) for block in ALL if block.language == "sh"]
    for path in EXAMPLES:
        shown = (SHOWN.match(line) for line in path.read_text(encoding="utf-8").splitlines())
        places.append((str(path.relative_to(REPOSITORY)), [match["command"] for match in shown if match]))
    for template in sorted((REPOSITORY / "src/plugbay/cli/templates").glob("README*")):
        places.append((template.name, template.read_text(encoding="utf-8").splitlines()))
    places.append(("plugbay --help", list(make_parser().examples)))
    for where, lines in places:
        if any(re.match(r"plugbay (--root \S+ )?(node up|pod) ", f"{line} ") for line in lines):
            yield where, [line for line in lines if line.startswith("plugbay serve ")]


COMPLETE: Final = [*in_blocks(), *in_examples(), *in_help(make_parser())]
MENTIONED: Final = [*in_text()]


@pytest.mark.parametrize(("where", "line"), COMPLETE, ids=[f"{where} {line}" for where, line in COMPLETE])
def test_command_that_is_shown_can_be_typed(where: str, line: str) -> None:
    words = shlex.split(SUBSTITUTED.sub("n1", line.removesuffix(" &")), comments=True)
    after_pipe = words.index("|") + 1 if "|" in words else 0
    make_parser().parse_args([word for word in words[after_pipe + 1 :] if word != "&"])


@pytest.mark.parametrize(("where", "command"), MENTIONED, ids=[f"{where} {command}" for where, command in MENTIONED])
def test_command_that_is_mentioned_exists(where: str, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    code: object = 0
    try:
        make_parser().parse_args(shlex.split(command)[1:])
    except SystemExit as end:
        code = end.code
    left_out = re.search(" (is|are) missing\n| wants a value\n", capsys.readouterr().err)
    assert not code or left_out, "more than something left out"


def test_quick_start_says_which_kubelet_is_meant() -> None:
    """It is typed on machines that have a kubelet too."""
    served = [(where, line) for where, lines in quick_starts() for line in lines]
    assert {"README.md", "examples", "plugbay --help"} <= {re.split("[:/]", where)[0] for where, _ in served}
    assert [(where, line) for where, line in served if not re.search(" --(node|root) ", line)] == []
