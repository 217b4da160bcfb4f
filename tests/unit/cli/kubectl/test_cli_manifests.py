"""What ``-f`` names, and that nothing is sent when any of it is wrong: no node is asked here."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest

from plugbay.cli.main import run
from plugbay.pods.static.reader import MAX_BYTES

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec: {containers: [{name: c, command: [env]%s}]}\n"


def dry_run(tmp_path: Path, *filenames: Path | str) -> int:
    given = [word for filename in filenames for word in ("-f", str(filename))]
    return run(["--root", str(tmp_path), "pod", "run", "--dry-run", "-o", "name", *given])


def test_a_directory_gives_its_manifests_sorted_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifests = tmp_path / "manifests"
    (manifests / "nested.yaml").mkdir(parents=True)
    (manifests / "nested.yaml" / "deep.yaml").write_text(POD % ("deep", ""))
    for filename, name in (("b.yaml", "second"), ("c.yml", "third"), ("a.json", "first"), ("d.txt", "never")):
        (manifests / filename).write_text(POD % (name, ""))
    assert dry_run(tmp_path, manifests) == 0
    assert capsys.readouterr().out == "pod/first\npod/second\npod/third\n"


def test_a_directory_without_manifests_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert dry_run(tmp_path, empty) == 1
    assert capsys.readouterr().err == (
        f"plugbay: error: {empty}: holds no manifest (recognized file extensions are .json, .yaml, .yml)\n"
    )


def test_several_documents_and_standard_input_give_their_pods_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    two = tmp_path / "two.yaml"
    two.write_text(POD % ("one", "") + "---\n" + POD % ("two", ""))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((POD % ("three", "")).encode())))
    assert dry_run(tmp_path, two, "-") == 0
    assert capsys.readouterr().out == "pod/one\npod/two\npod/three\n"


@pytest.mark.parametrize("command", ["run", "apply", "delete"])
def test_one_wrong_file_stops_the_others_before_a_node_is_asked(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.yaml").write_text(POD % ("good", ""))
    (tmp_path / "b.yaml").write_text(POD % ("Bad", ""))
    assert run(["--root", str(tmp_path), "pod", command, "-f", str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"plugbay: error: {tmp_path}/b.yaml:3: metadata.name: ")
    assert "no plugbay node answers" not in error


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("apply", 'a pod with generateName "web-" cannot be applied: its name is new each time; use pod run'),
        ("delete", 'a pod with generateName "web-" cannot be deleted by its manifest; name the pod itself'),
    ],
)
def test_a_generated_name_names_no_pod(
    command: str, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = tmp_path / "pod.yaml"
    manifest.write_text((POD % ("x", "")).replace("{name: x}", "{generateName: web-}"))
    assert run(["--root", str(tmp_path), "pod", command, "-f", str(manifest)]) == 2
    assert capsys.readouterr().err == f"plugbay: error: {sentence}\n"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_directory_that_cannot_be_read_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    assert dry_run(tmp_path, closed) == 1
    assert capsys.readouterr().err == f"plugbay: error: {closed}: cannot be read: Permission denied\n"


@pytest.mark.parametrize(
    ("content", "problem"),
    [(None, "cannot be read: No such file or directory"), (b"\xff\xfe\x00", "is not UTF-8 text")],
    ids=["missing", "not text"],
)
def test_a_file_that_cannot_be_read_is_named(
    content: bytes | None, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = tmp_path / "pod.yaml"
    if content is not None:
        manifest.write_bytes(content)
    assert run(["--root", str(tmp_path), "pod", "run", "-f", str(manifest)]) == 1
    assert capsys.readouterr().err == f"plugbay: error: {manifest}: {problem}\n"


@pytest.mark.parametrize("command", ["run", "apply", "delete"])
def test_a_manifest_without_an_end_is_refused(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["pod", command, "-f", "/dev/zero"]) == 1
    assert capsys.readouterr().err == "plugbay: error: /dev/zero: cannot be read: it is larger than 10 MiB\n"


def test_standard_input_without_an_end_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with open("/dev/zero") as zeros:
        monkeypatch.setattr(sys, "stdin", zeros)
        assert run(["pod", "apply", "-f", "-"]) == 1
    assert capsys.readouterr().err == "plugbay: error: standard input: cannot be read: it is larger than 10 MiB\n"


@pytest.mark.parametrize(
    ("size", "problem"),
    [(MAX_BYTES, "is not UTF-8 text"), (MAX_BYTES + 1, "cannot be read: it is larger than 10 MiB")],
    ids=["largest", "too large"],
)
def test_a_manifest_is_read_up_to_10_mib_to_the_byte(
    size: int, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = tmp_path / "pod.yaml"
    manifest.write_bytes(b"\xff" * size)
    assert dry_run(tmp_path, manifest) == 1
    assert capsys.readouterr().err == f"plugbay: error: {manifest}: {problem}\n"
