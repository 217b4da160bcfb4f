"""Sets of fields: what an entry of ``metadata.managedFields`` owns. Pure.

Source: structured-merge-diff v6 ``fieldpath/set.go``, ``fieldpath/serialize.go``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field

from plugbay.documents import Json
from plugbay.node.api.applying.elements import Element, Path, UnreadableElement, element_order, read_element
from plugbay.values import dataclass


class UnreadableSet(ValueError):
    """``FieldsV1`` that cannot be read; its text says why."""


@dataclass(frozen=True, slots=True)
class FieldSet:
    """A set of fields, as a tree. A field may be in it without those below it, and the other way round.

    Attributes:
        members: the steps that lead to fields of the set.
        children: the sets below other steps, none of them empty.
    """

    members: frozenset[Element] = frozenset()
    children: Mapping[Element, FieldSet] = field(default_factory=dict)

    @classmethod
    def of(cls, paths: Iterable[Path]) -> FieldSet:
        """The set of these fields; the empty path, the object as a whole, is never in a set."""
        members: set[Element] = set()
        below: dict[Element, list[Path]] = {}
        for first, *rest in filter(None, paths):
            if rest:
                below.setdefault(first, []).append(tuple(rest))
            else:
                members.add(first)
        return cls(frozenset(members), {step: cls.of(each) for step, each in below.items()})

    def __bool__(self) -> bool:
        return bool(self.members or self.children)

    def __contains__(self, path: object) -> bool:
        if not isinstance(path, tuple) or not path:
            return False
        here: FieldSet | None = self
        for step in path[:-1]:
            here = here and here.children.get(step)
        return here is not None and path[-1] in here.members

    def __or__(self, other: FieldSet) -> FieldSet:
        children = dict(self.children)
        for step, below in other.children.items():
            children[step] = children[step] | below if step in children else below
        return FieldSet(self.members | other.members, children)

    def __and__(self, other: FieldSet) -> FieldSet:
        children = {
            step: below & other.children[step] for step, below in self.children.items() if step in other.children
        }
        return _pruned(self.members & other.members, children)

    def __sub__(self, other: FieldSet) -> FieldSet:
        """Without the members of ``other``; what lies below them stays."""
        children = {step: below - other.below(step) for step, below in self.children.items()}
        return _pruned(self.members - other.members, children)

    def without_below(self, other: FieldSet) -> FieldSet:
        """Without the members of ``other`` and all that lies below them."""
        children = {
            step: below.without_below(other.below(step))
            for step, below in self.children.items()
            if step not in other.members
        }
        return _pruned(self.members - other.members, children)

    def below(self, step: Element) -> FieldSet:
        """The part below a step, with paths that begin there."""
        return self.children.get(step, EMPTY)

    def paths(self) -> Iterator[Path]:
        """All fields, in order: at each level the members before what lies below."""
        for member in sorted(self.members, key=element_order):
            yield (member,)
        for step in sorted(self.children, key=element_order):
            for path in self.children[step].paths():
                yield (step, *path)

    def to_v1(self) -> Json:
        """The set as ``FieldsV1``."""
        written: Json = {}
        for step in sorted(self.members | self.children.keys(), key=element_order):
            own: Json = {".": {}} if step in self.members and step in self.children else {}
            written[step] = own | self.below(step).to_v1()
        return written

    @classmethod
    def from_v1(cls, fields: object) -> FieldSet:
        """The set that ``FieldsV1`` describes; steps of an unknown kind are left out.

        Raises:
            UnreadableSet: it describes none.
        """
        return _read(fields)[0]


EMPTY = FieldSet()


def _pruned(members: frozenset[Element], children: Mapping[Element, FieldSet]) -> FieldSet:
    return FieldSet(members, {step: below for step, below in children.items() if below})


def _read(fields: object) -> tuple[FieldSet, bool]:
    """The set, and whether what it is below is a member itself."""
    if not isinstance(fields, dict):
        if fields is None:
            return EMPTY, True
        raise UnreadableSet("a set of fields must be an object")
    members: set[Element] = set()
    children: dict[Element, FieldSet] = {}
    for text, inner in fields.items():
        if text == ".":
            continue
        try:
            step = read_element(text)
        except UnreadableElement as error:
            raise UnreadableSet(str(error)) from None
        if step is None:
            continue
        below, is_member = _read(inner)
        if is_member:
            members.add(step)
        if below:
            children[step] = below
    found = FieldSet(frozenset(members), children)
    return found, "." in fields or not found
