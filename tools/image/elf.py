"""What programs and libraries say of the libraries that they need."""

from __future__ import annotations

import io
from typing import Final

from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile
from elftools.elf.segments import InterpSegment

from tools.image.inputs import Architecture
from tools.image.problems import ImageFailed
from tools.image.tree import Tree

_MAGIC: Final = b"\x7fELF"
_MACHINES: Final = {Architecture.AMD64: "EM_X86_64", Architecture.ARM64: "EM_AARCH64"}


def needs(tree: Tree) -> set[str]:
    """Names of libraries."""
    return {name for _, content in _objects(tree) for name in _needed(content)}


def check(tree: Tree, architecture: Architecture) -> None:
    """See to it that every program finds its libraries, and fits the processor.

    Raises:
        ImageFailed: one does not.
    """
    there = {path.rpartition("/")[2] for path in tree}
    for path, content in _objects(tree):
        if (machine := ELFFile(io.BytesIO(content)).header["e_machine"]) != _MACHINES[architecture]:
            raise ImageFailed(f"/{path} is for another processor ({machine}) than {architecture}")
        for name in _needed(content):
            if name not in there:
                raise ImageFailed(f"/{path} needs {name}, which no package in the image has")


def interpreter(content: bytes) -> str:
    """The path of the loader that a program asks for.

    Raises:
        ImageFailed: it asks for none.
    """
    if content.startswith(_MAGIC):
        for segment in ELFFile(io.BytesIO(content)).iter_segments():
            if isinstance(segment, InterpSegment):
                return str(segment.get_interp_name())
    raise ImageFailed("the image's Python is not a program for Linux")


def _objects(tree: Tree) -> list[tuple[str, bytes]]:
    return [(path, file.content) for path, file in tree.files() if file.content.startswith(_MAGIC)]


def _needed(content: bytes) -> list[str]:
    for segment in ELFFile(io.BytesIO(content)).iter_segments():
        if isinstance(segment, DynamicSegment):
            # An attribute of tags of this kind alone.
            return [str(getattr(tag, "needed")) for tag in segment.iter_tags("DT_NEEDED")]  # noqa: B009
    return []
