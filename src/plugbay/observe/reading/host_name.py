"""The name of the host, of which kubelets make their node's name unless they are given another.

Source: Kubernetes ``component-helpers/node/util/hostname.go``, ``GetHostname``; hostname(5).
"""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Final

from plugbay.observe.places import HOST, seen_below

_FILE: Final = "/etc/hostname"


def read_host_name(host: Path) -> str:
    """The name in lower case; empty where it cannot be told.

    Args:
        host: the node's ``/``, as it is seen here: mounted in a container, whose own name is another.
    """
    if host == HOST:
        return socket.gethostname().strip().lower()
    try:
        lines = seen_below(host, _FILE).read_text(errors="replace").splitlines()
    except OSError:
        return ""
    return next((line for each in lines if (line := each.strip().lower()) and not line.startswith("#")), "")
