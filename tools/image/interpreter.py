"""The image's own Python, run on this machine: its compiler and its zlib make the same bytes on every machine."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.image import elf
from tools.image.inputs import Architecture
from tools.image.problems import ImageFailed, run
from tools.image.tree import File, Tree

_COMPILING = Path(__file__).with_name("compiling.py")
_COMPRESS = """
import gzip, shutil, sys
with gzip.GzipFile("", "wb", 6, sys.stdout.buffer, mtime=0) as out:
    shutil.copyfileobj(sys.stdin.buffer, out, 1 << 20)
"""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python, by the command line and environment that start it."""

    argv: tuple[str, ...]
    environ: tuple[tuple[str, str], ...] = ()

    def compile(self, sources: Sequence[str], root: Path, into: Path) -> Tree:
        """The compiled code of sources, which lie below ``root``; ``into`` is an empty directory.

        Raises:
            ImageFailed: one has a fault.
        """
        self._run([str(_COMPILING), str(root), str(into)], "compiling", "\n".join(sources).encode())
        compiled = Tree()
        for path in sorted(into.rglob("*.pyc")):
            compiled.add(path.relative_to(into).as_posix(), File(path.read_bytes()))
        return compiled

    def compress(self, content: bytes) -> bytes:
        """In gzip's format."""
        return self._run(["-c", _COMPRESS], "compressing", content)

    def _run(self, arguments: Sequence[str], doing: str, stdin: bytes) -> bytes:
        argv = [*self.argv, "-s", "-S", "-B", *arguments]
        return run(argv, f"{doing} with the image's Python", environ=dict(self.environ), stdin=stdin)


def of_image(tree: Tree, root: Path, version: str) -> Interpreter:
    """The Python of a file system that is written below ``root``; it needs neither rights nor a change of root."""
    python = tree.resolve(f"usr/bin/python{version}")
    entry = tree[python]
    assert isinstance(entry, File)
    loader = tree.resolve(elf.interpreter(entry.content))
    libraries = root / loader.rpartition("/")[0]
    return Interpreter(
        (str(root / loader), "--library-path", str(libraries), str(root / python)),
        # The order of sets must not be a matter of chance.
        (("PYTHONHOME", str(root / "usr")), ("PYTHONHASHSEED", "0")),
    )


def native() -> Architecture:
    """This machine's processor.

    Raises:
        ImageFailed: images are not made on such a machine.
    """
    for architecture in Architecture:
        if architecture.machine == platform.machine():
            return architecture
    raise ImageFailed(f"images are made on x86_64 and aarch64, and this machine is {platform.machine()}")
