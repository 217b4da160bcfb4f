"""Spec files: texts to values and back. Strict, as the engines are: one unknown field makes a file useless."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from enum import Enum
from typing import Any, Final

from plugbay.cdi.rules import check_spec
from plugbay.cdi.spec import KEYS, Edits, Hook, IntelRdt, NetDevice, Spec, SpecDevice, SpecDeviceNode, SpecMount
from plugbay.documents.texts import Document, read_documents, to_yaml
from plugbay.errors import InvalidCdiSpec, InvalidDocument
from plugbay.model.field_path import FieldPath, field_text


class Format(Enum):
    """The two text forms, by the ending of the file's name."""

    JSON = ".json"
    YAML = ".yaml"


def read_spec(text: str, *, source: str) -> Spec:
    """The spec in ``text``, which is YAML or JSON, checked. Engines look at the first document only, and so do we.

    Raises:
        InvalidCdiSpec: with the place, where there is one.
    """
    try:
        document = next(read_documents(text, source=source), None)
    except InvalidDocument as error:
        raise _error(source, error.problem, line=error.line, field=error.field) from error
    if document is None:
        raise InvalidCdiSpec(source, "no Spec data")
    spec: Spec = _Reader(document, source).value(Spec)
    check_spec(spec, source=source)
    return spec


def write_spec(spec: Spec, form: Format) -> str:
    """``spec`` as a text that every engine reads, without empty members."""
    value = plain(spec)
    if form is Format.JSON:
        text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
        return _NOT_IN_YAML.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
    return "---\n" + to_yaml(value)


def plain(value: object) -> Any:
    """A value of `plugbay.cdi.spec` as JSON values."""
    if type(value) in KEYS:
        keys = KEYS[type(value)]
        read = {keys[each.name]: plain(getattr(value, each.name)) for each in fields(value)}  # type: ignore[arg-type]  # KEYS holds dataclasses only
        return {key: each for key, each in read.items() if each or (key in _ALWAYS and each is not None)}
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    if isinstance(value, Mapping):
        return dict(value)
    return value


_NOT_IN_YAML: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Characters that JSON may hold as they are, and YAML, which engines read it as, may not."""

_HALF_A_CHARACTER: Final = re.compile("[\ud800-\udfff]")
"""An escape of JSON that has no meaning alone; the engines' reader refuses it."""

_ALWAYS: Final = frozenset({"devices", "fileMode", "uid", "gid", "timeout", "intelRdt"})
"""Members for which zero or nothing has a meaning; they are None if they are absent."""


class _Reader:
    """Builds values of one document, and keeps their places in it."""

    def __init__(self, document: Document, source: str) -> None:
        self._document = document
        self._source = source

    def value(self, cls: type) -> Any:
        return self._struct(cls)(self._document.value, ())

    def _struct(self, cls: type) -> Callable[[object, FieldPath], Any]:
        def read(value: object, path: FieldPath) -> Any:
            if value is None:
                return cls()
            if not isinstance(value, dict):
                raise self._error(path, f"wants a mapping, found {_found(value)}")
            folded = {key.casefold(): name for name, key in KEYS[cls].items()}
            given: dict[str, object] = {}
            for key, each in value.items():
                name = folded.get(key.casefold())
                if name is None:
                    raise self._error((*path, key), "unknown field")
                if each is not None:  # as in Go, null leaves a field as it is
                    given[name] = self._field(cls, name)(each, (*path, key))
            return cls(**given)

        return read

    def _field(self, cls: type, name: str) -> Callable[[object, FieldPath], object]:
        structs: dict[str, type] = {
            "device_nodes": SpecDeviceNode,
            "net_devices": NetDevice,
            "hooks": Hook,
            "mounts": SpecMount,
            "devices": SpecDevice,
        }
        if name in structs:
            return self._list(self._struct(structs[name]))
        match name:
            case "edits":
                return self._struct(Edits)
            case "intel_rdt":
                return self._struct(IntelRdt)
            case "annotations":
                return self._texts
            case "env" | "args" | "options" | "schemata":
                return self._list(self._text)
            case "additional_gids":
                return self._list(lambda value, path: 0 if value is None else self._unsigned(value, path))
            case "uid" | "gid" | "file_mode":
                return self._unsigned
            case "major" | "minor" | "timeout_s":
                return self._integer
            case "enable_monitoring":
                return self._boolean
            case _:
                return self._text

    def _list(self, item: Callable[[object, FieldPath], object]) -> Callable[[object, FieldPath], object]:
        def read(value: object, path: FieldPath) -> object:
            if not isinstance(value, list):
                raise self._error(path, f"wants a list, found {_found(value)}")
            return tuple(item(each, (*path, index)) for index, each in enumerate(value))

        return read

    def _texts(self, value: object, path: FieldPath) -> dict[str, object]:
        if not isinstance(value, dict):
            raise self._error(path, f"wants a mapping, found {_found(value)}")
        return {key: self._text(each, (*path, key)) for key, each in value.items()}

    def _text(self, value: object, path: FieldPath) -> str:
        """YAML's other scalars are texts where a text is wanted, as the engines' reader has it."""
        match value:
            case None:
                return ""
            case str() if _HALF_A_CHARACTER.search(value):
                raise self._error(path, "holds half of a character")
            case str():
                return value
            case bool():
                return str(value).lower()
            case int():
                return str(value)
            case float():
                return str(int(value)) if value.is_integer() else repr(value)
        raise self._error(path, f"wants a text, found {_found(value)}")

    def _integer(self, value: object, path: FieldPath) -> int:
        value = _whole(value)
        if isinstance(value, bool) or not isinstance(value, int) or not -(2**63) <= value < 2**63:
            raise self._error(path, f"wants an integer, found {_found(value)}")
        return value

    def _unsigned(self, value: object, path: FieldPath) -> int:
        value = _whole(value)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**32:
            raise self._error(path, f"wants an integer from 0 to 4294967295, found {_found(value)}")
        return value

    def _boolean(self, value: object, path: FieldPath) -> bool:
        if not isinstance(value, bool):
            raise self._error(path, f"wants true or false, found {_found(value)}")
        return value

    def _error(self, path: FieldPath, problem: str) -> InvalidCdiSpec:
        return _error(self._source, problem, line=self._document.lines.get(path), field=field_text(path))


def _whole(value: object) -> object:
    """``value``, as an integer if it is a number without a fraction: the engines' reader takes ``420.0`` for 420."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _error(source: str, problem: str, *, line: int | None, field: str) -> InvalidCdiSpec:
    place = [f"line {line}"] if line is not None else []
    return InvalidCdiSpec(source, ": ".join([*place, *([field] if field else []), problem]))


def _found(value: object) -> str:
    match value:
        case None:
            return "nothing"
        case bool() | int() | float():
            return str(value).lower()[:32]
        case str():
            return f'"{value[:32]}"'
        case list():
            return "a list"
        case _:
            return "a mapping"
