"""The image of `make image`, made once of the packages that this machine's apt and pip offer."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from spdx_tools.spdx.parser.parse_anything import parse_file
from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document

from plugbay.kubelet.paths import KubeletPaths
from plugbay.testing.fakes.kubelet import fake_kubelet
from plugbay.version import VERSION
from tests.e2e.containerd import Containerd

pytestmark = [pytest.mark.e2e, pytest.mark.root]

MOST_BYTES: Final = 55 * 1_000_000
REPOSITORY: Final = Path(__file__).parents[2]
NAME: Final = "localhost/plugbay-plugins:test"
STEM: Final = "plugbay-plugins"
RESOURCE: Final = "example.com/gopher"
READY_S: Final = 20


@dataclass(frozen=True)
class Made:
    """What a build has left: the directory of the image, its file system and the packages that it took."""

    out: Path
    rootfs: Path
    packages: Path

    @property
    def archive(self) -> Path:
        return self.out / f"{STEM}.tar"

    @property
    def digest(self) -> str:
        [top] = json.loads((self.out / STEM / "index.json").read_bytes())["manifests"]
        return str(top["digest"])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    base = tmp_path_factory.mktemp("image")
    result = Made(base / "out", base / "rootfs", base / "packages")
    done = build(result)
    if done.returncode and "image: fetching " in done.stderr:
        pytest.skip(f"no packages are to be had: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    assert result.digest in done.stdout
    return result


def build(
    made: Made, *options: str, before: tuple[str, ...] = (), umask: int = 0o022
) -> subprocess.CompletedProcess[str]:
    relative = {name: os.path.relpath(getattr(made, name), REPOSITORY) for name in ("out", "rootfs", "packages")}
    places = [f"--{name}={path}" for name, path in relative.items()]
    argv = [*before, sys.executable, "-m", "tools.image", f"--arch={native()}", f"--name={NAME}", *places, *options]
    return subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=False, umask=umask)


def native() -> str:
    return {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]


def test_the_image_holds_what_runs_and_nothing_to_break_in_with(made: Made) -> None:
    python = (made.rootfs / "bin/python3").readlink().name
    assert sorted(path.name for path in (made.rootfs / "bin/").iterdir()) == ["plugbay", "python3", python]
    assert list((made.rootfs / "sbin/").iterdir()) == []
    entries = [(path, path.lstat()) for path in made.rootfs.rglob("*")]
    assert [path for path, there in entries if there.st_mode & (stat.S_ISUID | stat.S_ISGID)] == []
    open_to_all = [path for path, there in entries if there.st_mode & 0o022 and not path.is_symlink()]
    assert open_to_all == [made.rootfs / "tmp"]
    names = {path.name for path, _ in entries}
    assert names.isdisjoint(
        {"sh", "bash", "dash", "busybox", "gcc", "cc", "ld", "pip", "idlelib", "tkinter", "ensurepip"}
    )
    assert not any(name.endswith((".a", ".gz", ".mo")) for name in names)
    # Not editable: no file leads to a source tree, or to where the image was made.
    assert not any(path.suffix in (".pth", ".egg-link") for path, _ in entries)
    place = str(made.out.parent).encode()
    assert [path for path, there in entries if stat.S_ISREG(there.st_mode) and place in path.read_bytes()] == []


def test_any_user_runs_it(made: Made) -> None:
    argv = ["chroot", "--userspec=12345:12345", str(made.rootfs), "/usr/bin/plugbay", "version"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, env={"PATH": "/usr/sbin:/usr/bin"})
    assert VERSION in done.stdout


def test_the_image_is_small(made: Made) -> None:
    blobs = sum(path.stat().st_size for path in (made.out / STEM / "blobs").rglob("*") if path.is_file())
    assert blobs <= MOST_BYTES


def test_the_sbom_names_every_package(made: Made) -> None:
    inside, beside = made.rootfs / "usr/share/plugbay/sbom.spdx.json", made.out / f"{STEM}.{native()}.spdx.json"
    assert inside.read_bytes() == beside.read_bytes()
    assert validate_full_spdx_document(parse_file(str(beside))) == []
    named = {(each["name"], each["versionInfo"]) for each in json.loads(beside.read_bytes())["packages"]}
    locked = json.loads((made.out / f"{STEM}.lock.json").read_bytes())["packages"][native()]
    assert named == {(each["name"], each["version"]) for each in locked} | {(STEM, VERSION)}
    installed = {path.name.split("-")[0] for path in made.rootfs.glob("usr/lib/python3/dist-packages/*.dist-info")}
    assert {name.lower() for name in installed} <= {name.lower().replace("-", "_") for name, _ in named}
    recorded = {path.name for path in (made.rootfs / "var/lib/dpkg/status.d").iterdir()}
    assert recorded == {each["name"] for each in locked if each["kind"] == "deb"}


def test_a_lock_makes_the_same_bytes_elsewhere_and_without_a_network(made: Made, tmp_path: Path) -> None:
    other = Made(tmp_path / "another/place", tmp_path / "rootfs", made.packages)
    other.out.parent.mkdir()
    lock = f"--lock={made.out / STEM}.lock.json"
    done = build(other, lock, before=("unshare", "--net"), umask=0o077)
    assert done.returncode == 0, done.stderr
    assert other.digest == made.digest
    assert other.archive.read_bytes() == made.archive.read_bytes()


def test_a_package_that_the_lock_wants_and_nothing_offers_is_one_sentence(made: Made, tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    shutil.copytree(made.packages, packages)
    [zlib] = packages.glob("zlib1g_*")
    zlib.unlink()
    other = Made(tmp_path / "out", tmp_path / "rootfs", packages)
    done = build(other, f"--lock={made.out / STEM}.lock.json", before=("unshare", "--net"))
    assert done.returncode == 1
    assert done.stderr.startswith("image: fetching the lists of Debian packages")
    assert done.stderr.count("\n") == 1
    assert list(other.out.iterdir()) == []
    assert not other.rootfs.exists()


async def test_containerd_runs_it_and_it_serves_a_plugin(made: Made, engine: Containerd, sockets: Path) -> None:
    engine.ctr("images", "import", str(made.archive))
    assert engine.ctr("run", "--rm", "--read-only", NAME, "image-version", "plugbay", "version").strip()
    kubelet_root, gophers = sockets / "kubelet", sockets / "gophers"
    gophers.mkdir()
    (gophers / "g0").touch()
    async with fake_kubelet(KubeletPaths(kubelet_root)) as kubelet:
        mounts = [
            f"type=bind,src={kubelet_root},dst=/var/lib/kubelet,options=rbind:rw",
            f"type=bind,src={gophers},dst=/gophers,options=rbind:ro",
        ]
        options = [option for mount in mounts for option in ("--mount", mount)]
        command = ["plugbay", "serve", "directory", "--resource", RESOURCE, "--path", "/gophers", "--env", "G"]
        await asyncio.to_thread(engine.ctr, "run", "--detach", "--read-only", *options, NAME, "image-serves", *command)
        try:
            plugin = await kubelet.next_registration()
            await plugin.until_devices("g0")
            (gophers / "g1").touch()
            await plugin.until_devices("g0", "g1")
            await asyncio.to_thread(engine.ctr, "tasks", "kill", "--signal", "SIGTERM", "image-serves")
            await plugin.until_ended()
        finally:
            await asyncio.to_thread(engine.ctr, "tasks", "delete", "--force", "image-serves")
            await asyncio.to_thread(engine.ctr, "containers", "delete", "image-serves")
    engine.until_nothing_runs()


def test_a_registry_takes_it_under_its_digest(made: Made, tmp_path: Path) -> None:
    for program in ("skopeo", "docker-registry"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    with registry(tmp_path) as address:
        there = f"docker://{address}/plugbay/plugins:test"
        argv = ["skopeo", "copy", "--dest-tls-verify=false", f"oci-archive:{made.archive}", there]
        subprocess.run(argv, check=True, capture_output=True)
        argv = ["skopeo", "inspect", "--tls-verify=false", "--format", "{{.Digest}}", there]
        done = subprocess.run(argv, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == made.digest


@contextmanager
def registry(directory: Path) -> Iterator[str]:
    """One on loopback, by its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    config = {"version": "0.1", "storage": {"filesystem": {"rootdirectory": str(directory / "registry")}}}
    (directory / "registry.yml").write_text(json.dumps({**config, "http": {"addr": address}}))
    log = (directory / "registry.log").open("wb")
    with (
        log,
        subprocess.Popen(["docker-registry", "serve", directory / "registry.yml"], stdout=log, stderr=log) as daemon,
    ):
        try:
            until_listening(address, daemon)
            yield address
        finally:
            daemon.terminate()


def until_listening(address: str, daemon: subprocess.Popen[bytes]) -> None:
    host, _, port = address.partition(":")
    deadline = time.monotonic() + READY_S
    while True:
        try:
            socket.create_connection((host, int(port))).close()
        except ConnectionRefusedError:
            assert daemon.poll() is None, "the registry has ended"
            assert time.monotonic() < deadline, "the registry does not listen"
            time.sleep(0.05)
        else:
            return
