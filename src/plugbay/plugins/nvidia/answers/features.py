"""The properties of a node that answers depend on, besides configuration and devices. Pure."""

from __future__ import annotations

from enum import Enum
from typing import Final

from plugbay.values import dataclass

VENDOR: Final = "k8s.device-plugin.nvidia.com"
"""The vendor of our CDI kinds."""


class CdiClass(Enum):
    """The classes of our CDI devices."""

    GPU = "gpu"
    IMEX_CHANNEL = "imex-channel"
    GDRCOPY = "gdrcopy"
    GDS = "gds"
    MOFED = "mofed"

    @property
    def kind(self) -> str:
        """Vendor and class, as a spec names its devices' kind."""
        return f"{VENDOR}/{self.value}"

    def device(self, name: str) -> str:
        """The qualified name of a device of this class."""
        return f"{self.kind}={name}"


@dataclass(frozen=True, slots=True)
class ImexChannel:
    """A channel for memory shared between nodes."""

    number: int

    @property
    def path(self) -> str:
        return f"/dev/nvidia-caps-imex-channels/channel{self.number}"


@dataclass(frozen=True, slots=True)
class NodeFeatures:
    """The things that a node has for every container.

    Attributes:
        control_nodes: paths of the driver's control nodes that exist in the plugin's container; looked for at each
            Allocate that names device nodes, as some are made when a program first uses a GPU.
        imex_channels: those that exist.
        optional_classes: of gdrcopy, gds and mofed, those for which a CDI spec was written.
    """

    control_nodes: tuple[str, ...] = ()
    imex_channels: tuple[ImexChannel, ...] = ()
    optional_classes: frozenset[CdiClass] = frozenset()


NO_FEATURES: Final = NodeFeatures()
