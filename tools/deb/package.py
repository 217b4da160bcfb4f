"""The package: its tree, what dpkg is told of it, and dpkg-deb."""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import subprocess
import tomllib
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path
from typing import Final

from tools.deb.generated import completions, manual
from tools.deb.releases import Release
from tools.deb.wheels import unpack

HOME: Final = "usr/lib/plugbay"
UNITS: Final = ("plugbay.service", "plugbay@.service", "plugbay-node.service")
_SCRIPTS: Final = ("postinst", "prerm", "postrm")
_CONFFILES: Final = {"plugins.yaml": "etc/plugbay/plugins.yaml", "plugbay.default": "etc/default/plugbay"}
_PLACES: Final = {
    "plugbay.sysusers": "usr/lib/sysusers.d/plugbay.conf",
    "plugbay.tmpfiles": "usr/lib/tmpfiles.d/plugbay.conf",
    "copyright": "usr/share/doc/plugbay/copyright",
    "README.Debian": "usr/share/doc/plugbay/README.Debian",
    "unprivileged.conf": "usr/share/doc/plugbay/examples/unprivileged.conf",
    "lintian-overrides": "usr/share/lintian/overrides/plugbay",
}
_COMMAND: Final = """\
#!/usr/lib/plugbay/bin/python3
import sys

from plugbay.cli.main import run

sys.exit(run())
"""
_DESCRIPTION: Final = """\
Kubernetes device plugins in Python, and a node to try them
 plugbay serves device plugins to a kubelet: ready-made ones, such as the
 entries of a directory or NVIDIA GPUs, and those that a few lines of Python
 describe. It shows which containers hold which devices, judges plugins in any
 language, and runs a node of one machine with pods of its own.
"""


@dataclass(frozen=True, slots=True)
class Package:
    """Attributes: ``epoch`` is the time of all its files."""

    repository: Path
    release: Release
    arch: str
    epoch: int

    @property
    def maintainer(self) -> str:
        name, address = os.environ.get("DEBFULLNAME", "plugbay"), os.environ.get("DEBEMAIL", "plugbay@localhost")
        return f"{name} <{address}>"

    @property
    def version(self) -> str:
        """Debian's, of the one in pyproject.toml: 0.2.0rc1 comes before 0.2.0."""
        project = tomllib.loads((self.repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        return re.sub(r"(?<=\d)\.?(a|b|rc|dev)(?=\d)", r"~\1", project["version"]) + f"-1{self.release.suffix}"


def build_package(package: Package, wheels: list[Path], tree: Path, to: Path) -> Path:
    """Make ``tree``, and the package of it in the directory ``to``; returns its path."""
    _lay_out(package, wheels, tree)
    sources = package.repository / "packaging/deb"
    for name in _SCRIPTS:
        text = (sources / name).read_text(encoding="utf-8")
        _write(tree / "DEBIAN" / name, text, mode=0o755)
    _write(tree / "DEBIAN/conffiles", "".join(f"/{place}\n" for place in _CONFFILES.values()))
    files = [path for path in sorted(tree.rglob("*")) if path.is_file() and not path.is_symlink()]
    held = [path for path in files if path.parent.name != "DEBIAN"]
    sums = (f"{hashlib.md5(path.read_bytes()).hexdigest()}  {path.relative_to(tree)}\n" for path in held)
    _write(tree / "DEBIAN/md5sums", "".join(sums))
    _write(tree / "DEBIAN/control", _control(package, sum(path.stat().st_size for path in held)))
    for path in (tree, *tree.rglob("*")):
        if not path.is_symlink():
            is_open = path.is_dir() or path.stat().st_mode & 0o100
            path.chmod(0o755 if is_open else 0o644)
        os.utime(path, (package.epoch, package.epoch), follow_symlinks=False)
    made = to / f"plugbay_{package.version}_{package.arch}.deb"
    environ = {**os.environ, "SOURCE_DATE_EPOCH": str(package.epoch)}
    command = ["dpkg-deb", "--root-owner-group", "--build", str(tree), str(made)]
    subprocess.run(command, check=True, env=environ, stdout=subprocess.DEVNULL)
    return made


def _lay_out(package: Package, wheels: list[Path], tree: Path) -> None:
    sources, python = package.repository / "packaging/deb", package.release.python
    libraries = unpack(wheels, tree / HOME / f"lib/python{python}/site-packages")
    for path in (tree / HOME).rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    # A virtual environment: what starts another Python, by sys.executable, starts one that knows plugbay.
    _write(tree / HOME / "pyvenv.cfg", "home = /usr/bin\ninclude-system-site-packages = true\n")
    (tree / HOME / "bin").mkdir()
    (tree / HOME / "bin/python3").symlink_to(f"../../../bin/python{python}")
    _write(tree / "usr/bin/plugbay", _COMMAND, mode=0o755)
    service = (sources / "service.in").read_text(encoding="utf-8")
    for unit in UNITS:
        text = (sources / unit).read_text(encoding="utf-8")
        _write(tree / "usr/lib/systemd/system" / unit, text.replace("@SERVICE@\n", service))
    for name, place in (*_CONFFILES.items(), *_PLACES.items()):
        _write(tree / place, (sources / name).read_text(encoding="utf-8"))
    for place, text in completions().items():
        _write(tree / place, text)
    doc = tree / "usr/share/doc/plugbay"
    _write(doc / "libraries.txt", "".join(f"{each}\n" for each in libraries))
    _write_packed(doc / "changelog.gz", (package.repository / "CHANGELOG.md").read_text(encoding="utf-8"))
    _write_packed(doc / "changelog.Debian.gz", _debian_changelog(package))
    _write_packed(tree / "usr/share/man/man1/plugbay.1.gz", manual(package.version))


def _control(package: Package, size: int) -> str:
    major, minor = package.release.python.split(".")
    return (
        f"Package: plugbay\nVersion: {package.version}\nArchitecture: {package.arch}\n"
        f"Maintainer: {package.maintainer}\n"
        f"Installed-Size: {-(-size // 1024)}\nSection: admin\nPriority: optional\n"
        f"Depends: python3 (>= {package.release.python}~), python3 (<< {major}.{int(minor) + 1}~), "
        f"python{package.release.python}, libc6 (>= 2.{package.release.glibc}), libgcc-s1, libstdc++6\n"
        "Recommends: systemd\nSuggests: acl, containernetworking-plugins, crun | runc | containerd\n"
        f"Description: {_DESCRIPTION}"
    )


def _debian_changelog(package: Package) -> str:
    when = formatdate(package.epoch)
    begin = f"plugbay ({package.version}) unstable; urgency=medium"
    return f"{begin}\n\n  * See changelog.gz.\n\n -- {package.maintainer}  {when}\n"


def _write(path: Path, text: str, *, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)


def _write_packed(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
