"""The settings of the directory plugin."""

from __future__ import annotations

import msgspec


class DirectorySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of ``directory`` in a config file, as on the command line.

    Attributes:
        resource: resource name, such as ``example.com/gopher``.
        path: the directory; it need not exist. A relative one is looked for beside the config file.
        env: variable that names the devices to their container.
    """

    resource: str
    path: str
    env: str
