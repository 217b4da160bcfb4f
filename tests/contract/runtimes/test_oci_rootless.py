"""Containers of an engine without root rights: what the confinement lays out, run by a user who has none."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from plugbay.errors import ContainerStartError
from plugbay.model.edits import ContainerEdits, DeviceNode
from plugbay.model.security import Security
from plugbay.runtimes.oci.confinement import Grounds, OciConfinement
from plugbay.runtimes.oci.engines import OciEngine, choose_engine
from plugbay.runtimes.oci.host_etc import HostEtc
from plugbay.runtimes.oci.rootfs import HostView
from plugbay.runtimes.oci.rootless import FileOwner
from plugbay.runtimes.oci.shares import UNSHARED
from plugbay.runtimes.port import ContainerId, ContainerSpec
from plugbay.runtimes.supervised.confinement import Launch
from tests.container_specs import changed
from tests.contract.rigs.oci import spec, why_not

__all__ = ["spec"]

NOBODY = 65534
AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
NAME = ContainerId("rootless-test")


def why_not_rootless() -> str:
    if why_not() or shutil.which("setpriv") is None or shutil.which("unshare") is None:
        return why_not() or "needs setpriv and unshare"
    tried = subprocess.run([*AS_NOBODY, "unshare", "--user", "true"], capture_output=True, check=False)
    return "" if tried.returncode == 0 else "this kernel gives user namespaces to root only"


pytestmark = [pytest.mark.root, pytest.mark.skipif(bool(why_not_rootless()), reason=why_not_rootless())]


@pytest.fixture
def engine(sockets: Path) -> OciEngine:
    """Below a directory that somebody without rights may enter."""
    sockets.chmod(0o755)
    state = sockets / "engine"
    state.mkdir()
    os.chown(state, NOBODY, NOBODY)
    return choose_engine(None, search_path=os.environ["PATH"], state_dir=state)


def confinement(engine: OciEngine) -> OciConfinement:
    layer = engine.state_dir.parent / "layer"
    layer.mkdir()
    grounds = Grounds(
        HostView(etc=HostEtc(layer.with_name("etc")), layer=layer, is_for_root=False),
        "plugbay-test",
        (),
        (),
        shares_of=lambda pod: UNSHARED,
        owner=FileOwner(NOBODY, NOBODY),
    )
    return OciConfinement(engine, grounds)


def lay_out(launch: Launch, directory: Path) -> None:
    for name in launch.directories:
        (directory / name).mkdir(parents=True, exist_ok=True)
    for name, content in launch.files.items():
        (directory / name).write_bytes(content)
    for name in launch.open_files:
        (directory / name).touch()
    for name, target in launch.links.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).symlink_to(target)
    for each in (directory, *directory.rglob("*")):
        os.chown(each, NOBODY, NOBODY, follow_symlinks=False)


def test_container_is_root_in_a_user_namespace_and_opens_what_it_was_given(
    engine: OciEngine, spec: ContainerSpec, sockets: Path
) -> None:
    os.mknod(sockets / "node", 0o666 | stat.S_IFCHR, os.makedev(1, 5))
    (sockets / "node").chmod(0o666)
    script = "id -u; cat /proc/self/uid_map; head -c 2 /dev/plugged | od -An -tx1; touch /usr/x 2>/dev/null || echo no"
    edits = ContainerEdits(
        device_nodes=(DeviceNode(sockets / "node", container_path="/dev/plugged", permissions="rw"),)
    )
    directory = sockets / "bundle"
    directory.mkdir()
    launch = confinement(engine).launch(
        changed(spec, argv=("sh", "-c", script), edits=edits), NAME, directory, is_given_up=lambda: False
    )
    lay_out(launch, directory)
    done = subprocess.run(
        [*AS_NOBODY, *launch.argv], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, (done, (directory / "engine.log").read_text())
    assert done.stdout.split() == ["0", "0", str(NOBODY), "1", "00", "00", "no"]
    assert list(engine.state_dir.iterdir()) == []


@pytest.mark.parametrize("security", [Security(run_as_user=1), Security(supplemental_groups=(5,))])
def test_other_users_are_refused(engine: OciEngine, spec: ContainerSpec, sockets: Path, security: Security) -> None:
    with pytest.raises(ContainerStartError, match="knows one user"):
        confinement(engine).launch(changed(spec, security=security), NAME, sockets, is_given_up=lambda: False)
