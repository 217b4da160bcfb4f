"""Find, write and remove spec files in their directories."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TextIO

from plugbay.cdi.registry import Registry, SpecFile, registry_of
from plugbay.cdi.spec import Spec
from plugbay.cdi.text import Format, read_spec, write_spec
from plugbay.errors import InvalidCdiSpec, PathUnusable

SPEC_DIRECTORIES: Final = ("etc/cdi", "var/run/cdi")
"""Directories below ``/``: for static specs, and for generated ones, which take precedence."""

UNFINISHED_END: Final = ".tmp"
"""Engines do not read files whose names end so."""

_ENDINGS: Final = frozenset(each.value for each in Format)


def default_directories(root: Path) -> tuple[Path, ...]:
    """The directories that engines use by default, weakest first."""
    return tuple(root / each for each in SPEC_DIRECTORIES)


def scan(directories: Sequence[Path]) -> Registry:
    """The devices that the spec files in ``directories``, weakest first, define. Directories may be missing.

    Raises:
        PathUnusable: a directory cannot be listed.
    """
    files: list[SpecFile] = []
    bad: list[InvalidCdiSpec] = []
    for priority, directory in enumerate(directories):
        for path in spec_paths(directory):
            try:
                files.append(SpecFile(str(path), priority, read_file(path)))
            except InvalidCdiSpec as error:
                bad.append(error)
    return registry_of(files, bad, directories=[str(each) for each in directories])


def spec_paths(directory: Path) -> list[Path]:
    """The spec files right in ``directory``, by name.

    Raises:
        PathUnusable: it cannot be listed.
    """
    try:
        entries = sorted(directory.iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise PathUnusable(str(directory), f"cannot be listed: {error.strerror}") from error
    return [path for path in entries if _is_spec_name(path.name) and not path.is_dir()]


def _is_spec_name(name: str) -> bool:
    """Whether engines read a file of that name; one that is nothing but the ending counts."""
    return name.endswith(tuple(_ENDINGS))


def read_file(path: Path) -> Spec:
    """The spec in ``path``.

    Raises:
        InvalidCdiSpec: it cannot be read, or is not a good spec.
    """
    if path.is_fifo() or path.is_char_device():  # one may have no writer, the other no end
        raise InvalidCdiSpec(str(path), "is a FIFO or a device, not a file")
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidCdiSpec(str(path), f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidCdiSpec(str(path), f"byte {error.start} is not UTF-8") from error
    return read_spec(text, source=str(path))


def save(spec: Spec, directory: Path, name: str, *, form: Format = Format.JSON) -> Path:
    """Write ``spec`` as the file ``name`` without its ending, as `replacing` does it.

    Raises:
        PathUnusable: it cannot be written; nothing was changed.
    """
    if directory.exists() and not directory.is_dir():
        raise PathUnusable(str(directory), "is not a directory")
    path = directory / f"{name}{form.value}"
    try:
        directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        with replacing(path) as file:
            file.write(write_spec(spec, form))
    except OSError as error:
        raise PathUnusable(str(path), f"cannot be written: {error.strerror}") from error
    return path


@contextmanager
def replacing(path: Path, *, beginning: str = "spec.") -> Iterator[TextIO]:
    """A file that takes the place of ``path``, and is on the disk, when the block ends well.

    A reader sees the old file or the new one, whole, even after a crash.

    Args:
        beginning: of the name it has until then, in the same directory; `UNFINISHED_END` ends it.

    Raises:
        OSError: nothing was changed.
    """
    descriptor, temporary = tempfile.mkstemp(prefix=beginning, suffix=UNFINISHED_END, dir=path.parent)
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            yield file
            file.flush()
            os.fchmod(descriptor, 0o644)  # not before: until now no other process could open it, and lock it
            os.fsync(descriptor)
            os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    with contextlib.suppress(OSError):  # it has taken its place: that a crash may undo that is not a failure
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def spec_name(vendor: str, device_class: str, *, transient_id: str | None = None) -> str:
    """The name of a spec's file: one for its kind, or one that lives as long as the container ``transient_id``."""
    permanent = f"{vendor}-{device_class}"
    return permanent if transient_id is None else f"{permanent}_{transient_id.replace('/', '_')}"
