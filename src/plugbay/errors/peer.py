"""The program at the other end of a socket or a pipe failed or refused."""

from __future__ import annotations

from plugbay.errors.root import PlugbayError
from plugbay.errors.wording import quote


class PeerError(PlugbayError):
    """The program at the other end of a socket failed or refused."""


class RpcFailed(PeerError):
    """A gRPC call failed; ``str()`` is what Go's gRPC prints.

    Attributes:
        code: CamelCase name of the status code, such as ``Unavailable``.
        detail: the status message.
    """

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(code, detail)
        self.code = code
        self.detail = detail

    def __str__(self) -> str:
        return f"rpc error: code = {self.code} desc = {self.detail}"


class CheckpointUnread(PeerError):
    """No checkpoint of the kubelet says what it holds now.

    Attributes:
        problem: a clause that says why.
    """

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem

    def __str__(self) -> str:
        return f"the kubelet's checkpoint does not say which pods hold devices: {self.problem}"


class RegistrationRefused(PeerError):
    """A Register call cannot be granted; ``str()`` is the message sent back."""


class RequestRefused(PeerError):
    """A node answered a request with a v1 Status; ``str()`` is the node's own sentence.

    Attributes:
        code: the HTTP status, 400 to 599.
        reason: ``metav1.StatusReason``, such as ``NotFound``.
    """

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(code, reason, message)
        self.code = code
        self.reason = reason
        self.message = message

    def __str__(self) -> str:
        return self.message


class InvalidNetworkResult(PeerError):
    """What a CNI plugin printed is no result; the text says why, as a part of a sentence."""


class NetworkPluginFailed(PeerError):
    """A CNI plugin answered with an error, or did not answer as one.

    Attributes:
        plugin: its type. ``command`` is the CNI command, such as ``ADD``.
        code: of the specification (below 100) or of the plugin; 0 where only the text tells.
    """

    def __init__(self, plugin: str, command: str, code: int, message: str, details: str) -> None:
        super().__init__(plugin, command, code, message, details)
        self.plugin = plugin
        self.command = command
        self.code = code
        self.message = message
        self.details = details

    def __str__(self) -> str:
        verb = {"DEL": "delete"}.get(self.command, self.command.lower())
        cause = f"{self.message}; {self.details}" if self.details else self.message
        return f"plugin type={quote(self.plugin)} failed ({verb}): {cause}"
