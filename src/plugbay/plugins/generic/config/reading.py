"""Texts to configs: all problems of a text are found, each with its line and column. Pure."""

from __future__ import annotations

from typing import Final

from plugbay.errors import InvalidDocument
from plugbay.plugins.generic.config.building import EntryBuilder
from plugbay.plugins.generic.config.compat import Compat
from plugbay.plugins.generic.config.dialects import (
    MICROSHIFT,
    MICROSHIFT_DOMAIN,
    refuse_disabled,
    section_of,
)
from plugbay.plugins.generic.config.fields import ENTRY, FILE
from plugbay.plugins.generic.config.nodes import ConfigFormat, Keyed, Keys, Node, Scalar, Series, read_yaml
from plugbay.plugins.generic.config.owners import refuse_paths_of_two
from plugbay.plugins.generic.config.problems import ConfigFindings, ConfigProblem, in_order
from plugbay.plugins.generic.config.records import NO_RECORD, Record
from plugbay.plugins.generic.config.rules import GenericConfig
from plugbay.plugins.generic.config.shapes import ShapeContext
from plugbay.plugins.generic.config.smarter import is_of_smarter, read_of_smarter
from plugbay.plugins.generic.config.spots import Spot
from plugbay.values import dataclass

DEFAULT_DOMAIN: Final = "devic.es"
"""Domain of a file that names none.

Source: squat/generic-device-plugin 0.2; up to 0.1 it was ``squat.ai``.
"""
_OLD_DOMAIN: Final = "squat.ai"
_TOP: Final = Spot(1, 1)
_SETTINGS: Final = ("listen", "log-level", "plugin-directory")


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The circumstances under which a text is read.

    Attributes:
        is_lenient: whether what squat's plugin ignores is a warning only.
        domain: instead of the text's own; empty for that.
        skips_devices: whether the text's devices do not count, and are not read.
    """

    is_lenient: bool = False
    domain: str = ""
    skips_devices: bool = False


STRICT: Final = ReadOptions()


@dataclass(frozen=True, slots=True)
class ReadOutcome:
    """A text that was read.

    Attributes:
        config: None if something is wrong.
        errors, warnings: in the order of the text.
    """

    config: GenericConfig | None
    errors: tuple[ConfigProblem, ...]
    warnings: tuple[ConfigProblem, ...]


def read_config(
    text: str, *, source: str, language: ConfigFormat = ConfigFormat.YAML, options: ReadOptions = STRICT
) -> GenericConfig:
    """Read a config.

    Args:
        source: the name of the file, for messages.

    Raises:
        InvalidGenericConfig: something is wrong with it; all problems are in it.
    """
    findings = ConfigFindings(source, is_lenient=options.is_lenient)
    config = _read(text, findings, language, options)
    findings.raise_errors()
    assert config is not None
    return config


def examine_config(
    text: str, *, source: str, language: ConfigFormat = ConfigFormat.YAML, options: ReadOptions = STRICT
) -> ReadOutcome:
    """Read a config as `read_config` does, and return its problems as values."""
    findings = ConfigFindings(source, is_lenient=options.is_lenient)
    config = _read(text, findings, language, options)
    return ReadOutcome(None if findings.errors else config, in_order(findings.errors), in_order(findings.warnings))


def parse_device_flag(text: str, *, source: str, options: ReadOptions = STRICT) -> GenericConfig:
    """Read one ``--device``: an entry in YAML or JSON.

    Args:
        source: such as ``--device``, for messages, whose lines and columns are those of the text.

    Raises:
        InvalidGenericConfig: something is wrong with it.
    """
    findings = ConfigFindings(source, is_lenient=options.is_lenient)
    node = _parse(text, findings, ConfigFormat.YAML)
    if isinstance(node, Scalar):
        problem = 'is not a device entry; write one such as {name: serial, paths: ["/dev/ttyUSB*"]}'
        findings.error(node.spot, (), problem)
    findings.raise_errors()
    assert node is not None
    context = ShapeContext(findings, ConfigFormat.YAML)
    record = ENTRY.read(node, (), context)
    records = (record,) if isinstance(record, Record) else ()
    entries = EntryBuilder(findings, domain=options.domain or DEFAULT_DOMAIN, compat=frozenset()).build(records)
    findings.raise_errors()
    return GenericConfig(source, entries, warnings=in_order(findings.warnings))


def _read(text: str, findings: ConfigFindings, language: ConfigFormat, options: ReadOptions) -> GenericConfig | None:
    node = _parse(text, findings, language)
    if node is None:
        return None
    return _FileReader(findings, language, options).read(node)


def _parse(text: str, findings: ConfigFindings, language: ConfigFormat) -> Node | None:
    """The tree of a text; None if it is broken or empty, which is noted."""
    try:
        node = _tree(text, findings.source, language)
    except InvalidDocument as error:
        findings.error(Spot(error.line or 1, error.column or 1), (), error.problem)
        return None
    except RecursionError:
        findings.error(_TOP, (), "is nested too deeply")
        return None
    if node is None:
        findings.error(_TOP, (), "is empty; a config has devices, see `plugbay presets`")
    return node


def _tree(text: str, source: str, language: ConfigFormat) -> Node | None:
    match language:
        case ConfigFormat.YAML:
            return read_yaml(text, source=source)
        case ConfigFormat.JSON:
            # Imported here, as below: a process with another file does without.
            from plugbay.plugins.generic.config.json_nodes import read_json

            return read_json(text, source=source)
        case ConfigFormat.TOML:
            from plugbay.plugins.generic.config.toml_nodes import read_toml

            return read_toml(text, source=source)


class _FileReader:
    def __init__(self, findings: ConfigFindings, language: ConfigFormat, options: ReadOptions) -> None:
        self._findings = findings
        self._language = language
        self._options = options

    def read(self, node: Node) -> GenericConfig:
        if is_of_smarter(node):
            return self._smarter(node)
        section = section_of(node)
        return self._file(node) if section is None else self._microshift(section)

    def _smarter(self, node: Node) -> GenericConfig:
        if self._options.skips_devices:  # and there is nothing else in such a file
            return GenericConfig(self._findings.source, ())
        context = ShapeContext(self._findings, self._language)
        return read_of_smarter(node, self._findings, context, domain=self._options.domain)

    def _file(self, node: Node) -> GenericConfig:
        if self._options.skips_devices:
            node = _without_devices(node)
        context = ShapeContext(self._findings, self._language, _has_decimal_ids(node), is_file=True)
        read = FILE.read(node, (), context)
        record = read if isinstance(read, Record) else NO_RECORD
        if isinstance(node, Keys) and not record.has("devices") and not self._options.skips_devices:
            self._findings.error(node.spot, (), "has no devices, and at least one must be there")
        compat = _compat_of(record)
        builder = EntryBuilder(self._findings, domain=self._domain(record), compat=compat)
        entries = builder.build(record.records("devices"))
        refuse_paths_of_two(entries, self._findings)
        return GenericConfig(
            source=self._findings.source,
            entries=entries,
            settings={name: record.get(name, str, "") for name in ("domain", *_SETTINGS) if name in record.values},
            has_compat_ids=Compat.USB_DEVICE_IDS in compat,
            warnings=in_order(self._findings.warnings),
        )

    def _domain(self, record: Record) -> str:
        if self._options.domain:
            return self._options.domain
        if not record.has("domain") and record.has("devices"):
            text = f"names no domain, so that it is {DEFAULT_DOMAIN}"
            hint = f"write domain: {DEFAULT_DOMAIN}, or {_OLD_DOMAIN} if pods ask for resources of squat's plugin 0.1"
            self._findings.warn(record.spot, (), f"{text}; {hint}")
        return record.get("domain", str, DEFAULT_DOMAIN)

    def _microshift(self, section: Keyed) -> GenericConfig:
        node = _without_devices(section.node) if self._options.skips_devices else section.node
        read = MICROSHIFT.read(node, (section.key,), ShapeContext(self._findings, self._language))
        record = read if isinstance(read, Record) else NO_RECORD
        if isinstance(read, Record):
            refuse_disabled(record, self._findings)
            if not record.has("devices") and not self._options.skips_devices:
                self._findings.error(section.spot, (section.key,), "has no devices, and at least one must be there")
        domain = self._options.domain or record.get("domain", str, MICROSHIFT_DOMAIN)
        builder = EntryBuilder(self._findings, domain=domain, compat=frozenset(), skips_empty_usb=True)
        entries = builder.build(record.records("devices"))
        refuse_paths_of_two(entries, self._findings)
        settings = {"domain": record.get("domain", str, "")} if "domain" in record.values else {}
        return GenericConfig(self._findings.source, entries, settings, warnings=in_order(self._findings.warnings))


def _compat_of(record: Record) -> frozenset[Compat]:
    found = frozenset(Compat(each) for each in record.texts("compat"))
    return frozenset(Compat) if Compat.SQUAT in found else found


def _has_decimal_ids(node: Node) -> bool:
    """Whether a file asks for decimal USB IDs, which has to be known before its devices are read."""
    words: set[str] = set()
    for each in node.entries if isinstance(node, Keys) else ():
        if each.key.lower() == "compat":
            items = each.node.items if isinstance(each.node, Series) else (each.node,)
            words |= {item.text for item in items if isinstance(item, Scalar)}
    return bool(words & {Compat.SQUAT.value, Compat.DECIMAL_USB_IDS.value})


def _without_devices(node: Node) -> Node:
    if not isinstance(node, Keys):
        return node
    return Keys(tuple(each for each in node.entries if not _is_devices(each)), node.spot)


def _is_devices(entry: Keyed) -> bool:
    return entry.key.lower() in ("devices", "device")
