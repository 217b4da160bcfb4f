"""The settings that the plugin is started with: flags, environment, and where the machine's files are. Blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path

from plugbay.errors import UsageError
from plugbay.plugins.nvidia.config.arguments import Layer
from plugbay.plugins.nvidia.config.configuration import Configuration
from plugbay.plugins.nvidia.config.named import choose_config
from plugbay.plugins.nvidia.config.switching import ActiveConfig, switched
from plugbay.plugins.nvidia.config.validation import NamedSource, config_file_of, named_source_of
from plugbay.plugins.nvidia.platform.config_files import list_configs, load_configuration
from plugbay.plugins.nvidia.platform.library import NVML_LIBRARY, linker_finds
from plugbay.plugins.nvidia.platform.roots import ContainerRoots, find_roots
from plugbay.plugins.nvidia.platform.signs import find_signs
from plugbay.sdk.cdi.directory import CDI_DIRECTORY
from plugbay.values import dataclass


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """The settings of a process.

    Attributes:
        arguments, environment: the settings of the command line and of the environment.
        variables: the environment itself.
        root: of the machine's files.
        cdi_directory: where CDI specs go.
        elsewhere: whether they are for another machine, whose driver is taken for granted.
    """

    arguments: Layer = field(default_factory=dict)
    environment: Layer = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    root: Path = Path("/")
    cdi_directory: Path = CDI_DIRECTORY
    elsewhere: bool = False

    @property
    def named(self) -> NamedSource | None:
        """The place that the node's configuration comes from, if its label chooses it."""
        return named_source_of(self.arguments, self.environment)

    @property
    def config_file(self) -> Path | None:
        """The single configuration file."""
        name = config_file_of(self.arguments, self.environment)
        return Path(name) if name else None

    @property
    def library_path(self) -> tuple[str, ...]:
        """The directories in which the dynamic linker looks first."""
        return tuple(each for each in self.variables.get("LD_LIBRARY_PATH", "").split(":") if each)

    def without_environment(self) -> NodeSettings:
        """The same for another machine, which has an environment of its own."""
        return replace(self, environment={}, variables={})

    @property
    def watched(self) -> tuple[Path, ...]:
        """The paths whose changes may change the configuration."""
        if (named := self.named) is not None:
            return (Path(named.directory),)
        return (self.config_file,) if self.config_file is not None else ()


def load_active(settings: NodeSettings, before: ActiveConfig | None, labels: Mapping[str, str] | None) -> ActiveConfig:
    """The configuration that counts now; one that is broken leaves the one before in use.

    Args:
        labels: of the node; None when they are not needed.

    Raises:
        OperatorError: it is broken, and there is none before.
    """
    named, single = settings.named, settings.config_file

    def name() -> str | None:
        if named is None:
            return None if single is None else str(single)
        if labels is None:
            raise UsageError("the labels of the node are not known yet, and one of them names the configuration")
        return choose_config(named.rules, list_configs(Path(named.directory)), labels)

    def read(chosen: str | None) -> Configuration:
        file = single if named is None else None if chosen is None else Path(named.directory) / chosen
        return _load(settings, file)

    return switched(before, name, read)


def possible_configurations(settings: NodeSettings) -> list[Configuration]:
    """The configurations that a node may have with ``settings``: of all files, if a label chooses among them.

    Raises:
        OperatorError: a file cannot be read, or is broken.
    """
    files: list[Path | None] = [settings.config_file]
    if (named := settings.named) is not None:
        directory = Path(named.directory)
        files = [directory / name for name in list_configs(directory)]
    return [load_configuration(file, settings.arguments, settings.environment, has_nvml=True) for file in files]


def _load(settings: NodeSettings, file: Path | None) -> Configuration:
    """Read a configuration. Whether there is a driver matters to CDI, and it says where the driver is.

    The reference wants NVML for CDI on a Tegra as well, whose lists of files need none.
    """
    loaded = load_configuration(file, settings.arguments, settings.environment, has_nvml=True)
    roots = roots_of(settings, loaded)
    if settings.elsewhere or not loaded.uses_cdi or has_library(settings, roots):
        return loaded
    if find_signs(settings.root, has_nvml=False, driver_root=roots.driver).has_tegra_files:
        return loaded
    return load_configuration(file, settings.arguments, settings.environment, has_nvml=False)


def roots_of(settings: NodeSettings, configuration: Configuration) -> ContainerRoots:
    """The driver's directories, as this process sees them."""
    return find_roots(settings.root, configuration.roots.container)


def has_library(settings: NodeSettings, roots: ContainerRoots) -> bool:
    """Whether the driver's library is installed where it would be loaded from. It is not loaded for that."""
    return roots.library.is_found or linker_finds(NVML_LIBRARY, settings.root, settings.library_path)
