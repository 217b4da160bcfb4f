"""The command line as it is typed: arguments, help and usage errors. No node is asked."""

from __future__ import annotations

import argparse
import json
import os
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

HEAVY = ("grpc", "yaml", "msgspec", "asyncio", "http.client")


def commands(parser: CommandParser) -> Iterator[tuple[str, ...]]:
    """All there are, and what they are below."""
    yield tuple(parser.prog.split()[1:])
    for below in parser.commands.values():
        yield from commands(below)


def misuse(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """What a usage error says; its exit code is 2."""
    with pytest.raises(SystemExit) as caught:
        run(argv)
    assert caught.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    return printed.err


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
    ("argv", "sentence"),
    [
        (["pod", "delete", "a", "--force=3"], "--force takes no value, found '3'"),
        (["pod", "get", "-o"], "-o/--output wants a value"),
        (["node", "drain"], "NAME is missing"),
        (["cdi", "inject"], "FILE, NAME are missing"),
        (["pod", "wait", "web"], "--for is missing"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_left_out_or_too_much_is_told_in_our_words(
    argv: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert misuse(capsys, *argv).splitlines()[0] == f"plugbay: error: {sentence}"


def test_an_unknown_command_that_is_close_to_none_is_answered_with_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert "choose from run, apply, get, describe, wait, exec, logs, delete" in misuse(capsys, "pod", "xyzzy")


def test_a_misspelt_form_of_output_is_answered_with_a_close_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert '-o/--output: "jsno" is not known; did you mean "json"?' in misuse(capsys, "pod", "get", "-o", "jsno")


def test_options_are_not_abbreviated(capsys: pytest.CaptureFixture[str]) -> None:
    assert "unknown option --wat" in misuse(capsys, "pod", "get", "--wat")


@pytest.mark.parametrize(
    ("argv", "sentence", "help_of"),
    [
        (["pod", "run", "--nmae", "x"], "unknown option --nmae", "plugbay pod run"),
        (["node", "up", "n1"], 'unexpected argument "n1"', "plugbay node up"),
        (
            ["pod", "exec", "web", "env"],
            'unexpected argument "env"; what a container runs comes after --: plugbay pod exec web -- env',
            "plugbay pod exec",
        ),
        (["pod", "get", "--namspace=x"], 'unknown option --namspace; did you mean "--namespace"?', "plugbay pod get"),
        (["serve", "p.py", "--rout", "both"], 'unknown option --rout; did you mean "--route"?', "plugbay serve"),
        (["node", "up", "-x"], "unknown option -x", "plugbay node up"),
        (["--rot=/x", "pod", "get"], 'unknown option --rot; did you mean "--root"?', "plugbay"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_unknown_argument_is_answered_with_a_close_one_and_its_commands_help(
    argv: list[str], sentence: str, help_of: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert misuse(capsys, *argv) == f"plugbay: error: {sentence}\nSee '{help_of} --help' for usage.\n"


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["pod", "run"], "say what to run: -f FILE, or NAME -- CMD"),
        (["pod", "run", "a"], "say which command pod a runs, after --, or which image"),
        (["pod", "run", "a", "-f", "x"], "-f takes everything from the manifest; NAME (a) cannot be added"),
        (["pod", "run", "-f", "x", "--", "env"], "-f takes everything from the manifest; -- CMD cannot be added"),
        (["pod", "run", "a", "--env", "A", "--", "env"], "--env wants K=V, found 'A'"),
        (["pod", "run", "a", "--resource", "=1", "--", "env"], "--resource wants R=N, found '=1'"),
        (["pod", "exec", "a"], "say which command to run after --, such as: plugbay pod exec NAME -- env"),
        (["pod", "logs", "a", "--since=-5s"], "--since cannot be below zero"),
        (["pod", "delete"], "name the pods to delete, or say --all, -l SELECTOR or -f FILE"),
        (
            ["pod", "delete", "--all", "a"],
            "name the pods to delete, or say --all, -l SELECTOR or -f FILE: one of the four",
        ),
        (
            ["pod", "delete", "-f", "x", "-l", "a"],
            "name the pods to delete, or say --all, -l SELECTOR or -f FILE: one of the four",
        ),
        (["pod", "wait", "--for=delete"], "name the pods to wait for, or say --all or -l SELECTOR"),
        (
            ["pod", "wait", "--for=delete", "--all", "a"],
            "name the pods to wait for, or say --all or -l SELECTOR: one of the three",
        ),
        (["pod", "get", "-l", "a", "b"], "name the pods or say -l, not both"),
        (["pod", "get", "-o", "jsonpath"], "-o jsonpath= wants a template such as {.items[*].metadata.name}"),
        (["pod", "get", "-o", "jsonpath={end}"], "-o jsonpath: '{end}' has an {end} without a {range}"),
        (["pod", "describe", "-l", "a", "b"], "name the pods or say -l, not both"),
        (
            ["pod", "get", "-l", "app=web="],
            "'app=web=' is not a label selector such as app=web,tier!=test: "
            "it wants a comma or the end where it has '='",
        ),
        (
            ["pod", "wait", "--for=ready", "a"],
            "--for wants condition=NAME[=STATUS], delete or jsonpath='{.PATH}'[=VALUE], found 'ready'",
        ),
        (["node", "up", "--feature-gates", "a,b"], "--feature-gates a,b: malformed pair, expect string=bool"),
        (["node", "up", "--release-wait", "-1m"], "--release-wait cannot be below zero"),
        (["serve", "plugins.yaml"], "plugins.yaml looks like a config file; give it with --config"),
        (
            ["pod", "run", "a", "--dry-run=server", "--", "env"],
            "--dry-run=server: the node cannot check without creating; --dry-run=client checks here",
        ),
        (["pod", "exec", "-t", "a", "--", "env"], "-t gives the command a terminal only together with -i: say -it"),
        (["pod", "logs", "a", "b", "-c", "c"], "name the container once: b, or --container=c"),
        (["pod", "get", "a", "-A"], "a name means a pod of one namespace: say -n NS with it, not -A"),
        (["pod", "describe", "a", "-A"], "a name means a pod of one namespace: say -n NS with it, not -A"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_arguments_that_make_no_sense_are_usage_errors(
    argv: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["--root", str(tmp_path), *argv]) == 2
    assert capsys.readouterr().err == f"plugbay: error: {sentence}\n"


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["node", "up", "--max-pods", "-1"], "argument --max-pods: wants a whole number, 0 or more, found '-1'"),
        (["pod", "logs", "a", "--tail", "-2"], "argument --tail: wants a whole number, -1 or more, found '-2'"),
        (["pod", "logs", "a", "--tail", "ten"], "argument --tail: wants a whole number, -1 or more, found 'ten'"),
        (["pod", "delete", "a", "--grace-period", "x"], "argument --grace-period: wants a whole number, found 'x'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_numbers_that_make_no_sense_are_named(
    argv: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sentence in misuse(capsys, *argv)


def test_a_negative_time_is_a_value_and_no_option() -> None:
    assert make_parser().parse_args(["pod", "wait", "a", "--for=delete", "--timeout", "-1s"]).timeout == -1


def test_what_follows_the_dashes_is_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["sh", "-c", "exit 3", "--", "--help", "-o", "name"]
    argv = ["pod", "run", "p", "--resource", "example.com/gopher=2", "--env", "A=b=c", "--restart", "Never"]
    assert run(["--root", str(tmp_path), *argv, "--dry-run", "-o", "json", "--", *command]) == 0
    pod = json.loads(capsys.readouterr().out)
    (container,) = pod["spec"]["containers"]
    assert container["command"] == command
    assert container["env"] == [{"name": "A", "value": "b=c"}]
    assert container["resources"]["limits"] == {"example.com/gopher": "2"}
    assert pod["spec"]["restartPolicy"] == "Never"
    assert pod["metadata"]["labels"] == {"run": "p"}


@pytest.mark.parametrize("place", ["before", "after"])
def test_the_root_may_stand_before_the_command_or_after_it(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PLUGBAY_ROOT", str(tmp_path / "elsewhere"))
    root = ["--root", str(tmp_path)]
    assert run([*root, "pod", "get"] if place == "before" else ["pod", "get", *root]) == 1
    assert str(tmp_path / "plugbay.sock") in capsys.readouterr().err


def test_the_root_may_stand_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PLUGBAY_ROOT", str(tmp_path))
    assert run(["node", "get"]) == 1
    assert capsys.readouterr().err == (
        f"plugbay: error: no plugbay node answers at {tmp_path}/plugbay.sock (there is no such socket); "
        "start one with: plugbay node up\n"
    )


def test_a_hint_names_the_root_that_was_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "a b"
    assert run(["--root", str(root), "node", "get"]) == 1
    assert capsys.readouterr().err.endswith(f"; start one with: plugbay node up --root '{root}'\n")


# --- manifests -----------------------------------------------------------------------------------------------------

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p%s}\nspec: {containers: [{name: c, command: [env]%s}]}\n"


@pytest.mark.parametrize(
    "argv",
    [("pod", "run", "--dry-run", "-f"), ("serve", "--dry-run", "--config"), ("cni", "validate")],
    ids=" ".join,
)
def test_a_fifo_without_a_writer_is_refused_at_once(
    argv: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert run([*argv, str(tmp_path / "fifo")]) != 0
    assert capsys.readouterr().err.endswith("/fifo: cannot be read: it is a FIFO that no process writes to\n")


@pytest.mark.parametrize(
    "argv",
    [
        ("serve", "--dry-run", "--config"),
        ("cni", "validate"),
        ("cdi", "validate"),
        ("checkpoint", "show"),
        ("checkpoint", "show", "-"),
    ],
    ids=" ".join,
)
def test_a_file_without_end_is_refused(
    argv: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with open("/dev/zero", encoding="utf-8") as zeros:
        monkeypatch.setattr(sys, "stdin", zeros)
        assert run([*argv, *([] if "-" in argv else ["/dev/zero"])]) != 0
    assert re.search("is larger than 64 MiB\n|is a FIFO or a device, not a file\n", capsys.readouterr().err)


def test_a_node_is_not_kept_by_a_single_manifest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pod.yaml").touch()
    assert run(["--root", str(tmp_path), "node", "up", "--manifests", str(tmp_path / "pod.yaml")]) == 1
    assert capsys.readouterr().err == f"plugbay: error: {tmp_path}/pod.yaml: is not a directory\n"


def test_all_that_is_wrong_with_all_manifests_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad, worse = tmp_path / "bad.yaml", tmp_path / "worse.yaml"
    bad.write_text(POD % ("", ", wrong: 1"))
    worse.write_text(POD % ("", "".join(f", wrong{number}: 1" for number in range(12))))
    assert run(["--root", str(tmp_path), "pod", "run", "-f", str(bad), "-f", str(worse)]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 13
    assert lines[0].startswith(f"plugbay: error: {bad}:4: spec.containers[0].wrong: ")
    assert all(line.startswith(f"plugbay: error: {worse}:4: ") for line in lines[1:])


def test_lenient_warns_and_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = tmp_path / "pod.yaml"
    manifest.write_text(POD % ("", ", wrong: 1"))
    assert run(["--root", str(tmp_path), "pod", "run", "-f", str(manifest), "--lenient", "--dry-run"]) == 0
    printed = capsys.readouterr()
    assert printed.out == "pod/p created (dry run)\n"
    assert printed.err.startswith(f"warning: {manifest}:4: spec.containers[0].wrong: ")


def test_the_namespace_counts_for_a_pod_that_names_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = tmp_path / "pod.yaml"
    manifest.write_text(POD % ("", ""))
    argv = ["--root", str(tmp_path), "pod", "run", "-f", str(manifest), "--dry-run"]
    assert run([*argv, "-n", "lab", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["metadata"]["namespace"] == "lab"
    manifest.write_text(POD % (", namespace: office", ""))
    assert run([*argv, "-n", "lab"]) == 2
    assert "pod p is of namespace office, and --namespace says lab" in capsys.readouterr().err


def test_the_command_line_is_checked_like_a_manifest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["pod", "run", "Bad", "--resource", "example.com/gopher=1.5", "--", "env"]
    assert run(["--root", str(tmp_path), *argv]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("plugbay: error: pod/Bad: ")
    assert any("metadata.name" in line for line in lines)
    assert any("example.com/gopher" in line for line in lines)
