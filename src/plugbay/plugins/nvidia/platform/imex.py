"""The IMEX channels that exist on the machine. Blocks.

Source: k8s-device-plugin 0.20 ``internal/imex/imex.go``; spec 1.8.
"""

from __future__ import annotations

import stat
from collections.abc import Sequence
from pathlib import Path

from plugbay.errors import GpusUnusable
from plugbay.plugins.nvidia.answers.features import ImexChannel
from plugbay.plugins.nvidia.config.configuration import ImexSettings

_QUERYING = "error starting plugins: error getting plugins: error querying IMEX channels"


def find_channels(settings: ImexSettings, dev_roots: Sequence[Path]) -> tuple[tuple[ImexChannel, ...], tuple[str, ...]]:
    """The configured channels that have a device node, and a warning for each that has none.

    Args:
        dev_roots: below any of which the node may lie: the dev root of the plugin's container, and the container's.

    Raises:
        GpusUnusable: a channel is missing, and channels are required.
    """
    channels, warnings = [], []
    for number in settings.channel_ids:
        channel = ImexChannel(number)
        if any(_is_character_device(root / channel.path.lstrip("/")) for root in dev_roots):
            channels.append(channel)
        elif settings.is_required:
            problem = f"requested IMEX channel channel{number} does not exist"
            raise GpusUnusable(problem, step=_QUERYING)
        else:
            warnings.append(
                f"Ignoring requested IMEX channel channel{number}: {channel.path} is not a character device; "
                "containers get it from the next look at the machine on at which it is one"
            )
    return tuple(channels), tuple(warnings)


def _is_character_device(path: Path) -> bool:
    try:
        return stat.S_ISCHR(path.stat().st_mode)
    except OSError:
        return False
