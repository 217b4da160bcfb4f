"""The streams of a command in a container, as they share one WebSocket connection: pure.

Each message is of one stream. Source: Kubernetes 1.36 ``apimachinery/pkg/util/httpstream/wsstream``,
``client-go/tools/remotecommand/websocket.go``.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

V5: Final = "v5.channel.k8s.io"
V4: Final = "v4.channel.k8s.io"
"""Version 5 without the end of input."""


class StreamChannel(IntEnum):
    """The first byte of a message: the stream that the others belong to."""

    STDIN = 0
    STDOUT = 1
    STDERR = 2
    ERROR = 3
    """The Status at the end."""
    RESIZE = 4
    CLOSE = 255
    """The end of the stream that the second byte names; since version 5."""
