"""The files that a manifest's ConfigMap brings into the pod: a config file, and Python files with plugins."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from plugbay.cli.arguments.targets.ready_made import READY_MADE, TakesFiles, ready_made
from plugbay.errors import UsageError
from plugbay.sdk.author.needs import Need
from plugbay.sdk.deploying.deployment import FILES, is_file_name

if TYPE_CHECKING:
    from plugbay.sdk.process.config import ConfigEntry

CONFIG_NAME: Final = "plugins.yaml"
_PYTHON: Final = ".py"
_OWN_LINKS: Final = ".."
"""The beginning of names that a ConfigMap's volume has for itself."""


class FilesOfPod:
    """The files of one manifest. Its plugins have been loaded, so that it is known what their files import.

    Attributes:
        needs: of a process with these files, beside those of plugins.
    """

    def __init__(self) -> None:
        self.needs: tuple[Need, ...] = ()
        self._paths: dict[str, Path] = {}
        self._only: Path | None = None

    def add_target(self, target: str) -> str:
        """Take the file of a target along, if it names one; returns the target as the pod has it.

        Raises:
            UsageError: the ConfigMap cannot hold it.
        """
        file, object_of_it = _file_of(target)
        if not file:
            return target
        self._add(Path(file).absolute())
        return f"{FILES}/{Path(file).name}{object_of_it}"

    def add_named(self, path: Path) -> str:
        """Take a file along, or all files of a directory; returns its path in the pod.

        Raises:
            UsageError: the ConfigMap cannot hold it.
        """
        path = path.absolute()
        if not path.is_dir():
            self._add(path)
            return f"{FILES}/{path.name}"
        for each in sorted(path.iterdir()):
            if each.is_file() and not each.name.startswith(_OWN_LINKS):
                self._add(each)
        self._only = path
        return FILES

    def add_config(self, path: Path) -> None:
        """Take a config file along, and the files beside it that it names: code, and files of ready-made targets.

        Raises:
            UsageError: the ConfigMap cannot hold them.
        """
        from plugbay.sdk.process.config_file import read_text  # imported here: it brings what reads such files
        from plugbay.sdk.process.node_configs import parse_configs

        path = path.absolute()
        if self._only is not None:
            raise UsageError(f"{self._only} and {path} cannot go into one ConfigMap: all files of a directory count")
        self._paths[CONFIG_NAME] = path
        configs = parse_configs(read_text(path), source=str(path))
        self.needs = (*self.needs, *configs.needs)
        for place, entry in configs.entries():
            file = Path(_file_of(entry.target)[0])
            if file.name and not file.is_absolute():
                if len(file.parts) > 1:
                    raise UsageError(
                        f"{path}: {place}.target {entry.target}: a ConfigMap has no directories; put the file "
                        "beside the config file, or its package into the image and name it as module:object"
                    )
                self._add(path.parent / file)
            for name in _settings_with_files(entry):
                self._add_of_setting(path.parent, str(entry.settings[name]), f"{path}: {place}.settings.{name}")

    def texts(self) -> Mapping[str, str]:
        """All files by name, and the modules beside them that they import.

        Raises:
            UsageError: the ConfigMap cannot hold a module.
            PathUnusable: a file cannot be read.
        """
        if not self._paths:
            return {}
        from plugbay.sdk.process.config_file import read_text  # as above

        for directory in {path.parent for name, path in self._paths.items() if name != CONFIG_NAME}:
            for path in _imported_beside(directory):
                self._add(path)
        return {name: read_text(path) for name, path in self._paths.items()}

    def _add_of_setting(self, directory: Path, name: str, place: str) -> None:
        """Take the file of a setting along, which the pod reads as the setting names it."""
        if Path(name).name != name:
            raise UsageError(f"{place} {name}: the pod has only files beside the config file; put it there")
        if (directory / name).is_dir():
            raise UsageError(f"{place} {name}: a ConfigMap has no directories")
        self._add(directory / name)

    def _add(self, path: Path) -> None:
        if not is_file_name(path.name):
            raise UsageError(f"{path}: a file in a ConfigMap has a name of letters, digits, -, _ and ., no .. first")
        if self._paths.setdefault(path.name, path) != path:
            raise UsageError(f"{path} and {self._paths[path.name]} have the same name in the ConfigMap")


def _settings_with_files(entry: ConfigEntry) -> Iterator[str]:
    """The settings of a ready-made target that name a file."""
    module = ready_made(entry.target) if entry.target in READY_MADE else None
    options: Sequence[str] = module.FILE_OPTIONS if isinstance(module, TakesFiles) else ()
    return (name for option in options if entry.settings.get(name := option.removeprefix("--")))


def _file_of(target: str) -> tuple[str, str]:
    """The Python file that ``target`` names, and the rest of it; empty texts if it names a module."""
    if target.endswith(_PYTHON):
        return target, ""
    file, colon, name = target.rpartition(":")
    return (file, f"{colon}{name}") if file.endswith(_PYTHON) else ("", "")


def _imported_beside(directory: Path) -> Iterator[Path]:
    for name, module in sorted(sys.modules.items()):
        packages = [Path(each) for each in getattr(module, "__path__", ())]
        if any(each.parent == directory for each in packages):
            raise UsageError(
                f"{directory}: the plugin imports the package {name} from here, which a ConfigMap cannot hold; put "
                "both into the image, and name the plugin as module:object"
            )
        file = getattr(module, "__file__", None)
        if file and not packages and Path(file).parent == directory and Path(file).suffix == _PYTHON:
            yield Path(file)
