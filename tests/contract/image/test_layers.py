"""The file systems of images, and layouts made of them."""

from __future__ import annotations

import io
import json
import os
import tarfile
from pathlib import Path

import pytest

from tools.image import layers, oci
from tools.image.inputs import Architecture
from tools.image.problems import ImageFailed
from tools.image.tree import Directory, File, Link, Tree, write


def system() -> Tree:
    tree = Tree()
    tree.add("lib64/ld.so.1", Link("/lib/x86/ld-2.so"))
    tree.add("lib/x86/ld-2.so", File(b"loader", executable=True))
    tree.add("tmp", Directory(0o1777))
    return tree


def test_directories_that_moved_to_usr_are_one() -> None:
    assert list(system()) == [
        "tmp",
        "usr",
        "usr/lib",
        "usr/lib/x86",
        "usr/lib/x86/ld-2.so",
        "usr/lib64",
        "usr/lib64/ld.so.1",
    ]
    assert system().resolve("/lib64/ld.so.1") == "usr/lib/x86/ld-2.so"


def test_a_link_to_nothing_is_told() -> None:
    tree = system()
    tree.add("round", Link("round"))
    for path in ("round", "absent"):
        with pytest.raises(ImageFailed, match=f"^/{path} does not lead to a file in the image$"):
            tree.resolve(path)


def test_packages_must_not_have_different_files_at_a_path() -> None:
    tree = system()
    tree.add("lib/x86/ld-2.so", File(b"loader", executable=True))
    with pytest.raises(ImageFailed, match="two packages have different files at /usr/lib/x86/"):
        tree.add("lib/x86/ld-2.so", File(b"another"))


def test_the_umask_does_not_show(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        write(system(), tmp_path)
    finally:
        os.umask(before)
    modes = {path: (tmp_path / path).stat().st_mode & 0o7777 for path in ("tmp", "usr/lib", "usr/lib/x86/ld-2.so")}
    assert modes == {"tmp": 0o1777, "usr/lib": 0o755, "usr/lib/x86/ld-2.so": 0o755}


def test_a_layer_holds_what_those_below_do_not() -> None:
    upper = Tree()
    upper.add("usr/lib/x86/new", File(b"new"))
    with tarfile.open(fileobj=io.BytesIO(layers.archive(upper, system()))) as tar:
        [entry] = tar
    assert (entry.name, entry.uid, entry.gid, entry.uname, entry.mode) == ("usr/lib/x86/new", 0, 0, "", 0o644)


@pytest.mark.parametrize("architectures", [[Architecture.ARM64], list(Architecture)], ids=["one", "two"])
def test_a_layout_leads_from_its_index_to_every_layer(architectures: list[Architecture]) -> None:
    plain = layers.archive(system())
    settings = oci.Settings("1980-01-01T00:00:00Z", {"PATH": "/bin"}, ["plugbay"], ["--help"], {"a": "b"})
    layer = oci.Layer(oci.digest(plain), plain, "tests")
    layout, digest = oci.layout([oci.Image(each, settings, [layer]) for each in architectures], "localhost/test:1")

    def read(descriptor: dict[str, str]) -> dict[str, object]:
        entry = layout[f"blobs/{descriptor['digest'].replace(':', '/')}"]
        assert isinstance(entry, File)
        assert oci.digest(entry.content) == descriptor["digest"]
        assert len(entry.content) == int(descriptor["size"])
        return json.loads(entry.content) if "json" in descriptor["mediaType"] else {}

    index = layout["index.json"]
    assert isinstance(index, File)
    [top] = json.loads(index.content)["manifests"]
    assert top["digest"] == digest
    manifests = [top] if len(architectures) == 1 else read(top)["manifests"]
    assert isinstance(manifests, list)
    assert [each["platform"]["architecture"] for each in manifests] == architectures
    for each in manifests:
        manifest = read(each)
        config = read(manifest["config"])  # type: ignore[arg-type]  # JSON
        assert config["rootfs"] == {"type": "layers", "diff_ids": [oci.digest(plain)]}
        for descriptor in manifest["layers"]:  # type: ignore[attr-defined]  # JSON
            read(descriptor)
