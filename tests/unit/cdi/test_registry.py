"""Spec directories: priorities, conflicts, bad files among good ones."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from plugbay.cdi.directories import default_directories, replacing, save, scan, spec_name
from plugbay.cdi.names import parse_qualified_name
from plugbay.cdi.registry import Registry
from plugbay.cdi.spec import Edits, Spec, SpecDevice
from plugbay.errors import PathUnusable, UnresolvableCdiDevices


def put(directory: Path, name: str, *devices: str, env: str = "FILE=1", kind: str = "v/c") -> Path:
    directory.mkdir(exist_ok=True)
    path = directory / name
    value = {
        "cdiVersion": "0.3.0",
        "kind": kind,
        "containerEdits": {"env": [env]},
        "devices": [{"name": each, "containerEdits": {"env": [f"{each}={directory.name}/{name}"]}} for each in devices],
    }
    path.write_text(json.dumps(value))
    return path


def defined(registry: Registry) -> dict[str, str]:
    return {str(name): Path(entry.file.path).name for name, entry in registry.devices.items()}


def env(registry: Registry, *names: str) -> tuple[str, ...]:
    return registry.edits([parse_qualified_name(name) for name in names]).env


def test_the_strongest_directory_wins_device_by_device(tmp_path: Path) -> None:
    put(tmp_path / "low", "x.json", "a", "b")
    put(tmp_path / "high", "y.yaml", "b")
    assert defined(scan([tmp_path / "low", tmp_path / "high"])) == {"v/c=a": "x.json", "v/c=b": "y.yaml"}


def test_two_files_of_one_directory_spoil_what_both_define(tmp_path: Path) -> None:
    one = put(tmp_path / "low", "1.json", "a", "b")
    two = put(tmp_path / "low", "2.json", "b", "c")
    found = scan([tmp_path / "low"])
    assert sorted(defined(found)) == ["v/c=a", "v/c=c"]
    assert set(found.problems) == {str(one), str(two)}
    assert 'conflicting device "v/c=b"' in str(found.problems[str(one)][0])


def test_a_conflict_below_spoils_what_is_defined_above(tmp_path: Path) -> None:
    put(tmp_path / "low", "1.json", "a")
    put(tmp_path / "low", "2.json", "a")
    put(tmp_path / "high", "3.json", "a", "b")
    assert defined(scan([tmp_path / "low", tmp_path / "high"])) == {"v/c=b": "3.json"}


def test_only_spec_files_right_in_the_directory_count(tmp_path: Path) -> None:
    put(tmp_path / "d", "a.json", "a")
    put(tmp_path / "d", ".yaml", "hidden")
    put(tmp_path / "d", "b.yml", "b")
    put(tmp_path / "d", "c.JSON", "c")
    put(tmp_path / "d", "spec.123.tmp", "d")
    put(tmp_path / "d" / "sub", "e.json", "e")
    (tmp_path / "d" / "f.json").mkdir()
    assert defined(scan([tmp_path / "d", tmp_path / "missing"])) == {"v/c=a": "a.json", "v/c=hidden": ".yaml"}


def test_a_bad_file_harms_no_other(tmp_path: Path) -> None:
    put(tmp_path / "d", "good.json", "a")
    for name, content in (("cut.json", b'{"kind": '), ("bytes.yaml", b"\xff\xfe"), ("empty.yaml", b"")):
        (tmp_path / "d" / name).write_bytes(content)
    (tmp_path / "d" / "dangling.json").symlink_to("nowhere")
    found = scan([tmp_path / "d"])
    assert defined(found) == {"v/c=a": "good.json"}
    assert {Path(path).name for path in found.problems} == {"cut.json", "bytes.yaml", "empty.yaml", "dangling.json"}


def test_a_directory_that_cannot_be_listed_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PathUnusable, match="cannot be listed"):
        scan([tmp_path / "file"])


def test_a_files_own_edits_come_once_before_its_first_device(tmp_path: Path) -> None:
    put(tmp_path / "d", "1.json", "a", "b", env="ONE=1")
    put(tmp_path / "d", "2.json", "z", env="TWO=1", kind="v/d")
    found = scan([tmp_path / "d"])
    assert env(found, "v/c=b", "v/d=z", "v/c=a", "v/c=b") == (
        "ONE=1",
        "b=d/1.json",
        "TWO=1",
        "z=d/2.json",
        "a=d/1.json",
        "b=d/1.json",
    )


def test_unknown_devices_are_all_named(tmp_path: Path) -> None:
    put(tmp_path / "d", "1.json", "a")
    with pytest.raises(
        UnresolvableCdiDevices, match=r"^unresolvable CDI devices v/c=x, w/c=a \(looked in .*/d, .*/e\)$"
    ):
        env(scan([tmp_path / "d", tmp_path / "e"]), "v/c=x", "v/c=a", "w/c=a")


def test_a_saved_spec_is_found(tmp_path: Path) -> None:
    spec = Spec("0.3.0", "v/c", devices=(SpecDevice("a", edits=Edits(env=("A=1",))),))
    path = save(spec, tmp_path / "run" / "cdi", spec_name("v", "c", transient_id="pod/1"))
    assert path.name == "v-c_pod_1.json"
    assert path.stat().st_mode & 0o777 == 0o644
    assert [each.name for each in path.parent.iterdir()] == [path.name], "no temporary file stays"
    assert scan([path.parent]).devices[parse_qualified_name("v/c=a")].file.spec == spec


def test_content_and_name_are_synced_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    fsync, replace = os.fsync, os.replace

    def recorded_fsync(descriptor: int) -> None:
        found = os.fstat(descriptor)
        steps.append("directory" if stat.S_ISDIR(found.st_mode) else f"content of {found.st_size} bytes")
        fsync(descriptor)

    def recorded_replace(source: str, target: Path) -> None:
        steps.append("rename")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", recorded_fsync)
    monkeypatch.setattr(os, "replace", recorded_replace)
    with replacing(tmp_path / "v-c.json") as file:
        file.write("whole")
    assert steps == ["content of 5 bytes", "rename", "directory"]


def test_what_is_given_up_leaves_the_old_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "v-c.json"
    path.write_text("old")
    with pytest.raises(UnicodeEncodeError), replacing(path) as file:
        file.write("new, and no text: \ud800")
    assert path.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PathUnusable, match="cannot be written"):
        save(Spec(), tmp_path / "file" / "cdi", "x")


def test_a_file_in_place_of_the_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PathUnusable, match=r"/file: is not a directory$"):
        save(Spec(), tmp_path / "file", "x")


def test_the_default_directories_are_those_of_the_engines() -> None:
    assert [str(each) for each in default_directories(Path("/"))] == ["/etc/cdi", "/var/run/cdi"]


def test_a_fifo_among_the_specs_is_named_and_not_waited_for(tmp_path: Path) -> None:
    put(tmp_path / "cdi", "a.json", "one")
    os.mkfifo(tmp_path / "cdi" / "b.json")
    registry = scan([tmp_path / "cdi"])
    assert defined(registry) == {"v/c=one": "a.json"}
    [(path, [problem])] = registry.problems.items()
    assert (Path(path).name, str(problem)) == ("b.json", f"{path}: is a FIFO or a device, not a file")
