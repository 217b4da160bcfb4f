"""Tiny packages for tests of images."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path
from typing import Final

DIST_INFO: Final = "plugbay-1.0.dist-info"
CONTROL: Final = """\
Package: python3.11-minimal
Source: python3.11 (3.11.2-6)
Version: 1:3.11.2-6+deb12u9
Architecture: amd64
Section: python
Maintainer: Tests <tests@localhost>
Pre-Depends: libc6 (>= 2.34), media-types | mime-support
Depends: zlib1g:any (>= 1)
Description: a test
 with a second line
"""
COPYRIGHT: Final = b"Format: machine-readable\n\nFiles: *\nLicense: Expat or GPL-2+\n text\n"
OF_DEB: Final = {
    "lib/x86_64-linux-gnu/libtest.so.1": b"a library",
    "usr/bin/python3.11": b"a program",
    "usr/bin/sh": b"a shell",
    "usr/lib/python3.11/os.py": b"import sys\n",
    "usr/lib/python3.11/sitecustomize.py": b"import apport\n",
    "usr/lib/python3.11/test/test_os.py": b"",
    "usr/lib/python3.11/lib-dynload/_testcapi.so": b"",
    "usr/lib/x86_64-linux-gnu/gconv/BIG5.so": b"",
    "usr/lib/x86_64-linux-gnu/libtest.a": b"",
    "usr/share/doc/python3.11-minimal/README": b"read me",
    "usr/share/doc/python3.11-minimal/copyright": COPYRIGHT,
    "usr/share/locale/de/LC_MESSAGES/test.mo": b"",
    "usr/share/man/man1/python3.11.1.gz": b"",
}
OF_WHEEL: Final = {
    "plugbay/__init__.py": b"",
    "plugbay/main.py": b"NAMES = frozenset({'a', 'b', 'c', 'd'})\n\ndef run():\n    return NAMES\n",
    "plugbay-1.0.data/scripts/other": b"#!python\n",
    f"{DIST_INFO}/METADATA": b"Metadata-Version: 2.4\nName: plugbay\nVersion: 1.0\nSummary: tests\n"
    b"License-Expression: Apache-2.0\n",
    f"{DIST_INFO}/WHEEL": b"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    f"{DIST_INFO}/entry_points.txt": b"[console_scripts]\nplugbay = plugbay.main:run\nanother = plugbay.main:run\n",
}


def deb(directory: Path) -> Path:
    """A Debian package of a Python that is none."""
    root = directory / "deb"
    for path, content in OF_DEB.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
        (root / path).chmod(0o755 if "/bin/" in path else 0o600)
    (root / "usr/bin/python3.11").chmod(0o4777)
    (root / "usr/bin/python3").symlink_to("python3.11")
    (root / "DEBIAN").mkdir(mode=0o755)
    (root / "DEBIAN/control").write_text(CONTROL)
    made = directory / "python.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", root, made], check=True, capture_output=True)
    return made


def wheel(directory: Path) -> Path:
    """A wheel of a plugbay that does nothing."""
    made = directory / "plugbay-1.0-py3-none-any.whl"
    names = [*OF_WHEEL, f"{DIST_INFO}/RECORD"]
    with zipfile.ZipFile(made, "w") as archive:
        for name, content in OF_WHEEL.items():
            archive.writestr(name, content)
        archive.writestr(f"{DIST_INFO}/RECORD", "".join(f"{name},,\n" for name in names))
    return made
