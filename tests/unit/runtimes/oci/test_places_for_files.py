"""Where a file of the pod's has a place in a container: the engine can make none in what is read-only."""

from __future__ import annotations

from pathlib import Path

import pytest

from plugbay.errors import ContainerStartError
from plugbay.model.edits import Mount
from plugbay.runtimes.oci.rootfs import HostView, has_place, read_root
from plugbay.runtimes.oci.shares import PodFile
from tests.container_specs import changed, container_spec

SPEC = container_spec()


@pytest.fixture
def rootfs(tmp_path: Path) -> Path:
    for directory in ("root/etc", "root/tmp", "volume/deep"):
        (tmp_path / directory).mkdir(parents=True)
    (tmp_path / "root" / "etc" / "hosts").touch()
    (tmp_path / "root" / "etc" / "resolv.conf").symlink_to("../run/resolv.conf")
    (tmp_path / "volume" / "deep" / "there").touch()
    return tmp_path / "root"


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/etc/hosts", True),
        ("/etc/resolv.conf", True),
        ("/etc/hostname", False),
        ("//etc/hostname", False),
        ("/etc/deeper/still", False),
        ("/dev/termination-log", True),
        ("/tmp/a/b", True),
        ("/run/../etc/hostname", False),
        ("/nowhere/yet", True),
        ("/etc/rw/new", True),
        ("/etc/ro/new", False),
        ("/etc/ro/deep/there", True),
        ("/etc/ro/rw/new", True),
    ],
)
def test_place_is_in_stead_of_a_file_or_where_one_can_be_made(rootfs: Path, path: str, found: bool) -> None:
    volume = str(rootfs.parent / "volume")
    mounts = (
        Mount(volume, container_path="/etc/rw"),
        Mount(volume, container_path="/etc/ro/", read_only=True),
        Mount(volume, container_path="/etc/ro/rw"),
    )
    spec = changed(SPEC, mounts=mounts)
    root = read_root(HostView(rootfs))
    assert has_place(PodFile(Mount("/x", container_path=path)), root, spec) is found
    wanted = PodFile(Mount("/x", container_path=path), wanted_by="spec.hostAliases")
    if found:
        assert has_place(wanted, root, spec)
        return
    with pytest.raises(ContainerStartError, match=r"^spec\.hostAliases: /etc/.* is not there") as caught:
        has_place(wanted, root, spec)
    assert caught.value.reason == "CreateContainerError"
