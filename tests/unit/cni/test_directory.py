"""Which files are looked at, and in what order."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from plugbay.cni.directory import config_files, load_default, load_file, load_named
from plugbay.errors import InvalidNetworkConfig, NetworkNotFound


def write_list(path: Path, name: str, *types: str) -> None:
    plugins = [{"type": each} for each in types or ("a",)]
    path.write_text(json.dumps({"name": name, "cniVersion": "1.0.0", "plugins": plugins}))


def write_single(path: Path, name: str) -> None:
    path.write_text(json.dumps({"name": name, "cniVersion": "1.0.0", "type": "single"}))


def test_files_are_sorted_byte_by_byte(tmp_path: Path) -> None:
    for name in (
        "b.conf",
        "10.conflist",
        "9.json",
        "Z.conf",
        "\udcff.conf",
        "é.conf",
        "x.conflist.bak",
        "y.yaml",
        "conf",
    ):
        (tmp_path / name).touch()
    (tmp_path / "0.conf").mkdir()
    assert [each.name for each in config_files(tmp_path)] == [
        "10.conflist",
        "9.json",
        "Z.conf",
        "b.conf",
        "é.conf",
        "\udcff.conf",
    ]


def test_file_named_by_its_extension_alone_is_a_list(tmp_path: Path) -> None:
    write_list(tmp_path / ".conflist", "hidden")
    write_list(tmp_path / "10.conflist", "net")
    assert load_default(tmp_path).name == "hidden"


def test_missing_directory_is_empty(tmp_path: Path) -> None:
    assert config_files(tmp_path / "none") == []
    with pytest.raises(NetworkNotFound):
        load_default(tmp_path / "none")


def test_unreadable_directory_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidNetworkConfig, match="cannot be read: Not a directory"):
        config_files(tmp_path / "file")


def test_first_file_is_the_default(tmp_path: Path) -> None:
    write_list(tmp_path / "20.conflist", "list")
    write_single(tmp_path / "10.conf", "single")
    assert load_default(tmp_path).name == "single"


def test_broken_first_file_is_not_skipped(tmp_path: Path) -> None:
    (tmp_path / "10.conflist").write_text("{")
    write_list(tmp_path / "20.conflist", "list")
    with pytest.raises(InvalidNetworkConfig, match=r"10\.conflist:1:2: not JSON"):
        load_default(tmp_path)


def test_list_is_preferred_by_name(tmp_path: Path) -> None:
    write_single(tmp_path / "10.conf", "net")
    write_list(tmp_path / "20.conflist", "net", "first")
    write_list(tmp_path / "30.conflist", "net", "second")
    assert [each.type for each in load_named(tmp_path, "net").plugins] == ["first"]


def test_single_plugin_is_found_by_name(tmp_path: Path) -> None:
    write_list(tmp_path / "10.conflist", "other")
    write_single(tmp_path / "20.json", "net")
    assert load_named(tmp_path, "net").source == str(tmp_path / "20.json")


def test_unknown_name_is_told(tmp_path: Path) -> None:
    write_list(tmp_path / "10.conflist", "other")
    with pytest.raises(NetworkNotFound, match='no CNI network named "net" in '):
        load_named(tmp_path, "net")


def test_broken_file_ends_the_search(tmp_path: Path) -> None:
    write_list(tmp_path / "10.conflist", "net")
    (tmp_path / "20.conflist").write_text("{")
    assert load_named(tmp_path, "net").name == "net"
    with pytest.raises(InvalidNetworkConfig):
        load_named(tmp_path, "other")


def test_plugins_of_other_files_are_appended(tmp_path: Path) -> None:
    write_list(tmp_path / "10.conflist", "net", "first")
    extra = tmp_path / "net"
    extra.mkdir()
    for name in ("2.conf", "1.conf", "0.json"):
        (extra / name).write_text(json.dumps({"type": name}))
    assert [each.type for each in load_file(tmp_path / "10.conflist").plugins] == ["first", "1.conf", "2.conf"]


def test_plugins_of_other_files_can_be_refused(tmp_path: Path) -> None:
    document = {"name": "net", "plugins": [{"type": "a"}], "loadOnlyInlinedPlugins": True}
    (tmp_path / "10.conflist").write_text(json.dumps(document))
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "1.conf").write_text("{")
    assert [each.type for each in load_file(tmp_path / "10.conflist").plugins] == ["a"]


def test_a_fifo_is_named_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "0.conflist")
    with pytest.raises(InvalidNetworkConfig, match=r"0\.conflist: is a FIFO or a device, not a file"):
        load_default(tmp_path)
