"""Flags, environment and file together: what is given nearer to the command counts before what is given farther.

A flag counts before a variable ``PLUGBAY_…``, that before the variable of squat's plugin, and all before the file. The
devices of flags and presets take the place of the file's, as in squat's plugin.

Source: squat/generic-device-plugin 0.1, ``main.go``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Final

from plugbay.errors import PathUnusable, UsageError
from plugbay.plugins.generic.config.nodes import ConfigFormat
from plugbay.plugins.generic.config.reading import ReadOptions, parse_device_flag, read_config
from plugbay.plugins.generic.config.rules import Entry, GenericConfig
from plugbay.sdk.process.config_file import read_text
from plugbay.values import dataclass

SEARCHED: Final = (Path("/etc/generic-device-plugin"), Path())
"""The directories in which squat's plugin looks for ``config.yaml`` and the like when no flag names a file."""
_FORMATS: Final = {
    ".yaml": ConfigFormat.YAML,
    ".yml": ConfigFormat.YAML,
    ".json": ConfigFormat.JSON,
    ".toml": ConfigFormat.TOML,
}
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
    """The config file that flags name, or that is found where squat's plugin looks for one. Blocks."""
    if arguments.file is not None:
        return arguments.file.absolute()
    if arguments.devices or arguments.presets:
        return None
    candidates = (directory / f"config{ending}" for directory in searched for ending in _FORMATS)
    return next((each.absolute() for each in candidates if each.is_file()), None)


def load_rules(arguments: GenericArguments, file: Path | None, presets: Mapping[str, str]) -> GenericConfig:
    """The config of arguments and file. Blocks.

    Args:
        file: as `find_file` found it; it is read each time.
        presets: texts of configs, by name.

    Raises:
        UsageError: nothing says which devices.
        PathUnusable: the file cannot be read, or is in no language that is known.
        InvalidGenericConfig: something is wrong with the file, or with a flag.
    """
    options = ReadOptions(
        is_lenient=arguments.is_lenient,
        domain=arguments.domain or variable(arguments.variables, DOMAIN),
        skips_devices=bool(arguments.devices or arguments.presets),
    )
    read: GenericConfig | None = None
    if file is not None:
        language = _format(file)
        read = read_config(read_text(file), source=str(file), language=language, options=options)
    if not options.skips_devices:
        if read is None:
            raise UsageError("it is not said which devices; give --config FILE, --device or --preset")
        return read
    given = tuple(_given(arguments, options, presets))
    source = ", ".join(config.source for config in given) if read is None else read.source
    return GenericConfig(
        source,
        (*_entries(given),),
        {} if read is None else read.settings,
        read is not None and read.has_compat_ids,
        tuple(warning for config in (*([] if read is None else [read]), *given) for warning in config.warnings),
    )


def _entries(configs: tuple[GenericConfig, ...]) -> Iterator[Entry]:
    """The entries of several configs.

    Raises:
        UsageError: two make the same resource.
    """
    first: dict[str, str] = {}
    for config in configs:
        for entry in config.entries:
            name = f"{entry.domain}/{entry.name}"
            if name in first:
                raise UsageError(f"{config.source}: {name} is the resource of {first[name]} already")
            first[name] = config.source
            yield entry


def _given(arguments: GenericArguments, options: ReadOptions, presets: Mapping[str, str]) -> Iterator[GenericConfig]:
    for place, text in arguments.devices:
        yield parse_device_flag(text, source=place, options=options)
    for name in arguments.presets:
        if name not in presets:
            raise UsageError(f"--preset {name}: there is no such preset; there are {', '.join(sorted(presets))}")
        wanted = ReadOptions(is_lenient=options.is_lenient, domain=options.domain)
        yield read_config(presets[name], source=f"preset {name}", options=wanted)


def _format(file: Path) -> ConfigFormat:
    try:
        return _FORMATS[file.suffix.lower()]
    except KeyError:
        raise PathUnusable(str(file), f"is a config in no known language; they end in {', '.join(_FORMATS)}") from None
