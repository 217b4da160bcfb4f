"""Arguments that make no sense, in our words, with exit code 2."""

from __future__ import annotations

from pathlib import Path

import pytest

from plugbay.cli.main import make_parser, run
from tests.unit.cli.misuse import misuse


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
