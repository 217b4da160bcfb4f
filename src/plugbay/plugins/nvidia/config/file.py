"""Read a configuration file of version v1, YAML or JSON. Pure.

Source: k8s-device-plugin 0.20 ``api/config/v1/config.go``; spec 1.3 to 1.5.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import TYPE_CHECKING, Final

from plugbay.documents.go_json import compact
from plugbay.errors import InvalidDocument, InvalidNvidiaConfig
from plugbay.plugins.nvidia.config.arguments import Layer
from plugbay.plugins.nvidia.config.choices import Dialect
from plugbay.plugins.nvidia.config.fields import FieldValue, NameCase, Page, Section
from plugbay.plugins.nvidia.config.flags import DEVICE_LIST_STRATEGY, PLUGIN_FLAGS, ConfigFlag, FlagKind, FlagValue
from plugbay.plugins.nvidia.config.places import CONVERTING, DECODING, PARSING, ConfigPlace, Given
from plugbay.plugins.nvidia.config.resource_names import (
    NO_PATTERNS,
    ResourcePattern,
    ResourcePatterns,
    parse_gpu_resource,
)
from plugbay.plugins.nvidia.config.sharing import NO_SHARING, SharingSettings, read_sharing
from plugbay.values import dataclass

if TYPE_CHECKING:
    from plugbay.documents.texts import Document

VERSION: Final = "v1"
_FIELDS: Final = ("version", "flags", "resources", "sharing", "imex")
_OF_FLAGS: Final = tuple(flag for flag in PLUGIN_FLAGS if flag.field)
_KINDS: Final = {"list": "array", "str": "string", "bool": "bool", "int": "number", "float": "number"}
_STRATEGIES: Final = f"one of {', '.join(DEVICE_LIST_STRATEGY.allowed)}, or a list of them"


@dataclass(frozen=True, slots=True)
class ConfigContent:
    """The content of a file.

    Attributes:
        layer: the settings that can also be given as flags.
        patterns: the file's own, without those that a node always has.
        dialect: in which it was read.
        warnings: sentences for the log.
        mps_place: where it asks for MPS, or would.
    """

    layer: Layer = field(default_factory=dict)
    patterns: ResourcePatterns = NO_PATTERNS
    sharing: SharingSettings = NO_SHARING
    dialect: Dialect = Dialect.REFERENCE
    warnings: tuple[str, ...] = ()
    mps_place: ConfigPlace | None = None


def parse_file(text: str, *, source: str, dialect: Dialect = Dialect.REFERENCE) -> ConfigContent:
    """Read a configuration file; an empty one is an empty configuration.

    Args:
        source: the name of the file, for errors.

    Raises:
        InvalidNvidiaConfig: the first thing that is wrong, with its place and what is allowed there.
    """
    document, is_alone = _document(text, source, dialect)
    if document is None:
        return ConfigContent(dialect=dialect)
    page = Page(source, document.lines, dialect)
    if not is_alone:
        page.warn((), "more documents follow this one; they are ignored")
    for path, line in document.repeated.items():
        page.warn(path, f"duplicate key: it stands at line {line} as well, and the last one counts")
    if not isinstance(document.value, dict):
        kind = _KINDS[type(document.value).__name__]
        raise page.error((), f"json: cannot unmarshal {kind} into Go value of type v1.Config", "a mapping")
    root = FieldValue(document.value, (), page).section(_FIELDS)
    layer = _read_layer(root)
    patterns = _read_patterns(root.get("resources"))
    sharing = read_sharing(root.get("sharing"))
    version = root.get("version")
    if version is not None and version.text() not in ("", VERSION):
        raise page.place(version.path).error(f"unknown version: {version.text()}", step=PARSING, allowed=VERSION)
    return ConfigContent(layer, patterns, sharing, dialect, tuple(page.warnings), page.place(("sharing", "mps")))


def _document(text: str, source: str, dialect: Dialect) -> tuple[Document | None, bool]:
    """The document that counts, and whether nothing else follows."""
    # Imported here: PyYAML is large, and a plugin without a configuration file does not need it.
    from plugbay.documents.texts import RepeatedKeys, read_documents

    repeated = RepeatedKeys.REFUSED if dialect is Dialect.EXTENDED else RepeatedKeys.LAST_COUNTS
    try:
        documents = read_documents(text, source=source, repeated_keys=repeated)
        if dialect is Dialect.REFERENCE:
            return next(documents, None), _is_over(documents)
        found = list(documents)
    except InvalidDocument as error:
        step = DECODING if error.problem == "duplicate key" else CONVERTING
        raise InvalidNvidiaConfig(error.problem, error.field, error.line, error.source, step=step) from error
    if len(found) > 1:
        raise InvalidNvidiaConfig("holds more than one document", source=source, step=PARSING)
    return (found[0] if found else None), True


def _is_over(documents: Iterator[Document]) -> bool:
    try:
        return next(documents, None) is None
    except InvalidDocument:
        return False


def _read_layer(root: Section) -> Layer:
    layer: dict[str, Given[FlagValue]] = {}
    for name in ("flags", "imex"):
        for node in root.get_all(name):
            _read_section(node, (name,), layer)
    return layer


def _read_section(node: FieldValue, path: tuple[str, ...], layer: dict[str, Given[FlagValue]]) -> None:
    depth = len(path)
    below = [flag for flag in _OF_FLAGS if flag.field[:depth] == path]
    names = tuple(dict.fromkeys(flag.field[depth] for flag in below))
    section = node.section(names)
    by_name = {flag.field[depth]: flag for flag in below if len(flag.field) == depth + 1}
    for name in names:
        for found in section.get_all(name):
            if name in by_name:
                layer[by_name[name].key] = Given(_read_flag(by_name[name], found), found.page.place(found.path))
            else:
                _read_section(found, (*path, name), layer)


def _read_flag(flag: ConfigFlag, node: FieldValue) -> FlagValue:
    match flag.kind:
        case FlagKind.BOOLEAN:
            return node.boolean()
        case FlagKind.INTEGERS:
            return tuple(_integer(item) for item in node.items())
        case FlagKind.SPAN:
            return node.span()
        case FlagKind.TEXTS:
            return _strategies(node)
        case FlagKind.TEXT:
            return node.text()


def _integer(item: FieldValue) -> int:
    if item.value is None and item.page.is_lenient:
        item.page.warn(item.path, "null counts as 0")
        return 0
    return item.integer()


def _strategies(node: FieldValue) -> tuple[str, ...]:
    """A text is a list of one, and is not split at commas."""
    if isinstance(node.value, str):
        return (node.value,)
    if node.value == [] and node.page.is_lenient:
        node.page.warn(node.path, f"an empty list: containers get no device (allowed: {_STRATEGIES})")
    items = node.items() if isinstance(node.value, list) else [node]
    wrong = next((item for item in items if not isinstance(item.value, str)), None)
    if wrong is None:
        return tuple(item.text() for item in items)
    raise wrong.error(f"invalid deviceListStrategy: {compact(node.value)}", _STRATEGIES)


def _read_patterns(node: FieldValue | None) -> ResourcePatterns:
    if node is None:
        return NO_PATTERNS
    section = node.section(("gpus", "mig"))
    patterns = ResourcePatterns(*(tuple(_listed(section.get(name))) for name in ("gpus", "mig")))
    if patterns == NO_PATTERNS:
        return patterns
    node.page.warn_of_extension(node.path)
    return NO_PATTERNS if node.page.is_lenient else patterns


def _listed(node: FieldValue | None) -> list[ResourcePattern]:
    return [_read_pattern(item) for item in node.items()] if node is not None else []


def _read_pattern(node: FieldValue) -> ResourcePattern:
    section = node.section(("pattern", "name"), case=NameCase.EXACT)
    pattern, name = section.get("pattern"), section.get("name")
    if pattern is None and node.page.is_lenient and section.has("pattern"):
        pattern = FieldValue("", (*node.path, "pattern"), node.page)
    if pattern is None:
        raise section.error("resources must have a 'pattern' field set", "pattern", "a text in which * stands for any")
    if name is None:
        raise section.error("resources must have a 'name' field set", "name", "a resource name such as gpu-large")
    return ResourcePattern(pattern.text(), name.parsed(parse_gpu_resource))
