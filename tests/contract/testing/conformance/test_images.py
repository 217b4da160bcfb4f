"""A plugin in a container image: unpacked as engines do it, and judged as it runs in a cluster."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

import plugbay
from plugbay.errors import PathUnusable, UsageError
from plugbay.testing.conformance.catalogue import chosen_rules
from plugbay.testing.conformance.findings import RuleOutcome
from plugbay.testing.conformance.judging import judge_plugin
from plugbay.testing.conformance.settings import ConformanceSettings
from plugbay.testing.conformance.subject.container import BindMount, container_command
from plugbay.testing.conformance.subject.image import UnpackedImage, unpack_image
from tests.contract.rigs.oci import why_not
from tests.contract.testing.conformance.image_archives import docker_archive, layer, oci_archive
from tests.contract.testing.conformance.judged import RETRY_S
from tests.contract.testing.conformance.test_small_flaws import PLUGIN

Archive = Callable[[Path, Sequence[bytes], Mapping[str, Any]], Path]
REPOSITORY: Final = Path(plugbay.__file__).parents[2]
SYSTEM: Final = ("/usr", "/lib", "/lib64", sys.prefix, sys.base_prefix, str(REPOSITORY))
CONFIG: Final = {
    "Entrypoint": [sys.executable, PLUGIN],
    "Cmd": ["none", "/var/lib/kubelet"],
    "Env": ["A=1"],
    "User": "0:0",
}
DIRECTORIES: Final = dict.fromkeys(("proc", "sys", "dev", "run", "tmp", "etc", "var", "var/lib"))


def unpacked(archive: Path, tmp_path: Path) -> UnpackedImage:
    rootfs = tmp_path / "rootfs"
    rootfs.mkdir()
    return unpack_image(archive, rootfs)


@pytest.mark.parametrize("archive", [docker_archive, oci_archive])
def test_layers_lie_over_each_other(archive: Archive, tmp_path: Path) -> None:
    layers = [
        layer({"a": None, "a/old": "1", "a/gone": "1", "b": None, "b/old": "1", "c": "file"}, {"etc": "a"}),
        layer({"a/old": "2", "a/.wh.gone": "", "b/.wh..wh..opq": "", "b/new": "2", "c": None, "c/d": "2"}),
    ]
    image = unpacked(archive(tmp_path / "i.tar", layers, {"Entrypoint": ["/a/old"], "Cmd": ["x"]}), tmp_path)
    found = {str(path.relative_to(image.rootfs)) for path in image.rootfs.rglob("*") if not path.is_dir()}
    assert found == {"a/old", "b/new", "c/d"} | ({"etc"} if not (image.rootfs / "etc").is_dir() else set())
    assert (image.rootfs / "a/old").read_text() == "2"
    assert (image.arguments, image.defaults, image.user) == (("/a/old",), ("x",), (0, 0))


def test_user_may_be_a_name_of_the_image(tmp_path: Path) -> None:
    files = {"etc": None, "etc/passwd": "root:x:0:0::/:/bin/sh\nplugin:x:42:43::/:/bin/sh\n"}
    image = unpacked(docker_archive(tmp_path / "i.tar", [layer(files)], {"User": "plugin"}), tmp_path)
    assert image.user == (42, 43)


@pytest.mark.parametrize(
    ("layers", "config", "problem"),
    [
        ([layer({}, {"out": "/"}), layer({"out/tmp/plugbay-escaped": "x"})], {}, "writes outside the image"),
        ([layer({"../escaped": "x"})], {}, "outside the image"),
        ([b"not a layer"], {}, "is not an image that can be unpacked"),
        ([], {"User": "nobody"}, "does not say which number nobody has"),
    ],
)
def test_image_that_is_none_is_refused(
    layers: Sequence[bytes], config: Mapping[str, Any], problem: str, tmp_path: Path
) -> None:
    with pytest.raises(PathUnusable, match=problem):
        unpacked(docker_archive(tmp_path / "i.tar", layers, config), tmp_path)
    assert not Path("/tmp/plugbay-escaped").exists()
    assert not (tmp_path / "escaped").exists()


def test_file_that_is_no_archive_is_refused(tmp_path: Path) -> None:
    (tmp_path / "i.tar").write_text("hello")
    with pytest.raises(PathUnusable) as refused:
        unpacked(tmp_path / "i.tar", tmp_path)
    assert str(refused.value) == (
        f"{tmp_path}/i.tar: is not an image that can be unpacked: it is not an archive, or a layer of it is not, "
        "or it is cut off"
    )


def test_directory_that_is_no_layout_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(PathUnusable, match=r"unpacked: it has neither index\.json nor manifest\.json$"):
        unpacked(tmp_path / "empty", tmp_path)


def test_mounts_are_read() -> None:
    assert BindMount.parse("/etc/gophers") == BindMount(Path("/etc/gophers"), "/etc/gophers")
    assert BindMount.parse("/a:/b:ro") == BindMount(Path("/a"), "/b", is_read_only=True)
    for wrong in ("a", "/a:b", "/a:/b:rw", ""):
        with pytest.raises(UsageError, match="--mount"):
            BindMount.parse(wrong)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0 or bool(why_not()), reason=why_not() or "needs root")
async def test_plugin_in_a_container_is_judged(tmp_path: Path, sockets: Path) -> None:
    """The interpreter is the host's; the plugin ends by SIGTERM, SIGKILL and with its last scene."""
    image = oci_archive(tmp_path / "plugin.tar", [layer(DIRECTORIES)], CONFIG)
    mounts = tuple(BindMount(Path(each), each, is_read_only=True) for each in dict.fromkeys(SYSTEM))
    with container_command(image, (), {"B": "2"}, mounts, environ=os.environ) as command:
        settings = ConformanceSettings(command, retry_timeout_s=RETRY_S, environ=os.environ, places=sockets)
        report = await judge_plugin(settings, chosen_rules(["PB1xx", "PB2xx", "PB3xx", "PB4xx", "PB912"]))
        left = list((command.directory / "state").iterdir())
    assert [(each.rule.name, each.findings) for each in report.verdicts if each.is_bad] == []
    assert report.counts[RuleOutcome.PASSED] >= 40
    assert left == [], "no container is left"


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0 or bool(why_not()), reason=why_not() or "needs root")
async def test_image_whose_program_is_missing_gets_a_verdict(tmp_path: Path, sockets: Path) -> None:
    image = docker_archive(tmp_path / "plugin.tar", [layer(DIRECTORIES)], {"Cmd": ["/no/such/program"]})
    with container_command(image, (), {}, (), environ=os.environ) as command:
        settings = ConformanceSettings(command, environ=os.environ, places=sockets)
        report = await judge_plugin(settings, chosen_rules(["PB101"]))
    assert "ended after" in report.verdicts[0].findings[0]
    assert "/no/such/program" in report.outputs[0].end
