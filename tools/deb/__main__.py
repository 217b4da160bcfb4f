"""Build the Debian package: ``python -m tools.deb``, or ``make deb``.

By dpkg-deb alone, without debhelper: the package is a wheel with its libraries, a dozen files beside it, and scripts of
a few lines. What debhelper adds would be switched off (it rewrites Python's paths, strips libraries and starts
services), and a build needs nothing then that Debian's base does not have.

The libraries are wheels from PyPI, below /usr/lib/plugbay: Debian 12 and 13 have protobuf 3.21 and hpack 4.0, which are
too old, and Debian 12 has no msgspec. C extensions are made for one Python, so that each release of Debian has its own
package. Wheels of any architecture can be fetched anywhere, and nothing is compiled.

``$DEBFULLNAME`` and ``$DEBEMAIL`` name the maintainer, as for Debian's other tools.

The same sources and libraries give the same bytes, wherever and whenever they are built. `libraries.txt` in the package
names the libraries: given as ``--constraint`` it builds the same package later.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.deb.package import Package, build_package
from tools.deb.releases import ARCHITECTURES, RELEASES, this_architecture, this_release
from tools.deb.wheels import fetch_wheels

REPOSITORY = Path(__file__).parents[2]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.deb", description="Build plugbay's Debian package.")
    parser.add_argument(
        "--release", choices=RELEASES, default=this_release(), help="of Debian (default: this machine's)"
    )
    parser.add_argument("--arch", choices=ARCHITECTURES, default=this_architecture(), help="default: this machine's")
    parser.add_argument("--out", metavar="DIR", type=Path, default=REPOSITORY / "dist", help="default: dist")
    parser.add_argument("--constraint", metavar="FILE", type=Path, help="versions of the libraries, for pip")
    parser.add_argument(
        "--wheels", metavar="DIR", type=Path, help="use the wheels of this directory, or leave them there"
    )
    args = parser.parse_args()
    if args.release is None or args.arch is None:
        parser.error("this machine is none of those that a package is made for: give --release and --arch")
    release = RELEASES[args.release]
    args.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="plugbay-deb-") as scratch:
        wheels = args.wheels or Path(scratch) / "wheels"
        if not (wheels.is_dir() and any(wheels.glob("*.whl"))):
            fetch_wheels(REPOSITORY, wheels, release=release, arch=args.arch, constraint=args.constraint)
        package = Package(REPOSITORY, release, args.arch, epoch_of(REPOSITORY))
        print(build_package(package, sorted(wheels.glob("*.whl")), Path(scratch) / "tree", args.out))
    return 0


def epoch_of(repository: Path) -> int:
    """The time of every file in the package: ``$SOURCE_DATE_EPOCH``, else that of the last commit, else a fixed one."""
    if epoch := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(epoch)
    git = ["git", "-C", str(repository), "log", "-1", "--format=%ct"]
    done = subprocess.run(git, capture_output=True, text=True, check=False)
    return int(done.stdout) if done.returncode == 0 else 1580601600


if __name__ == "__main__":
    sys.exit(main())
