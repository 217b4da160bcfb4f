"""Errors of peers: the program at the other end of a socket or a pipe failed or refused."""

from __future__ import annotations

from enum import Enum

from plugbay.errors.root import PlugbayError
from plugbay.errors.wording import quote


class PeerError(PlugbayError):
    """The program at the other end of a socket failed or refused."""


class RpcCode(Enum):
    """The status codes of gRPC, by their names there; the values are the names that Go prints."""

    OK = "OK"
    CANCELLED = "Canceled"
    UNKNOWN = "Unknown"
    INVALID_ARGUMENT = "InvalidArgument"
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    NOT_FOUND = "NotFound"
    ALREADY_EXISTS = "AlreadyExists"
    PERMISSION_DENIED = "PermissionDenied"
    RESOURCE_EXHAUSTED = "ResourceExhausted"
    FAILED_PRECONDITION = "FailedPrecondition"
    ABORTED = "Aborted"
    OUT_OF_RANGE = "OutOfRange"
    UNIMPLEMENTED = "Unimplemented"
    INTERNAL = "Internal"
    UNAVAILABLE = "Unavailable"
    DATA_LOSS = "DataLoss"
    UNAUTHENTICATED = "Unauthenticated"


class RpcFailed(PeerError):
    """A gRPC call failed; ``str()`` is what Go's gRPC prints.

    Attributes:
        detail: the status message.
    """

    def __init__(self, code: RpcCode, detail: str) -> None:
        super().__init__(code, detail)
        self.code = code
        self.detail = detail

    def __str__(self) -> str:
        return f"rpc error: code = {self.code.value} desc = {self.detail}"


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


class PluginProgramFailed(PeerError):
    """A program that should be a device plugin does not do what one does.

    Attributes:
        problem: a clause such as ``ended with exit code 3 before it registered``.
        output: the end of what it printed.
    """

    def __init__(self, program: str, problem: str, output: str) -> None:
        super().__init__(program, problem, output)
        self.program = program
        self.problem = problem
        self.output = output

    def __str__(self) -> str:
        lines = self.output.rstrip().splitlines()
        if not lines:
            return f"{self.program} {self.problem}, and printed nothing"
        return "\n".join(
            [f"{self.program} {self.problem}; the last that it printed:", *(f"    {line}" for line in lines)]
        )


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
    """The output of a CNI plugin is not a result; the text says why, as a part of a sentence."""


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


class DriverCallFailed(PeerError):
    """The NVIDIA driver answered a question with an error.

    Attributes:
        question: such as ``probe``.
        problem: the driver's text, such as ``GPU is lost``.
        code: NVML's return code.
    """

    def __init__(self, question: str, problem: str, code: int) -> None:
        super().__init__(question, problem, code)
        self.question = question
        self.problem = problem
        self.code = code

    def __str__(self) -> str:
        return f"the NVIDIA driver failed when asked for {self.question}: {self.problem} (NVML code {self.code})"
