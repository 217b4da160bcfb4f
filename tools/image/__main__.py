"""Make an OCI image of plugbay from Debian packages and wheels; needs apt, and neither a container engine nor root."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tools.image import layers, oci
from tools.image.build import Builder, Built, Plan
from tools.image.fetching import EXTRAS
from tools.image.inputs import Architecture
from tools.image.problems import ImageFailed, run
from tools.image.tree import write

SOURCE: Final = Path(__file__).parents[2]


def main(argv: Sequence[str]) -> int:
    arguments = _parser().parse_args(argv)
    try:
        _make(arguments)
    except ImageFailed as failed:
        print(f"image: {failed}", file=sys.stderr)
        return 1
    except OSError as failed:
        print(f"image: cannot write {failed.filename or arguments.out}: {failed.strerror}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.image", description=__doc__)
    parser.add_argument(
        "--variant", choices=list(EXTRAS), default="plugins", help="plugins (default), or nvidia with NVIDIA's bindings"
    )
    parser.add_argument(
        "--arch", choices=list(Architecture), action="append", help="a processor; may be repeated (default: all)"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where the image goes; made when absent")
    parser.add_argument(
        "--rootfs",
        type=Path,
        metavar="DIR",
        help="write its file system too, of one processor; an empty or absent directory",
    )
    parser.add_argument("--name", help="the image's name (default: localhost/plugbay-VARIANT:VERSION)")
    return parser


def _make(arguments: argparse.Namespace) -> None:
    out: Path = arguments.out
    plan = Plan(
        SOURCE,
        arguments.variant,
        [Architecture(each) for each in dict.fromkeys(arguments.arch or Architecture)],
        _epoch(),
        _revision(),
    )
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".making-", dir=out) as work:
        built = Builder(plan, Path(work)).build()
        for line in _written(built, arguments, Path(work) / "done"):
            print(line)


def _written(built: Sequence[Built], arguments: argparse.Namespace, work: Path) -> list[str]:
    """Write all beside its place, and put it there at the end; returns what to tell."""
    title = built[0].image.settings.labels["org.opencontainers.image.title"]
    version = built[0].image.settings.labels["org.opencontainers.image.version"]
    layout, digest = oci.layout([each.image for each in built], arguments.name or f"localhost/{title}:{version}")
    work.mkdir()
    (work / title).mkdir()
    write(layout, work / title)
    (work / f"{title}.tar").write_bytes(layers.archive(layout))
    (work / f"{title}.tar").chmod(0o644)
    if arguments.rootfs:
        rootfs = work / "rootfs"
        rootfs.mkdir()
        write(built[0].tree, rootfs)
        shutil.move(rootfs, arguments.rootfs)
    shutil.rmtree(arguments.out / title, ignore_errors=True)
    for path in sorted(work.iterdir()):
        path.rename(arguments.out / path.name)
    return [f"{arguments.out / title}.tar {digest}"]


def _epoch() -> int:
    if said := os.environ.get("SOURCE_DATE_EPOCH"):
        if not said.isdecimal():
            raise ImageFailed(f"SOURCE_DATE_EPOCH is {said!r}, and not seconds of the Unix clock")
        return int(said)
    return int(run(["git", "log", "-1", "--format=%ct"], "reading the date of the last commit", cwd=SOURCE))


def _revision() -> str:
    try:
        return run(["git", "rev-parse", "HEAD"], "reading the commit", cwd=SOURCE).decode().strip()
    except ImageFailed:
        return ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
