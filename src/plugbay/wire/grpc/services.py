"""The methods that a server offers, by service."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping

from plugbay.values import dataclass
from plugbay.wire.grpc.metadata import Metadata


@dataclass(frozen=True, slots=True)
class Unary:
    """A method with one answer.

    Attributes:
        answer: given the encoded request; `RpcFailed` is the status that the caller gets.
    """

    answer: Callable[[bytes], Awaitable[bytes]]


@dataclass(frozen=True, slots=True)
class ServerStream:
    """A method that streams its answers.

    Attributes:
        answers: given the encoded request and the call's metadata; the generator is closed when the caller goes away.
    """

    answers: Callable[[bytes, Metadata], AsyncGenerator[bytes, None]]


Method = Unary | ServerStream


@dataclass(frozen=True, slots=True)
class Service:
    """
    Attributes:
        name: such as ``v1beta1.DevicePlugin``.
        methods: by name, such as ``Allocate``.
    """

    name: str
    methods: Mapping[str, Method]


@dataclass(frozen=True, slots=True)
class Forwarded:
    """A method that no service lists, with one answer or a stream of them: its calls are passed on to another server.

    Attributes:
        answers: given the encoded request, the call's metadata, and the seconds that its caller leaves it, None for no
            limit; the generator is closed when the caller goes away.
    """

    answers: Callable[[bytes, Metadata, float | None], AsyncGenerator[bytes, None]]


AnyMethod = Method | Forwarded
Otherwise = Callable[[str], Forwarded]
"""Makes the method for a path that no service has, such as ``/v1beta1.DevicePlugin/Allocate``."""
