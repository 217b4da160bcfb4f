"""The wheels of plugbay and its libraries: built or fetched, and unpacked as a package manager has them."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from tools.deb.releases import ARCHITECTURES, Release

EXTRAS: Final = "node,nvidia"
_OLDEST_GLIBC: Final = 17
_FIRST: Final = ("manylinux1", "manylinux2010", "manylinux2014")
"""The tags of wheels before they named a version of glibc."""


def fetch_wheels(repository: Path, to: Path, *, release: Release, arch: str, constraint: Path | None) -> None:
    """Build plugbay's wheel, and fetch those that it needs from PyPI; nothing is compiled."""
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(to), str(repository)]
    subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
    (ours,) = to.glob("plugbay-*.whl")
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "download", "--dest", str(to)]
    command += ["--only-binary", ":all:", "--implementation", "cp", "--python-version", release.python]
    for tag in _platforms(release, ARCHITECTURES[arch]):
        command += ["--platform", tag]
    if constraint is not None:
        command += ["--constraint", str(constraint)]
    subprocess.run([*command, f"{ours}[{EXTRAS}]"], check=True)


def _platforms(release: Release, machine: str) -> Iterator[str]:
    for minor in range(release.glibc, _OLDEST_GLIBC - 1, -1):
        yield f"manylinux_2_{minor}_{machine}"
    yield from (f"{tag}_{machine}" for tag in _FIRST)


def unpack(wheels: Iterable[Path], site: Path) -> list[str]:
    """Unpack wheels to ``site``, without their programs; returns a line ``name==version`` for each but plugbay."""
    libraries = []
    for wheel in wheels:
        name, version = wheel.name.split("-")[:2]
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site, [each for each in archive.namelist() if _is_wanted(wheel, each)])
        if name != "plugbay":
            libraries.append(f"{name.replace('_', '-').lower()}=={version}")
    return sorted(libraries)


def _is_wanted(wheel: Path, name: str) -> bool:
    """Whether a file of a wheel belongs to the package; its programs do not."""
    directory, _, rest = name.partition("/")
    if not directory.endswith(".data"):
        return True
    if rest.startswith(("scripts/", "data/", "headers/")):
        return False
    raise SystemExit(f"{wheel.name}: {name} would have to be moved, which is not done here")
