"""Places for mounts in directories of the host that have none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from plugbay.runtimes.oci.mount_points import MountPoints, with_mount_points
from plugbay.runtimes.oci.rootfs import HostView, read_root


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A root file system with ``/opt``, ``/usr/share`` and a link to the latter."""
    (tmp_path / "root/opt/there").mkdir(parents=True)
    (tmp_path / "root/usr/share").mkdir(parents=True)
    (tmp_path / "root/usr/link").symlink_to("share")
    (tmp_path / "root/share").symlink_to("usr/share")
    return tmp_path / "root"


def placed(host: Path, *mounts: dict[str, Any], layer: Path | None = Path("/layer")) -> MountPoints:
    root = read_root(HostView(host, layer=layer))
    return with_mount_points({"mounts": [*root.mounts, *mounts]}, root, Path("/container"))


def bind(destination: str, source: Path | str = "/") -> dict[str, Any]:
    return {"destination": destination, "type": "bind", "source": str(source), "options": ["bind"]}


def layers(made: MountPoints) -> dict[str, str]:
    return {
        each["destination"]: each["options"][-1].removeprefix("lowerdir=")
        for each in made.config["mounts"]
        if each["type"] == "overlay"
    }


def test_missing_directory_and_file_are_in_a_layer_on_top(host: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    made = placed(
        host, bind("/opt/driver/lib"), bind("/opt/conf", tmp_path / "file"), bind("opt/relative"), bind("//opt/slashes")
    )
    assert made.directories == ("points/0/driver/lib", "points/0/relative", "points/0/slashes")
    assert made.files == ("points/0/conf",)
    assert layers(made) == {"/opt": f"/container/points/0:{host}/opt:/layer", "/usr": f"{host}/usr:/layer"}


def test_a_file_of_a_cdi_spec_has_a_file_to_be_mounted_on(host: Path, tmp_path: Path) -> None:
    (tmp_path / "libcuda.so").touch()
    options = ["ro", "nosuid", "nodev", "rbind", "rprivate"]
    library = {"destination": "/usr/lib64/libcuda.so", "source": f"{tmp_path}/libcuda.so", "options": options}
    made = placed(host, {**library, "type": "bind"}, {**library, "destination": "/usr/lib64/libcuda.so.1"})
    assert made.files == ("points/1/lib64/libcuda.so", "points/1/lib64/libcuda.so.1")
    assert made.directories == ()


def test_a_link_of_the_root_is_followed(host: Path) -> None:
    assert placed(host, bind("/share/new")).directories == ("points/1/share/new",)


@pytest.mark.parametrize(
    "destination",
    [
        pytest.param("/opt/there", id="is-there"),
        pytest.param("/data/new", id="not-of-the-host"),
        pytest.param("/usr/link/new", id="behind-a-link"),
    ],
)
def test_other_mounts_change_nothing(host: Path, destination: str) -> None:
    made = placed(host, bind(destination))
    assert (made.directories, made.files) == ((), ())
    assert layers(made) == layers(placed(host))


def test_a_mount_inside_another_one_is_that_ones(host: Path) -> None:
    assert placed(host, bind("/opt/new"), bind("/opt/new/inner")).directories == ("points/0/new",)


def test_directories_that_are_no_overlays_are_left_to_the_engine(host: Path) -> None:
    assert placed(host, bind("/opt/new"), layer=None).directories == ()
