"""The command that starts the plugin under test, and how it learns where the kubelet is."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Final, Protocol

from plugbay.node.roots import ROOT_VARIABLE
from plugbay.values import dataclass

STOCK: Final = "/var/lib/kubelet"
"""The place at which most plugins look for a kubelet, and cannot be told otherwise."""
_PLACE: Final = re.compile(r"\{(root|plugins|socket)\}")
"""The places that a command may hold: the kubelet's root, its directory for plugins, and its socket."""


def _nothing() -> None:
    return None


@dataclass(frozen=True, slots=True)
class SubjectLaunch:
    """One start of the plugin.

    Attributes:
        words: the program that is started, and its arguments.
        environment: variables that it gets besides those of this process.
        pid_file: where the plugin's process ID appears, if the program that is started is not the plugin itself.
        clean: removes what may be left when all has ended; it may take a while.
    """

    words: tuple[str, ...]
    environment: Mapping[str, str]
    pid_file: Path | None = None
    clean: Callable[[], None] = _nothing


class SubjectCommand(Protocol):
    """A way to start the plugin under test."""

    @property
    def words(self) -> tuple[str, ...]:
        """The plugin, for reports."""
        ...

    @property
    def is_enclosed(self) -> bool:
        """Whether the plugin finds the kubelet's root at its usual place."""
        ...

    def cdi_directories(self, root: Path) -> tuple[Path, ...]:
        """Directories of the plugin's own in which it writes CDI specs."""
        ...

    def launch(self, root: Path) -> SubjectLaunch:
        """Prepare one more start, for a kubelet with ``root``; it may take a while."""
        ...


@dataclass(frozen=True, slots=True)
class PluginCommand:
    """A command line.

    Attributes:
        words: the program and its arguments. ``{root}`` in one of them, or in a value of ``environment``, is the
            kubelet's root directory, ``{plugins}`` its device plugin directory, ``{socket}`` the path of kubelet.sock.
        environment: variables that it gets besides those of this process.
        always_enclosed: whether the root lies at /var/lib/kubelet for it although it is told another place.
    """

    words: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    always_enclosed: bool = False

    @property
    def is_told(self) -> bool:
        """Whether it learns the place of the kubelet from its command line or its environment."""
        return any(_PLACE.search(each) for each in (*self.words, *self.environment.values()))

    @property
    def is_enclosed(self) -> bool:
        """Whether it needs a mount namespace, in which the kubelet's root is at its usual place."""
        return self.always_enclosed or not self.is_told

    def cdi_directories(self, root: Path) -> tuple[Path, ...]:
        """It writes them where everybody does."""
        return ()

    def launch(self, root: Path) -> SubjectLaunch:
        """The command as it is; nothing has to be prepared."""
        return SubjectLaunch(self.words_for(str(root)), self.environment_for(str(root)))

    def words_for(self, root: str) -> tuple[str, ...]:
        """The command line for a kubelet whose root is ``root``."""
        words = tuple(placed(each, root) for each in self.words)
        if not self.is_enclosed:
            return words
        return (sys.executable, "-m", "plugbay.kernel.enclosed", root, STOCK, *words)

    def environment_for(self, root: str) -> dict[str, str]:
        """The variables for a kubelet whose root is ``root``.

        The ``$PLUGBAY_ROOT`` of this process would lead an enclosed plugin of plugbay's to a live kubelet.
        """
        own = {name: placed(value, root) for name, value in self.environment.items()}
        return {ROOT_VARIABLE: STOCK, **own} if self.is_enclosed else own


def placed(text: str, root: str) -> str:
    """``text`` with the places of a kubelet whose root is ``root``."""
    plugins = f"{root}/device-plugins"
    places = {"root": root, "plugins": plugins, "socket": f"{plugins}/kubelet.sock"}
    return _PLACE.sub(lambda found: places[found[1]], text)
