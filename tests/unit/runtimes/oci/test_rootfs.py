"""What containers see of the host: which directories, and how."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from plugbay.runtimes.oci.host_etc import HostEtc
from plugbay.runtimes.oci.rootfs import HostView, RootFs, read_root


def kinds(root: RootFs) -> dict[str, str]:
    return {each["destination"]: each["type"] for each in root.mounts}


def test_choice_of_the_host_holds_programs_and_no_place_of_services_or_secrets(tmp_path: Path) -> None:
    root = read_root(HostView(etc=HostEtc(tmp_path / "etc"), layer=tmp_path))
    tops = {place.split("/")[1] for place in kinds(root)}
    assert tops <= {"bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "opt", "nix", "gnu", "etc"}
    assert kinds(root)["/usr"] == "overlay"
    assert kinds(root)["/etc"] == "overlay"
    assert root.sources["/etc"] == tmp_path / "etc"
    assert {"home", "root", "srv", "var/lib"} <= set(root.directories)


def test_every_mount_is_read_only_and_gives_no_rights(tmp_path: Path) -> None:
    for view in (HostView(layer=tmp_path), HostView(), HostView(Path("/"), layer=tmp_path)):
        assert all({"ro", "nosuid", "nodev"} <= set(each["options"]) for each in read_root(view).mounts)


def test_directories_of_a_chosen_root_are_overlays_too(tmp_path: Path) -> None:
    (tmp_path / "root/usr/bin").mkdir(parents=True)
    (tmp_path / "root/file").touch()
    (tmp_path / "root/bin").symlink_to("usr/bin")
    root = read_root(HostView(tmp_path / "root", layer=tmp_path))
    assert kinds(root) == {"/usr": "overlay", "/file": "bind"}
    assert root.links == {"bin": "usr/bin"}


@pytest.mark.parametrize("name", ["a:b", "a,b", "a\\b"])
def test_directory_whose_name_an_overlay_cannot_take_is_bound(tmp_path: Path, name: str) -> None:
    (tmp_path / name / "usr").mkdir(parents=True)
    assert kinds(read_root(HostView(tmp_path / name, layer=tmp_path))) == {"/usr": "bind"}


def test_hidden_directory_is_covered_where_it_would_be_seen(tmp_path: Path) -> None:
    hidden = tmp_path / "root/opt/node"
    hidden.mkdir(parents=True)
    view = HostView(tmp_path / "root", hidden=(hidden, tmp_path / "elsewhere"), layer=tmp_path)
    assert kinds(read_root(view)) == {"/opt": "overlay", "/opt/node": "tmpfs"}
    assert not read_root(view).has_room("/opt/node/file")


def test_file_system_below_comes_along_only_where_it_has_to(tmp_path: Path) -> None:
    """What a mount below hides from a node without root rights, it may not uncover."""
    outer = next(each for each in (Path("/dev"), Path("/sys")) if os.path.ismount(each))
    below = next(each for each in outer.iterdir() if each.is_dir() and os.path.ismount(each))
    hidden = next((each for each in below.iterdir() if each.is_dir()), below)
    choice = HostView(programs=(outer,), hidden=(hidden,), layer=tmp_path)
    assert kinds(read_root(choice))[str(outer)] == "overlay"
    without_root = HostView(programs=(outer,), hidden=(hidden,), layer=tmp_path, is_for_root=False)
    assert kinds(read_root(without_root))[str(outer)] == "bind"
    assert kinds(read_root(without_root))[str(hidden)] == "tmpfs"
