"""``plugbay checkpoint`` on golden files."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from plugbay.cli.main import run
from plugbay.kubelet.checkpoint import load

GOLDEN = Path(__file__).parents[2] / "golden" / "checkpoints"

Shown = pytest.CaptureFixture[str]


class FileOf:
    """Writes the file of a golden sample."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def __call__(self, name: str) -> str:
        path = self._directory / name
        path.write_text(json.loads((GOLDEN / f"{name}.json").read_text())["file_text"])
        return str(path)


@pytest.fixture
def file(tmp_path: Path) -> FileOf:
    return FileOf(tmp_path)


def test_show_has_entries_registered_devices_and_decoded_responses(file: FileOf, capsys: Shown) -> None:
    assert run(["checkpoint", "show", file("04-full-allocate-response")]) == 0
    assert capsys.readouterr().out == (
        "Checksum:  2411585033 (valid)\n"
        "\n"
        "POD         CONTAINER   RESOURCE        DEVICES\n"
        "pod-uid-1   c1          example.com/x   NUMA 0: dev1; NUMA 1: dev2\n"
        "\n"
        "REGISTERED RESOURCE   HEALTHY   DEVICES\n"
        "example.com/x         3         dev2,dev1,dev3\n"
        "\n"
        "Response for pod-uid-1 c1 example.com/x:\n"
        "  env VISIBLE=dev1,dev2\n"
        "  mount /usr/lib/x from /opt/x read-only\n"
        "  device /dev/x0 from /dev/x0 rw\n"
        "  annotation example.com/a=b\n"
        "  cdi example.com/x=dev1\n"
    )


def test_show_says_that_a_checksum_is_wrong(file: FileOf, capsys: Shown) -> None:
    assert run(["checkpoint", "show", file("80-seed-004")]) == 0
    assert capsys.readouterr().out.startswith("Checksum:  216033768 (invalid: the content's is 2703430300)\n")


def test_show_as_json_has_everything_decoded(file: FileOf, capsys: Shown) -> None:
    assert run(["checkpoint", "show", "-o", "json", file("04-full-allocate-response")]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "checksum": {"recorded": 2411585033, "computed": 2411585033, "valid": True},
        "podDeviceEntries": [
            {
                "podUID": "pod-uid-1",
                "containerName": "c1",
                "resourceName": "example.com/x",
                "deviceIDs": {"0": ["dev1"], "1": ["dev2"]},
                "allocResp": {
                    "envs": {"VISIBLE": "dev1,dev2"},
                    "mounts": [{"containerPath": "/usr/lib/x", "hostPath": "/opt/x", "readOnly": True}],
                    "devices": [{"containerPath": "/dev/x0", "hostPath": "/dev/x0", "permissions": "rw"}],
                    "annotations": {"example.com/a": "b"},
                    "cdiDevices": [{"name": "example.com/x=dev1"}],
                },
            }
        ],
        "registeredDevices": {"example.com/x": ["dev2", "dev1", "dev3"]},
    }


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.json")), ids=lambda path: path.stem)
def test_verify_agrees_with_the_kubelet(path: Path, file: FileOf, capsys: Shown) -> None:
    accepted = json.loads(path.read_text())["load_error"] is None
    assert run(["checkpoint", "verify", file(path.stem)]) == (0 if accepted else 1)
    shown = capsys.readouterr()
    assert ("valid, checksum " in shown.out) == accepted
    assert ("is corrupted: " in shown.err) != accepted


def test_verify_says_both_sums(file: FileOf, capsys: Shown) -> None:
    path = file("50-wrong-checksum")
    run(["checkpoint", "verify", path])
    assert capsys.readouterr().err == (
        f"plugbay: error: checkpoint {path} is corrupted: checksum is 3385543695, the content's is 3385543694\n"
    )


def test_standard_input_is_read(file: FileOf, capsys: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    content = Path(file("02-registered-only")).read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert run(["checkpoint", "verify", "-"]) == 0
    assert capsys.readouterr().out == "standard input: valid, checksum 3995635423, entries 0, resources 2\n"


def test_missing_file_is_one_sentence(tmp_path: Path, capsys: Shown) -> None:
    assert run(["checkpoint", "show", str(tmp_path / "none")]) == 1
    assert capsys.readouterr().err == f"plugbay: error: {tmp_path}/none: cannot be read: No such file or directory\n"


def test_convert_reads_the_old_format_and_nothing_else_does(file: FileOf, capsys: Shown) -> None:
    path = file("90-old-format")
    assert run(["checkpoint", "convert", path]) == 0
    data = load(capsys.readouterr().out.encode(), source="converted")
    assert [entry.device_ids for entry in data.pod_device_entries or ()] == [{0: ("dev1", "dev2")}, {0: ()}]
    for command in ("show", "verify"):
        assert run(["checkpoint", command, path]) == 1
        assert "the format of kubelet 1.19 and older" in capsys.readouterr().err


def test_convert_sorts_and_keeps_what_is_said(file: FileOf, tmp_path: Path, capsys: Shown) -> None:
    path, converted = file("08-several-pods-init-and-app-containers"), tmp_path / "converted"
    assert run(["checkpoint", "convert", path, "--to", str(converted)]) == 0
    data = load(converted.read_bytes(), source="converted")
    entries = data.pod_device_entries or ()
    assert [(entry.pod_uid, entry.container_name) for entry in entries] == [
        ("pod1", "app"), ("pod1", "app"), ("pod1", "init"), ("pod2", "app"),
    ]  # fmt: skip
    assert (data.registered_devices or {})["domain1.com/resource1"] == ("dev1", "dev2", "dev3", "dev4", "dev5")
    assert run(["checkpoint", "diff", path, str(converted)]) == 0
    assert capsys.readouterr() == ("", "")


def test_convert_repairs_a_checksum_only_when_told(file: FileOf, capsys: Shown) -> None:
    path = file("80-seed-004")
    assert run(["checkpoint", "convert", path]) == 1
    assert capsys.readouterr().out == ""
    assert run(["checkpoint", "convert", path, "--ignore-checksum"]) == 0
    assert len(load(capsys.readouterr().out.encode(), source="converted").pod_device_entries or ()) == 2


def test_diff_names_what_changed(file: FileOf, capsys: Shown, tmp_path: Path) -> None:
    before = file("04-full-allocate-response")
    after = str(tmp_path / "after")
    Path(after).write_text(
        Path(before).read_text().replace('"1":["dev2"]', '"1":["dev3"]').replace('["dev2","dev1",', "[")
    )
    assert run(["checkpoint", "diff", before, after]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("; env")[0] for line in lines] == [
        "- pod pod-uid-1 c1 example.com/x: devices NUMA 0: dev1; NUMA 1: dev2",
        "+ pod pod-uid-1 c1 example.com/x: devices NUMA 0: dev1; NUMA 1: dev3",
        "- registered example.com/x: dev1,dev2,dev3",
        "+ registered example.com/x: dev3",
    ]


def test_diff_that_cannot_compare_exits_like_diff(file: FileOf, capsys: Shown) -> None:
    assert run(["checkpoint", "diff", file("01-no-entries-no-resources"), file("54-truncated")]) == 2
    assert "is corrupted: it is not JSON" in capsys.readouterr().err
    assert run(["checkpoint", "diff", "-", "-"]) == 2


@pytest.mark.parametrize("content", ["null", "{}", '{"Entries": []}'])
def test_show_refuses_json_that_is_no_checkpoint(tmp_path: Path, capsys: Shown, content: str) -> None:
    path = tmp_path / "other"
    path.write_text(content)
    assert run(["checkpoint", "show", str(path)]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.endswith("it is JSON, but not a checkpoint: it has neither Data nor Checksum\n")


def test_show_refuses_a_list(tmp_path: Path, capsys: Shown) -> None:
    (tmp_path / "list").write_text("[]")
    assert run(["checkpoint", "show", str(tmp_path / "list")]) == 1
    assert "the document is a list, not an object" in capsys.readouterr().err


def test_diff_says_that_a_checksum_is_wrong_and_goes_on(file: FileOf, capsys: Shown) -> None:
    path = file("80-seed-004")
    assert run(["checkpoint", "diff", path, path]) == 0
    note = f"{path}: checksum is 216033768, the content's is 2703430300\n"
    assert capsys.readouterr() == ("", note + note)


def test_a_note_cannot_take_over_the_terminal(file: FileOf, tmp_path: Path, capsys: Shown) -> None:
    path = tmp_path / "\x1b[31m"
    path.write_bytes(Path(file("80-seed-004")).read_bytes())
    assert run(["checkpoint", "diff", str(path), str(path)]) == 0
    assert capsys.readouterr().err.startswith(f"{tmp_path}/\\x1b[31m: checksum is")


def test_a_fifo_without_a_writer_is_refused(tmp_path: Path, capsys: Shown) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert run(["checkpoint", "verify", str(tmp_path / "fifo")]) == 1
    assert capsys.readouterr().err.endswith("/fifo: cannot be read: it is a FIFO that no process writes to\n")


@pytest.mark.parametrize("delay", ["true", "sleep 0.3"], ids=["at once", "slow"])
def test_a_process_substitution_is_read(file: FileOf, delay: str) -> None:
    script = f"{sys.executable} -m plugbay checkpoint verify <({delay}; cat {file('02-registered-only')})"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "valid, checksum 3995635423" in done.stdout
