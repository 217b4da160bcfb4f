"""Flags, environment and file together: what is given nearer to the command counts before what is given farther.

A flag counts before a variable ``PLUGBAY_…``, that before the variable of squat's plugin, and all before the file. The
devices of flags take the place of the file's, as in squat's plugin; presets come beside those that count.

Source: squat/generic-device-plugin 0.1, ``main.go``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Final

from plugbay.errors import InvalidGenericConfig, UsageError
from plugbay.plugins.generic.config.nodes import format_of
from plugbay.plugins.generic.config.owners import paths_of_two_texts
from plugbay.plugins.generic.config.problems import ConfigProblem
from plugbay.plugins.generic.config.reading import DEFAULT_DOMAIN, ReadOptions, parse_device_flag, read_config
from plugbay.plugins.generic.config.rules import Entry, GenericConfig
from plugbay.plugins.generic.config.spots import NOWHERE
from plugbay.plugins.generic.presets.catalogue import preset_text
from plugbay.sdk.process.config_file import read_text
from plugbay.values import dataclass

SEARCHED: Final = (Path("/etc/generic-device-plugin"), Path())
"""The directories in which squat's plugin looks for ``config.yaml`` and the like when ``--config`` names no file."""
_ENDINGS: Final = (".yaml", ".yml", ".json", ".toml")
DOMAIN: Final = "DOMAIN"
LISTEN: Final = "LISTEN"
LOG_LEVEL: Final = "LOG_LEVEL"
PLUGIN_DIRECTORY: Final = "PLUGIN_DIRECTORY"


@dataclass(frozen=True, slots=True)
class GenericArguments:
    """The flags of the command; empty ones were not given.

    Attributes:
        devices: entries as YAML or JSON, each with the name of its place for messages.
        presets: names of presets.
        variables: the environment.
    """

    file: Path | None = None
    devices: tuple[tuple[str, str], ...] = ()
    presets: tuple[str, ...] = ()
    domain: str = ""
    is_lenient: bool = False
    variables: Mapping[str, str] = field(default_factory=dict)


def variable(variables: Mapping[str, str], name: str) -> str:
    """The value of ``PLUGBAY_NAME``, or else of ``NAME``, which is squat's; empty for neither."""
    return variables.get(f"PLUGBAY_{name}") or variables.get(name, "")


def find_file(arguments: GenericArguments, searched: tuple[Path, ...] = SEARCHED) -> Path | None:
    """The config file that flags name, or that is found where squat's plugin looks for one. Blocks.

    It counts beside devices of flags, too: these take the place of its devices, and not of its other settings.
    """
    if arguments.file is not None:
        return arguments.file.absolute()
    candidates = (directory / f"config{ending}" for directory in searched for ending in _ENDINGS)
    return next((each.absolute() for each in candidates if each.is_file()), None)


def load_rules(arguments: GenericArguments, file: Path | None) -> GenericConfig:
    """The config of arguments and file. Blocks.

    Args:
        file: as `find_file` found it; it is read each time.

    Raises:
        UsageError: nothing says which devices, or a preset is not known.
        PathUnusable: the file cannot be read.
        InvalidGenericConfig: something is wrong with the file, or with a flag, or they give the same path.
    """
    if file is None and not arguments.devices and not arguments.presets:
        raise UsageError("`generic` needs --config FILE, --device ENTRY or --preset NAME")
    configs = tuple(_configs(arguments, file))
    first, entries = configs[0], tuple(_entries(configs))
    problems = tuple(paths_of_two_texts(entries))
    if problems and not arguments.is_lenient:
        raise InvalidGenericConfig([each.sentence for each in problems])
    return GenericConfig(
        first.source,
        entries,
        first.settings,
        any(config.has_compat_ids for config in configs),
        (*(warning for config in configs for warning in config.warnings), *problems),
    )


def _configs(arguments: GenericArguments, file: Path | None) -> Iterator[GenericConfig]:
    """The parts of a config: that of the file first."""
    domain = arguments.domain or variable(arguments.variables, DOMAIN)
    options = ReadOptions(is_lenient=arguments.is_lenient, domain=domain, skips_devices=bool(arguments.devices))
    if file is not None:
        read = read_config(read_text(file), source=str(file), language=format_of(file.name), options=options)
        yield read
        domain = domain or read.settings.get("domain", "")
    options = ReadOptions(is_lenient=arguments.is_lenient, domain=domain)
    for place, text in arguments.devices:
        yield _warned(parse_device_flag(text, source=place, options=options), domain)
    options = ReadOptions(is_lenient=arguments.is_lenient, domain=domain or DEFAULT_DOMAIN)
    for name in arguments.presets:
        yield _warned(read_config(preset_text(name), source=f"preset {name}", options=options), domain)


def _warned(config: GenericConfig, domain: str) -> GenericConfig:
    """The config of a flag, with a warning if nothing says what the domain of its resources is."""
    if domain or all(entry.domain != DEFAULT_DOMAIN for entry in config.entries):
        return config
    text = f"no domain is given, so that it is {DEFAULT_DOMAIN}; give --domain, such as --domain example.com"
    return replace(config, warnings=(*config.warnings, ConfigProblem(config.source, NOWHERE, "", text)))


def _entries(configs: tuple[GenericConfig, ...]) -> Iterator[Entry]:
    """The entries of several configs.

    Raises:
        UsageError: two of them make the same resource.
    """
    first: dict[str, GenericConfig] = {}
    for config in configs:
        for entry in config.entries:
            name = f"{entry.domain}/{entry.name}"
            if first.setdefault(name, config) is not config:
                raise UsageError(f"{config.source}: {name} is the resource of {first[name].source} already")
            yield entry
