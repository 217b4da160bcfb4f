"""Packages become the files of an image: chosen, unpacked, compiled; the same ones make the same bytes."""

from __future__ import annotations

import marshal
import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from types import CodeType

import pytest

from tests.contract.image import packages
from tools.image import debian, elf, layers, wheels
from tools.image.apt import Stanza
from tools.image.inputs import Architecture
from tools.image.interpreter import Interpreter
from tools.image.problems import ImageFailed
from tools.image.tree import File, Link, Tree, write

PYTHON = Interpreter((sys.executable,), (("PYTHONHASHSEED", "0"),))
SITE = "usr/lib/python3/dist-packages"
needs_dpkg = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="dpkg-deb is not installed")


@needs_dpkg
def test_a_debian_package_gives_what_runs_and_its_copyright(tmp_path: Path) -> None:
    stanza, tree = debian.unpack(packages.deb(tmp_path))
    assert stanza["Version"] == "1:3.11.2-6+deb12u9"
    assert stanza["Description"] == "a test\n with a second line"
    assert debian.depends(stanza) == ["libc6", "media-types", "zlib1g"]
    assert [path for path in tree if not path.endswith(("lib", "bin")) and "." in path] == [
        "usr/bin/python3.11",
        "usr/lib/python3.11",
        "usr/lib/python3.11/os.py",
        "usr/lib/x86_64-linux-gnu/libtest.so.1",
        "usr/share/doc/python3.11-minimal",
        "usr/share/doc/python3.11-minimal/copyright",
    ]
    assert tree["usr/bin/python3"] == Link("python3.11")
    # Rights to write and those of the owner are not a package's to give.
    assert {tree[path].mode for path, _ in tree.files()} == {0o755, 0o644}  # type: ignore[union-attr]  # files


def test_a_wheel_is_installed_as_its_record_says(tmp_path: Path) -> None:
    tree = wheels.unpack(packages.wheel(tmp_path), "3.11")
    program, record = tree["usr/bin/plugbay"], tree[f"{SITE}/{packages.DIST_INFO}/RECORD"]
    assert isinstance(program, File)
    assert isinstance(record, File)
    assert program.mode == 0o755
    assert program.content.startswith(b"#!/usr/bin/python3.11 -sPB\n")
    rows = [row.split(",")[0] for row in record.content.decode().splitlines()]
    assert "usr/bin/another" not in tree
    assert {os.path.normpath(f"{SITE}/{row}") for row in rows} == {path for path, _ in tree.files()}


@needs_dpkg
def test_the_same_packages_make_the_same_bytes(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    deb, wheel = packages.deb(tmp_path / "in"), packages.wheel(tmp_path / "in")

    def build(directory: Path, umask: int) -> bytes:
        directory.mkdir(parents=True)
        before = os.umask(umask)
        try:
            tree = debian.unpack(deb)[1]
            tree.update(wheels.unpack(wheel, "3.11"))
            tree.update(debian.skeleton())
            (directory / "root").mkdir()
            write(tree, directory / "root")
            sources = [path for path, _ in tree.files() if path.endswith(".py")]
            tree.update(PYTHON.compile(sources, directory / "root", directory / "compiled"))
            return PYTHON.compress(layers.archive(tree))
        finally:
            os.umask(before)

    one, other = build(tmp_path / "one", 0o022), build(tmp_path / "elsewhere/with/a/longer/name", 0o077)
    assert one == other


def test_compiled_code_names_its_place_in_the_image_and_is_never_compared(tmp_path: Path) -> None:
    (tmp_path / "root/usr").mkdir(parents=True)
    (tmp_path / "root/usr/a.py").write_text("def f(): ...\n")
    tree = PYTHON.compile(["usr/a.py"], tmp_path / "root", tmp_path / "compiled")
    compiled = tree[f"usr/__pycache__/a.{sys.implementation.cache_tag}.pyc"]
    assert isinstance(compiled, File)
    assert int.from_bytes(compiled.content[4:8], "little") == 0b01  # by hash, unchecked (PEP 552)
    code = marshal.loads(compiled.content[16:])
    assert isinstance(code, CodeType)
    assert code.co_filename == "/usr/a.py"


def test_a_source_with_a_fault_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def f(:\n")
    with pytest.raises(ImageFailed, match=r"^compiling with the image's Python failed: .*SyntaxError"):
        PYTHON.compile(["a.py"], tmp_path, tmp_path / "compiled")


STANZAS: dict[str, Stanza] = {
    "base-files": {"Section": "admin", "Pre-Depends": "awk"},
    "debconf": {"Section": "admin", "Pre-Depends": "perl-base"},
    "libc6": {"Section": "libs", "Depends": "libgcc-s1"},
    "libgcc-s1": {"Section": "contrib/libs", "Depends": "gcc-12-base (= 12)"},
    "gcc-12-base": {"Section": "libs"},
    "libpython3.11-stdlib": {"Section": "python", "Depends": "media-types | mime-support, libssl3 (>= 3), libc6"},
    "libssl3": {"Section": "libs", "Depends": "debconf (>= 0.5) | debconf-2.0"},
    "libstdc++6": {"Section": "libs", "Depends": "libc6"},
    "media-types": {"Section": "net"},
    "python3-minimal": {"Section": "python", "Pre-Depends": "python3.11-minimal", "Depends": "dpkg"},
    "python3.11-minimal": {"Section": "python", "Depends": "libc6"},
}


def test_libraries_are_followed_and_installers_are_not() -> None:
    def candidates(names: Iterable[str]) -> dict[str, Stanza]:
        return {name: STANZAS[name] for name in names}

    assert set(debian.choose(candidates)) == STANZAS.keys() - {"debconf", "media-types"}


def test_a_python_package_that_names_no_python_is_told() -> None:
    with pytest.raises(ImageFailed, match="python3-minimal 4 depends on no package of a Python"):
        debian.python_version({"Version": "4", "Depends": "python4-minimal"})


def test_libraries_that_nothing_needs_are_left_out() -> None:
    """By this Python's own file, and libraries that only their names make: what these need is not read."""
    python = Path(sys.executable).resolve().read_bytes()
    used, unused = elf.needs(_tree("usr/bin/python3.11", python)), "libunused.so.1"
    trees = {"python3.11-minimal": _tree("usr/bin/python3.11", python), "unused": _tree(f"usr/lib/{unused}", b"")}
    trees |= {f"of-{name}": _tree(f"usr/lib/x/{name}", b"") for name in used}
    trees["libgcc"] = _tree("usr/lib/x/libgcc_s.so.1", b"")
    trees["libgcc"].add("usr/share/doc/libgcc", Link("documented"))
    trees["documented"] = _tree("usr/share/doc/documented/copyright", b"")
    assert debian.needed(trees) == trees.keys() - {"unused"}


def test_a_library_that_no_package_has_is_told() -> None:
    tree = _tree("usr/bin/python", Path(sys.executable).resolve().read_bytes())
    machine = os.uname().machine
    other = next(each for each in Architecture if each.machine != machine)
    with pytest.raises(ImageFailed, match=r"^/usr/bin/python needs lib[^ ]*, which no package in the image has$"):
        elf.check(tree, next(each for each in Architecture if each.machine == machine))
    with pytest.raises(ImageFailed, match=r"^/usr/bin/python is for another processor \(EM_[^ ]*\) than "):
        elf.check(tree, other)


def _tree(path: str, content: bytes) -> Tree:
    tree = Tree()
    tree.add(path, File(content))
    return tree
