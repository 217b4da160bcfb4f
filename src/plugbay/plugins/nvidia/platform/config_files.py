"""Read configuration files from their directory. Blocks."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

from plugbay.errors import InvalidNvidiaConfig, PathUnusable
from plugbay.kernel.files import read_bytes
from plugbay.plugins.nvidia.config.arguments import Layer
from plugbay.plugins.nvidia.config.choices import Dialect
from plugbay.plugins.nvidia.config.configuration import Configuration
from plugbay.plugins.nvidia.config.file import ConfigContent, parse_file
from plugbay.plugins.nvidia.config.named import config_names
from plugbay.plugins.nvidia.config.places import OPENING
from plugbay.plugins.nvidia.config.validation import dialect_of, validate

MAX_BYTES: Final = 1 << 20
"""The longest file; a ConfigMap holds no more."""


def load_configuration(file: Path | None, arguments: Layer, environment: Layer, *, has_nvml: bool) -> Configuration:
    """The configuration of a file, a command line and an environment.

    Args:
        file: None without one.
        has_nvml: whether the driver's library can be loaded.

    Raises:
        InvalidNvidiaConfig: the file cannot be read, or something in one of the three is of no use.
    """
    content = load_content(file, dialect_of(arguments, environment))
    return validate(content, arguments, environment, has_nvml=has_nvml)


def load_content(file: Path | None, dialect: Dialect) -> ConfigContent:
    """The content of a file; an empty one without a file.

    Raises:
        InvalidNvidiaConfig: the file cannot be read, or is not a configuration.
    """
    if file is None:
        return ConfigContent(dialect=dialect)
    return parse_file(_read(file), source=str(file), dialect=dialect)


def list_configs(directory: Path) -> tuple[str, ...]:
    """The names of the configuration files in ``directory``, sorted; links to files count.

    Raises:
        PathUnusable: the directory cannot be listed.
    """
    try:
        with os.scandir(directory) as entries:
            return config_names([entry.name for entry in entries if not entry.is_dir()])
    except OSError as error:
        raise PathUnusable(str(directory), f"cannot be listed: {error.strerror}") from error


def _read(file: Path) -> str:
    try:
        content = read_bytes(file, limit=MAX_BYTES)
    except OSError as error:
        problem = f"open {file}: {(error.strerror or '').lower()}"
        if error.errno == errno.EFBIG:
            problem = f"holds more than {MAX_BYTES} bytes"
        raise InvalidNvidiaConfig(problem, source=str(file), step=OPENING) from error
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InvalidNvidiaConfig("is not UTF-8 text", line=line, source=str(file), step=OPENING) from error
