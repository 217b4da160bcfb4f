"""The command that starts the plugin under test, and how it learns where the kubelet is. Pure."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

STOCK: Final = "/var/lib/kubelet"
"""The place at which most plugins look for a kubelet, and cannot be told otherwise."""
_PLACE: Final = re.compile(r"\{(root|plugins|socket)\}")
"""The places that a command may hold: the kubelet's root, its directory for plugins, and its socket."""


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

    def words_for(self, root: str) -> tuple[str, ...]:
        """The command line for a kubelet whose root is ``root``."""
        words = tuple(_placed(each, root) for each in self.words)
        if not self.is_enclosed:
            return words
        return (sys.executable, "-m", "plugbay.kernel.enclosed", root, STOCK, *words)

    def environment_for(self, root: str) -> dict[str, str]:
        """The variables for a kubelet whose root is ``root``."""
        return {name: _placed(value, root) for name, value in self.environment.items()}


def _placed(text: str, root: str) -> str:
    plugins = f"{root}/device-plugins"
    places = {"root": root, "plugins": plugins, "socket": f"{plugins}/kubelet.sock"}
    return _PLACE.sub(lambda found: places[found[1]], text)
