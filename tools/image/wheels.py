"""Wheels: fetched by pip for another Python than ours, and unpacked."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import os
import posixpath
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from email.message import Message
from email.parser import Parser
from pathlib import Path
from typing import BinaryIO, Final

from installer import install
from installer.destinations import WheelDestination
from installer.records import Hash, RecordEntry
from installer.sources import WheelFile
from installer.utils import Scheme

from tools.image.inputs import Architecture, Kind, Pin, sha256_of
from tools.image.problems import run
from tools.image.tree import File, Tree

PACKAGES: Final = "usr/lib/python3/dist-packages"
PROGRAM: Final = "plugbay"
_PIP: Final = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "--no-input")
_OLDEST_GLIBC: Final = {Architecture.AMD64: 5, Architecture.ARM64: 17}
_SCRIPT: Final = """#!/usr/bin/python{version} -sPB
import sys
from {module} import {name}
sys.exit({call}())
"""


@dataclass(frozen=True, slots=True)
class Target:
    """The Python that wheels are for."""

    architecture: Architecture
    python: str
    """As in ``3.11``."""
    glibc_minor: int

    def options(self) -> list[str]:
        """Of pip."""
        tag = self.python.replace(".", "")
        options = ["--only-binary=:all:", "--implementation=cp", f"--python-version={self.python}"]
        options += [f"--abi={abi}" for abi in (f"cp{tag}", "abi3", "none")]
        for minor in range(self.glibc_minor, _OLDEST_GLIBC[self.architecture] - 1, -1):
            options.append(f"--platform=manylinux_2_{minor}_{self.architecture.machine}")
            if minor == 17:
                options.append(f"--platform=manylinux2014_{self.architecture.machine}")
        return options


def build(source: Path, into: Path, epoch: int) -> Path:
    """The wheel of a source tree.

    Raises:
        ImageFailed: it cannot be built.
    """
    argv = [*_PIP, "wheel", "--no-deps", "--no-build-isolation", f"--wheel-dir={into}", str(source)]
    run(argv, f"building the wheel of {source}", environ={**os.environ, "SOURCE_DATE_EPOCH": str(epoch)})
    [wheel] = into.glob("*.whl")
    return wheel


def download(requirements: Sequence[str], target: Target, into: Path) -> None:
    """Fetch wheels and all they require.

    Raises:
        ImageFailed: there are none that fit.
    """
    argv = [*_PIP, "download", *target.options(), f"--dest={into}", *requirements]
    run(argv, f"fetching wheels for Python {target.python} on {target.architecture}")


def download_pinned(pins: Sequence[Pin], target: Target, into: Path) -> None:
    """Fetch exactly these wheels.

    Raises:
        ImageFailed: one is not to be had.
    """
    requirements = into / "requirements.txt"
    requirements.write_text("".join(f"{pin.name}=={pin.version} --hash=sha256:{pin.sha256}\n" for pin in pins))
    argv = [*_PIP, "download", *target.options(), "--no-deps", "--require-hashes", f"--dest={into}"]
    run([*argv, f"--requirement={requirements}"], f"fetching the locked wheels for {target.architecture}")


def pin(wheel: Path) -> Pin:
    """What a lock says of a wheel."""
    said = metadata(wheel)
    return Pin(Kind.WHEEL, str(said["Name"]), str(said["Version"]), sha256_of(wheel))


def metadata(wheel: Path) -> Message:
    """What a wheel says about itself."""
    with WheelFile.open(wheel) as source:
        return Parser().parsestr(source.read_dist_info("METADATA"))


def unpack(wheel: Path, python: str) -> Tree:
    """The files of a wheel as they are installed, of programs but ours."""
    destination = _InTree(python)
    with WheelFile.open(wheel) as source:
        install(source, destination, {"INSTALLER": b"plugbay-image\n"})
    return destination.tree


class _InTree(WheelDestination):
    """Installs into a tree."""

    def __init__(self, python: str) -> None:
        self.tree = Tree()
        self._python = python

    def write_script(self, name: str, module: str, attr: str, section: str) -> RecordEntry:
        if name != PROGRAM:
            return RecordEntry(name, None, None)
        text = _SCRIPT.format(version=self._python, module=module, name=attr.split(".")[0], call=attr)
        return self._add(Scheme("scripts"), name, text.encode(), executable=True)

    def write_file(
        self, scheme: Scheme, path: str | os.PathLike[str], stream: BinaryIO, is_executable: bool
    ) -> RecordEntry:
        return self._add(scheme, os.fspath(path), stream.read(), executable=is_executable)

    def finalize_installation(
        self, scheme: Scheme, record_file_path: str, records: Iterable[tuple[Scheme, RecordEntry]]
    ) -> None:
        text = io.StringIO()
        rows = csv.writer(text, lineterminator="\n")
        for where, record in records:
            path = _place(where, record.path)
            if path in self.tree or record.path == record_file_path:
                rows.writerow([posixpath.relpath(path, PACKAGES), *record.to_row()[1:]])
        self.tree.add(_place(scheme, record_file_path), File(text.getvalue().encode()))

    def _add(self, scheme: Scheme, path: str, content: bytes, *, executable: bool) -> RecordEntry:
        if scheme != "headers":
            self.tree.add(_place(scheme, path), File(content, executable))
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
        return RecordEntry(path, Hash("sha256", digest), len(content))


def _place(scheme: str, path: str) -> str:
    match scheme:
        case "purelib" | "platlib":
            return f"{PACKAGES}/{path}"
        case "scripts":
            return f"usr/bin/{path}"
        case "data":
            return f"usr/{path}"
        case _:
            return f"usr/include/{path}"
