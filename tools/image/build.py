"""An image from its packages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tools.image import debian, elf, fetching, interpreter, layers, oci, wheels
from tools.image.fetching import Part
from tools.image.inputs import Architecture
from tools.image.interpreter import Interpreter
from tools.image.problems import ImageFailed
from tools.image.tree import Tree, write

_ENVIRON: Final = {
    "PATH": "/usr/local/bin:/usr/bin",
    # The root may be read-only, and what is there is compiled.
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONNOUSERSITE": "1",
}
_NVIDIA_ENVIRON: Final = {
    # NVIDIA's runtime adds the driver's management library, and only that.
    "NVIDIA_DRIVER_CAPABILITIES": "utility",
    "NVIDIA_VISIBLE_DEVICES": "all",
}


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be built.

    Attributes:
        source: our source tree.
        epoch: seconds of the Unix clock that the image says it was made at.
        revision: of our source, or empty.
    """

    source: Path
    variant: str
    architectures: Sequence[Architecture]
    epoch: int
    revision: str = ""


@dataclass(frozen=True, slots=True)
class Built:
    """An image for one processor, and all its files."""

    image: oci.Image
    tree: Tree


@dataclass(frozen=True, slots=True)
class Stack:
    """The layers of an image, from the lowest up."""

    system: Tree
    required: Tree
    own: Tree

    def joined(self) -> Tree:
        tree = Tree()
        for each in (self.system, self.required, self.own):
            tree.update(each)
        return tree


class Builder:
    """Builds in ``work``, a directory of its own."""

    def __init__(self, plan: Plan, work: Path) -> None:
        self._plan = plan
        self._work = work
        self._systems: dict[Architecture, Sequence[Part]] = {}

    def build(self) -> list[Built]:
        """The image for each processor.

        Raises:
            ImageFailed: packages cannot be had, or do not go together.
        """
        ours = wheels.build(self._plan.source, self._directory("own"), self._plan.epoch)
        compiler = self._compiler()
        return [self._for(architecture, ours, compiler) for architecture in self._plan.architectures]

    def _for(self, architecture: Architecture, ours: Path, compiler: Interpreter) -> Built:
        system = self._system(architecture)
        self._check_compiler(system)
        target = wheels.Target(architecture, _python_of(system), _glibc_minor_of(system))
        files = fetching.wheel_files(ours, self._plan.variant, target, self._directory(f"{architecture}/wheels"))
        unpacked = {file: wheels.unpack(file, target.python) for file in files}
        stack = Stack(_system_tree(fetching.needed(system, *unpacked.values())), Tree(), Tree())
        for file, tree in unpacked.items():
            (stack.own if file == ours else stack.required).update(tree)
        elf.check(stack.joined(), architecture)
        self._compile(stack, compiler, self._work / architecture)
        layered = [
            _layer(stack.system, "Debian packages", compiler),
            _layer(stack.required, "wheels that plugbay requires", compiler, stack.system),
            _layer(stack.own, "plugbay", compiler, stack.system, stack.required),
        ]
        return Built(oci.Image(architecture, self._settings(ours), layered), stack.joined())

    def _compile(self, stack: Stack, compiler: Interpreter, work: Path) -> None:
        """Put compiled code beside its sources."""
        root, into = work / "root", work / "compiled"
        root.mkdir()
        write(stack.joined(), root)
        for tree in (stack.system, stack.required, stack.own):
            sources = [path for path, _ in tree.files() if path.endswith(".py")]
            tree.update(compiler.compile(sources, root, into))
            into = into.with_name(f"{into.name}+")

    def _compiler(self) -> Interpreter:
        """The image's Python for this machine."""
        system = self._system(interpreter.native())
        root = self._directory("compiler")
        tree = _system_tree(fetching.needed(system))
        write(tree, root)
        return interpreter.of_image(tree, root, _python_of(system))

    def _check_compiler(self, system: Sequence[Part]) -> None:
        native = self._system(interpreter.native())
        package = f"python{_python_of(native)}-minimal"
        ours, theirs = (_versions(each).get(package) for each in (native, system))
        if ours != theirs:
            raise ImageFailed(f"{package} is {ours} for this machine and {theirs or 'absent'} for the image")

    def _system(self, architecture: Architecture) -> Sequence[Part]:
        if architecture not in self._systems:
            found = fetching.debian_parts(architecture, self._directory(f"{architecture}/debian"))
            self._systems[architecture] = found
        return self._systems[architecture]

    def _settings(self, ours: Path) -> oci.Settings:
        said = wheels.metadata(ours)
        created = datetime.fromtimestamp(self._plan.epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        labels = {
            "org.opencontainers.image.created": created,
            "org.opencontainers.image.description": said["Summary"],
            "org.opencontainers.image.licenses": said["License-Expression"],
            "org.opencontainers.image.title": f"plugbay-{self._plan.variant}",
            "org.opencontainers.image.version": said["Version"],
        }
        if self._plan.revision:
            labels["org.opencontainers.image.revision"] = self._plan.revision
        environ = _ENVIRON | (_NVIDIA_ENVIRON if self._plan.variant == "nvidia" else {})
        return oci.Settings(created, environ, entrypoint=[wheels.PROGRAM], command=["--help"], labels=labels)

    def _directory(self, name: str) -> Path:
        directory = self._work / name
        directory.mkdir(parents=True)
        return directory


def _system_tree(parts: Sequence[Part]) -> Tree:
    tree = debian.skeleton()
    for part in parts:
        tree.update(part.tree)
    return tree


def _layer(tree: Tree, made_by: str, compiler: Interpreter, *below: Tree) -> oci.Layer:
    plain = layers.archive(tree, *below)
    return oci.Layer(oci.digest(plain), compiler.compress(plain), made_by)


def _python_of(parts: Sequence[Part]) -> str:
    return debian.python_version(next(part.stanza for part in parts if part.name == debian.PYTHON))


def _glibc_minor_of(parts: Sequence[Part]) -> int:
    match = re.match(r"(?:\d+:)?2\.(\d+)", _versions(parts)["libc6"])
    if match is None:
        raise ImageFailed(f"libc6 has a version that is none of glibc: {_versions(parts)['libc6']}")
    return int(match[1])


def _versions(parts: Sequence[Part]) -> dict[str, str]:
    return {part.name: part.version for part in parts}
