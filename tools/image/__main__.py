"""Make an OCI image of plugbay from Debian packages and wheels; needs apt, and neither a container engine nor root."""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NoReturn

from tools.image import lock, writing
from tools.image.build import Builder, Plan
from tools.image.fetching import EXTRAS
from tools.image.inputs import Architecture
from tools.image.problems import ImageFailed, run
from tools.image.settings import title
from tools.image.store import Store

SOURCE: Final = Path(__file__).parents[2]
_LATEST: Final = 253_402_300_799
"""The end of the last year of four digits."""
_NAME: Final = re.compile(r"[a-zA-Z0-9.-]+(:\d+)?(/[a-z0-9]+(([._]|__|-+)[a-z0-9]+)*)+:\w[\w.-]{0,127}", flags=re.ASCII)
"""Names that all engines take."""


def main(argv: Sequence[str]) -> int:
    try:
        arguments = _parser().parse_args(argv)
        print(_make(arguments))
    except ImageFailed as failed:
        print(f"image: {failed}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except OSError as failed:
        where = failed.filename or f"the image to {arguments.out}"
        print(f"image: cannot write {where}: {failed.strerror}", file=sys.stderr)
        return 1
    return 0


class _Parser(argparse.ArgumentParser):
    """Says one sentence about a wrong command line."""

    def error(self, message: str) -> NoReturn:
        raise ImageFailed(f"{message} (--help shows how)")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m tools.image", description=__doc__)
    variants, architectures = list(EXTRAS), [str(each) for each in Architecture]
    parser.add_argument("--variant", choices=variants, default="plugins", help="nvidia has NVIDIA's bindings as well")
    parser.add_argument("--arch", choices=architectures, action="append", help="may be repeated (default: all)")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where the image goes")
    parser.add_argument(
        "--rootfs", type=Path, metavar="DIR", help="write its file system, too; an empty or new directory"
    )
    parser.add_argument(
        "--lock", type=Path, metavar="FILE", help="take exactly the packages that an earlier build took"
    )
    parser.add_argument(
        "--packages", type=Path, metavar="DIR", help="keep fetched packages here, for builds without a network"
    )
    parser.add_argument("--name", help="the image's name (default: localhost/plugbay-VARIANT:VERSION)")
    return parser


def _make(arguments: argparse.Namespace) -> str:
    """Returns what to tell."""
    out: Path = arguments.out
    plan = _plan(arguments)
    if arguments.rootfs:
        writing.check_rootfs(arguments.rootfs, len(plan.architectures))
    if arguments.name and not _NAME.fullmatch(arguments.name):
        raise ImageFailed(f"--name {arguments.name!r} is not an image's name, as in registry.example.com/plugbay:1")
    out.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        # apt takes a path that does not begin at the root for one that does.
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=".making-", dir=out.absolute())))
        builder = Builder(plan, work / "build", Store(arguments.packages or work / "packages"))
        built = builder.build()
        made_of = builder.lock(built)
        version = built[0].image.settings.labels["org.opencontainers.image.version"]
        name = arguments.name or f"localhost/{title(plan.variant)}:{version}"
        (work / "done").mkdir()
        if arguments.rootfs:
            writing.write_rootfs(built[0], arguments.rootfs)
        digest = writing.write_image(built, made_of, name, out, work / "done")
    return f"{out / title(plan.variant)}.tar holds {name} ({', '.join(plan.architectures)}) {digest}"


def _plan(arguments: argparse.Namespace) -> Plan:
    architectures = [Architecture(each) for each in dict.fromkeys(arguments.arch or Architecture)]
    if arguments.lock is None:
        return Plan(SOURCE, arguments.variant, architectures, _epoch(), _revision())
    locked = lock.read(arguments.lock, arguments.variant, architectures)
    return Plan(SOURCE, locked.variant, architectures, locked.epoch, locked.revision, locked.packages)


def _epoch() -> int:
    if said := os.environ.get("SOURCE_DATE_EPOCH"):
        if not said.isdecimal() or int(said) > _LATEST:
            raise ImageFailed(f"SOURCE_DATE_EPOCH is {said!r}, and not seconds of the Unix clock")
        return int(said)
    try:
        return int(run(["git", "log", "-1", "--format=%ct"], "reading the date of the last commit", cwd=SOURCE))
    except ImageFailed:
        raise ImageFailed("this source has no commits to take a date from; set SOURCE_DATE_EPOCH") from None


def _revision() -> str:
    try:
        said = run(["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"], "asking git", cwd=SOURCE)
        return said.decode().strip()
    except ImageFailed:
        return ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
