"""The settings of the target ``generic`` in a config file of targets."""

from __future__ import annotations

from typing import Any

import msgspec


class GenericTargetSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """Settings as the flags of ``plugbay serve generic``, without their dashes.

    Attributes:
        config: a file with devices; a relative one is looked for beside the config file of targets.
        devices: entries as in such a file.
        presets: names of presets.
        domain: of the resources.
        lenient: whether unknown fields are ignored with a warning.
        compat_metrics: whether the metrics of squat's plugin are shown too.
        machine_root: where the machine's files are, ``dev`` and ``sys`` among them.
    """

    config: str | None = None
    devices: tuple[dict[str, Any], ...] = ()
    presets: tuple[str, ...] = ()
    domain: str = ""
    lenient: bool = False
    compat_metrics: bool = False
    machine_root: str = "/"
