"""An image from its packages."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools.image import debian, describing, elf, fetching, interpreter, layers, oci, sbom, settings, wheels
from tools.image.apt import Apt
from tools.image.fetching import DebianPart, WheelPart
from tools.image.inputs import Architecture, Pin
from tools.image.interpreter import Interpreter
from tools.image.lock import Lock, differences
from tools.image.problems import ImageFailed
from tools.image.store import Store
from tools.image.tree import File, Tree, write


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be built.

    Attributes:
        source: our source tree.
        epoch: seconds of the Unix clock that the image says it was made at.
        revision: of our source, or empty.
        locked: packages to take, by processor; without them, those that apt and pip offer now.
    """

    source: Path
    variant: str
    architectures: Sequence[Architecture]
    epoch: int
    revision: str = ""
    locked: Mapping[Architecture, Sequence[Pin]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Built:
    """An image for one processor, all its files, and what it was made of."""

    image: oci.Image
    tree: Tree
    pins: Sequence[Pin]

    @property
    def sbom(self) -> bytes:
        entry = self.tree[sbom.PATH]
        assert isinstance(entry, File)
        return entry.content


@dataclass(frozen=True, slots=True)
class Stack:
    """The layers of an image, from the lowest up."""

    system: Tree
    required: Tree
    own: Tree

    def joined(self) -> Tree:
        return joined(self.system, self.required, self.own)


class Builder:
    """Builds in ``work``, a directory of its own, from packages that it keeps in a store."""

    def __init__(self, plan: Plan, work: Path, store: Store) -> None:
        self._plan = plan
        self._work = work
        self._store = store
        self._systems: dict[Architecture, Sequence[DebianPart]] = {}

    def build(self) -> list[Built]:
        """The image for each processor.

        Raises:
            ImageFailed: packages cannot be had, or do not go together.
        """
        ours = self._ours()
        compiler = self._compiler()
        return [self._for(architecture, ours, compiler) for architecture in self._plan.architectures]

    def lock(self, built: Sequence[Built]) -> Lock:
        """From which the same images can be made again."""
        plan = self._plan
        packages = {each.image.architecture: sorted(each.pins) for each in built}
        return Lock(variant=plan.variant, epoch=plan.epoch, revision=plan.revision, packages=packages)

    def _for(self, architecture: Architecture, ours: Path, compiler: Interpreter) -> Built:
        candidates = self._system(architecture)
        self._check_compiler(candidates)
        target = wheels.Target(architecture, _python_of(candidates), _glibc_minor_of(candidates))
        installed = self._wheels(ours, target)
        system = fetching.needed(candidates, *(wheel.tree for wheel in installed))
        stack = Stack(_system_tree(system), joined(*(each.tree for each in installed[1:])), joined(installed[0].tree))
        elf.check(stack.joined(), architecture)
        subject = settings.subject(installed[0], self._plan.variant, architecture, self._plan.epoch)
        components = describing.components(system, installed, stack.system, architecture)
        stack.own.add(sbom.PATH, File(sbom.document(subject, components)))
        self._compile(stack, compiler, self._work / architecture)
        layered = [
            _layer(stack.system, "Debian packages", compiler),
            _layer(stack.required, "wheels that plugbay requires", compiler, stack.system),
            _layer(stack.own, "plugbay", compiler, stack.system, stack.required),
        ]
        how = settings.of(installed[0], self._plan.variant, self._plan.epoch, self._plan.revision)
        pins = [*(part.pin for part in system), *(wheel.pin for wheel in installed)]
        return Built(oci.Image(architecture, how, layered), stack.joined(), pins)

    def _compile(self, stack: Stack, compiler: Interpreter, work: Path) -> None:
        """Put compiled code beside its sources."""
        root = work / "root"
        root.mkdir(parents=True)
        write(stack.joined(), root)
        for name, tree in {"system": stack.system, "required": stack.required, "own": stack.own}.items():
            sources = [path for path, _ in tree.files() if path.endswith(".py")]
            tree.update(compiler.compile(sources, root, work / name))

    def _compiler(self) -> Interpreter:
        """The image's Python for this machine."""
        system = self._system(interpreter.native())
        root = self._directory("compiler")
        tree = _system_tree(fetching.needed(system))
        write(tree, root)
        return interpreter.of_image(tree, root, _python_of(system))

    def _check_compiler(self, system: Sequence[DebianPart]) -> None:
        """What compiles and compresses decides bytes."""
        native = self._system(interpreter.native())
        for package in (f"python{_python_of(native)}-minimal", "zlib1g"):
            ours, theirs = (_versions(each).get(package) for each in (native, system))
            if ours != theirs:
                raise ImageFailed(f"{package} is {ours} for this machine and {theirs or 'absent'} for the image")

    def _system(self, architecture: Architecture) -> Sequence[DebianPart]:
        if architecture not in self._systems:
            apt = Apt(self._directory(f"apt-{architecture}"), architecture)
            if locked := self._plan.locked.get(architecture):
                self._systems[architecture] = fetching.locked_debian_parts(apt, locked, self._store)
            else:
                self._systems[architecture] = fetching.debian_parts(apt, self._store)
        return self._systems[architecture]

    def _wheels(self, ours: Path, target: wheels.Target) -> list[WheelPart]:
        """Ours is the first."""
        if locked := self._plan.locked.get(target.architecture):
            return fetching.locked_wheel_parts(locked, target, self._store)
        return fetching.wheel_parts(ours, self._plan.variant, target, self._store)

    def _ours(self) -> Path:
        """The wheel of our source, unless the lock names another that is in the store."""
        locked = {pin for pins in self._plan.locked.values() for pin in pins if pin.name == wheels.PROGRAM}
        if locked and not self._store.missing(locked):
            return self._store[next(iter(locked)).sha256]
        made = wheels.build(self._plan.source, self._directory("own"), self._plan.epoch)
        pin = wheels.pin(made)
        if others := sorted(locked - {pin}):
            raise ImageFailed(f"{differences(others, {(pin.kind, pin.name): pin})}, made of {self._plan.source}")
        return self._store.add(made)

    def _directory(self, name: str) -> Path:
        directory = self._work / name
        directory.mkdir(parents=True)
        return directory


def joined(*trees: Tree) -> Tree:
    """All their files."""
    made = Tree()
    for tree in trees:
        made.update(tree)
    return made


def _system_tree(parts: Sequence[DebianPart]) -> Tree:
    return joined(debian.skeleton(), *(part.tree for part in parts), describing.records(parts))


def _layer(tree: Tree, made_by: str, compiler: Interpreter, *below: Tree) -> oci.Layer:
    plain = layers.archive(tree, *below)
    return oci.Layer(oci.digest(plain), compiler.compress(plain), made_by)


def _python_of(parts: Sequence[DebianPart]) -> str:
    return debian.python_version(next(part.stanza for part in parts if part.pin.name == debian.PYTHON))


def _glibc_minor_of(parts: Sequence[DebianPart]) -> int:
    match = re.match(r"(?:\d+:)?2\.(\d+)", _versions(parts)["libc6"])
    if match is None:
        raise ImageFailed(f"libc6 has a version that is none of glibc: {_versions(parts)['libc6']}")
    return int(match[1])


def _versions(parts: Sequence[DebianPart]) -> dict[str, str]:
    return {part.pin.name: part.pin.version for part in parts}
