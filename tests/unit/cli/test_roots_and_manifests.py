"""The root that a command is for, and manifests before they are sent to a node."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest

from plugbay.cli.main import run


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
