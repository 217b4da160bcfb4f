"""Records of what passes between a kubelet and a plugin, one for each event."""

from __future__ import annotations

from enum import Enum

from plugbay.errors import RpcFailed
from plugbay.values import dataclass
from plugbay.wire.message_values import MessageValue, message_value, method_name


class Party(Enum):
    """The two sides of the socket."""

    KUBELET = "kubelet"
    PLUGIN = "plugin"


class TrafficEvent(Enum):
    """The events of a call, and of the connection under it."""

    CONNECTED = "connected"
    CLOSED = "closed"
    REQUEST = "request"
    ANSWER = "answer"
    END = "end"
    FAULT = "fault"


@dataclass(frozen=True, slots=True)
class TrafficRecord:
    """One event.

    Attributes:
        at_s: seconds since the recording began.
        connection: number of the connection; 0 for calls to the kubelet, whose connections are not told apart.
        call: number of the call; 0 for events of a connection.
        sender: the side that the event comes from.
        resource: the resource of the plugin; empty while it is not known.
        method: the path of the method, such as ``/v1beta1.DevicePlugin/Allocate``; empty for a connection.
        message: the encoded message of a request or an answer.
        failure: the status at the end of a call that failed.
        note: for a fault, what was done.
    """

    at_s: float
    event: TrafficEvent
    sender: Party
    connection: int
    call: int = 0
    resource: str = ""
    method: str = ""
    message: bytes = b""
    failure: RpcFailed | None = None
    note: str = ""

    @property
    def name(self) -> str:
        """The method's name, such as ``Allocate``."""
        return method_name(self.method)

    @property
    def value(self) -> MessageValue | None:
        """The message as plain values; None if there is none, or it cannot be read."""
        if self.event not in (TrafficEvent.REQUEST, TrafficEvent.ANSWER):
            return None
        return message_value(self.method, self.message, is_answer=self.event is TrafficEvent.ANSWER)
