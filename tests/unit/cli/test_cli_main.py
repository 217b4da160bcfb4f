"""The command line as it is typed: arguments, help and usage errors. No node is asked."""

from __future__ import annotations

import argparse
import json
import re
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from plugbay.cli.arguments.options import duration_s
from plugbay.cli.arguments.parser import CommandParser
from plugbay.cli.commands import COMMANDS, Command
from plugbay.cli.main import make_parser, run
from plugbay.cli.printing.outcome import outcome
from tests.unit.cli.misuse import misuse

HEAVY = ("grpc", "yaml", "msgspec", "asyncio", "http.client")


def commands(parser: CommandParser) -> Iterator[tuple[str, ...]]:
    """All there are, and what they are below."""
    yield tuple(parser.prog.split()[1:])
    for below in parser.commands.values():
        yield from commands(below)


@pytest.mark.parametrize("command", list(commands(make_parser())), ids=" ".join)
def test_every_command_has_help(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run([*command, "--help"])
    assert caught.value.code == 0
    usage, description, *_ = capsys.readouterr().out.split("\n\n")
    assert usage.startswith(f"usage: {' '.join(['plugbay', *command])}")
    assert description[0].isupper(), "a sentence that says what the command does"
    assert description.endswith(".")


@pytest.mark.parametrize("argv", [["--help"], ["pod", "get", "--help"]], ids=" ".join)
def test_help_imports_nothing_heavy(argv: list[str]) -> None:
    code = (
        "import sys\n"
        "from plugbay.cli.main import run\n"
        "try:\n"
        "    run(sys.argv[1:])\n"
        "except SystemExit:\n"
        f"    print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, *argv], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"


@pytest.mark.parametrize(
    ("argv", "imported"),
    [
        (["--help"], set()),
        (["pod", "--help"], set()),
        (["pod", "gte"], set()),
        (["pod", "get", "--help"], {"plugbay.cli.pod.get"}),
        (["new", "--help"], {"plugbay.cli.plugins.new"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_only_the_module_of_the_command_that_is_meant_is_imported(argv: list[str], imported: set[str]) -> None:
    modules = sorted({entry.place.partition(":")[0] for entry in COMMANDS.values() if isinstance(entry, Command)})
    code = (
        "import sys\n"
        "from plugbay.cli.main import run\n"
        "try:\n"
        "    run(sys.argv[1:])\n"
        "except SystemExit:\n"
        f"    print(*[name for name in {modules} if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code, *argv], capture_output=True, text=True, check=True)
    assert set(done.stdout.splitlines()[-1].split()) == imported


@pytest.mark.parametrize(("closed", "said"), [("<&-", True), (">&-", True), ("2>&-", False)])
def test_a_closed_standard_stream_is_refused(tmp_path: Path, closed: str, said: bool) -> None:
    command = [sys.executable, "-m", "plugbay", "--root", str(tmp_path), "pod", "get"]
    shell = ["sh", "-c", f'exec "$@" {closed}', "sh"]
    done = subprocess.run([*shell, *command], check=False, capture_output=True, text=True)
    sentence = "plugbay: error: a standard stream is closed; redirect it to /dev/null instead\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", sentence if said else "")


def test_a_template_that_is_nested_too_deep_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    template = "{range .a}" * 5000 + "{end}" * 5000
    assert run(["--root", str(tmp_path), "pod", "get", "-o", f"jsonpath={template}"]) == 1
    assert capsys.readouterr().err == "plugbay: error: the input is nested too deep\n"


def test_a_time_that_the_system_cannot_wait_for_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    def wait(args: argparse.Namespace) -> int:
        return len(select.poll().poll(args.timeout * 1000))

    assert outcome(lambda: argparse.Namespace(run=wait, timeout=duration_s("999999999h"))) == 1
    assert capsys.readouterr().err.startswith("plugbay: error: a number is too large: ")


def test_file_that_cannot_be_used_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = 300 * "x"
    assert run(["--root", str(tmp_path), "pod", "run", "-f", name, "--dry-run"]) == 1
    assert capsys.readouterr().err == f"plugbay: error: {name}: File name too long\n"


def test_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith("plugbay 0.")


@pytest.mark.parametrize("command", [("node", "up"), ("serve", "directory"), ("podresources",), ("pod", "get")])
def test_an_empty_root_is_not_the_working_directory(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert "argument --root: wants a directory, found ''" in misuse(capsys, *command, "--root", "")
    assert "argument --root: wants a directory, found ''" in misuse(capsys, "--root=", *command)


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["node", "up", "--manifests", ""], "argument --manifests: wants a path, found ''"),
        (["serve", "--config", ""], "argument --config: wants a path, found ''"),
        (["new", "gopher", "--directory", ""], "argument --directory: wants a path, found ''"),
        (["cni", "status", "--conf-dir", ""], "argument --conf-dir: wants a path, found ''"),
        (["cdi", "list", "--spec-dir", ""], "argument --spec-dir: wants a path, found ''"),
        (["pod", "apply", "-f", ""], "argument -f/--filename: wants a file, found ''"),
        (["pod", "delete", ""], "argument NAME: wants a name, found ''"),
        (["pod", "wait", "--for=delete", ""], "argument NAME: wants a name, found ''"),
        (["pod", "get", "-n", ""], "argument -n/--namespace: wants a name, found ''"),
        (["pod", "apply", "-f", "x", "-n", ""], "argument -n/--namespace: wants a name, found ''"),
        (["node", "drain", ""], "argument NAME: wants a name, found ''"),
        (["pod", "get", "-l", ""], "argument -l/--selector: wants a selector, found ''"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_empty_means_neither_the_working_directory_nor_everything(
    argv: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sentence in misuse(capsys, *argv)


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["events", "--for", "web"], "argument --for: wants pod/NAME or node/NAME, found 'web'"),
        (
            ["pod", "wait", "--for=delete", "job/web"],
            "argument NAME: takes pods only, such as pod/NAME, found 'job/web'",
        ),
        (
            ["pod", "delete", "a/b", "--ignore-not-found"],
            "argument NAME: takes pods only, such as pod/NAME, found 'a/b'",
        ),
        (["node", "get", "pod/n1"], "argument NAME: takes nodes only, such as node/NAME, found 'pod/n1'"),
        (
            ["pod", "apply", "-f", "https://example.com/pod.yaml"],
            "argument -f/--filename: wants a file, and https://example.com/pod.yaml is an address: fetch it with curl, "
            "and give the file, or - for standard input",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_no_name_is_told_before_a_node_is_asked(
    argv: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert misuse(capsys, *argv).splitlines()[0] == f"plugbay: error: {sentence}"


@pytest.mark.parametrize("option", ["--dry-run", "--dry-run=client"])
def test_an_option_with_a_value_may_stand_alone_before_a_name(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["--root", str(tmp_path), "pod", "run", option, "web", "--", "env"]) == 0
    assert capsys.readouterr().out == "pod/web created (dry run)\n"
    assert make_parser().parse_args(["pod", "delete", "--wait", "web"]).names == ["web"]


def test_no_dry_run_asks_the_node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--root", str(tmp_path), "pod", "run", "--dry-run=none", "web", "--", "env"]) == 1
    assert "no plugbay node answers" in capsys.readouterr().err


@pytest.mark.parametrize("namespace", ["x y", "Lab", "-", "a.b", "x" * 64])
@pytest.mark.parametrize("argv", [["pod", "apply", "-f", "x"], ["pod", "get"], ["events"]], ids=" ".join)
def test_a_namespace_that_cannot_be_is_refused_before_anything_is_read(
    argv: list[str], namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert misuse(capsys, *argv, "-n", namespace).splitlines()[0] == (
        "plugbay: error: argument -n/--namespace: wants a namespace, 1 to 63 lower-case letters, digits and - such as "
        f"default, found {namespace!r}"
    )


def test_an_unknown_command_is_answered_with_a_close_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert misuse(capsys, "nod") == (
        'plugbay: error: unknown command "nod" for "plugbay"; did you mean "node"?\nSee \'plugbay --help\' for usage.\n'
    )
    assert 'unknown command "gte" for "plugbay pod"; did you mean "get"?' in misuse(capsys, "pod", "gte")


@pytest.mark.parametrize(
    ("argv", "hint"),
    [
        (["get", "pods"], 'did you mean "plugbay pod get"?'),
        (["get", "node/n1"], 'did you mean "plugbay node get"?'),
        (["get", "events"], 'did you mean "plugbay events"?'),
        (["describe", "nodes"], 'did you mean "plugbay node describe"?'),
        (["logs", "web"], 'did you mean "plugbay pod logs"?'),
        (["exec", "web", "--", "sh"], 'did you mean "plugbay pod exec"?'),
        (["apply", "-f", "x"], 'did you mean "plugbay pod apply"?'),
        (["run", "web"], 'did you mean "plugbay pod run"?'),
        (["ps"], 'did you mean "plugbay pod get"?'),
        (["drain", "n1"], 'did you mean "plugbay node drain"?'),
        (["api-resources"], "there are pods, nodes and events: see plugbay pod, plugbay node and plugbay events"),
        (["pod", "edit", "web"], "change the manifest, then: plugbay pod apply -f FILE"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_command_of_kubectls_is_answered_with_ours(
    argv: list[str], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert misuse(capsys, *argv).splitlines()[0].partition("; ")[2] == hint


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["pod", "ls"], "get"),
        (["pod", "ps"], "get"),
        (["po", "list"], "get"),
        (["pod", "rm", "web"], "delete"),
        (["pods", "inspect"], "describe"),
        (["pod", "log", "web"], "logs"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_people_type_instead_is_taken(argv: list[str], named: str) -> None:
    args = make_parser().parse_args(argv)
    assert (args.command_name, args.pod_command) == ("pod", named)


def test_other_names_of_commands_stand_in_no_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["help", "pod"]) == 0
    assert not re.search(r"\b(ls|rm|ps)\b", capsys.readouterr().out)


@pytest.mark.parametrize("argv", [[], ["pod"], ["node"], ["cdi"], ["cni"], ["checkpoint"]], ids=" ".join)
def test_a_command_that_wants_another_one_shows_its_help(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run(argv)
    assert not caught.value.code
    assert capsys.readouterr().out == make_help(argv)


@pytest.mark.parametrize("argv", [[], ["pod"], ["pod", "get"], ["node", "up"]], ids=" ".join)
def test_help_is_a_command_too(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["help", *argv]) == 0
    assert capsys.readouterr().out == make_help(argv)


def make_help(argv: list[str]) -> str:
    parser = make_parser()
    for word in argv:
        parser = parser.command(word)
    return parser.format_help()


def test_help_of_no_command_is_misuse(capsys: pytest.CaptureFixture[str]) -> None:
    assert 'unknown command "gte" for "plugbay pod"; did you mean "get"?' in misuse(capsys, "help", "pod", "gte")


def test_the_version_is_told_to_programs_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["version"]) == 0
    line = capsys.readouterr().out
    assert run(["version", "-o", "json"]) == 0
    about = json.loads(capsys.readouterr().out)
    assert f"plugbay {about['version']}\n" == line
    assert about["python"] == ".".join(map(str, sys.version_info[:3]))


@pytest.mark.parametrize(
    ("words", "root", "left"),
    [
        ("get nodes", None, "get nodes"),
        ("--root /r get nodes -o wide", "/r", "get nodes -o wide"),
        ("--root=/r get pods --help", "/r", "get pods --help"),
        ("get --root /r", None, "get --root /r"),
        ("--help get", None, "--help get"),
        ("--kubeconfig x --root /r", None, "--kubeconfig x --root /r"),
    ],
)
def test_words_before_those_of_kubectl_name_the_root(words: str, root: str | None, left: str) -> None:
    args = make_parser().parse_args(["kubectl", *words.split()])
    assert (args.root and str(args.root), args.command) == (root, left.split())
