"""The port to config maps, secrets and service accounts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import field
from datetime import datetime
from typing import Protocol

from plugbay.model.pods import Pod
from plugbay.model.projections import ConfigKind, TokenFile
from plugbay.values import dataclass


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """The identity of a config map or secret."""

    kind: ConfigKind
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class ConfigData:
    """The content of a config map or secret.

    Attributes:
        values: what variables and files can be made of.
        binary: what only files can be made of.
        type: of a secret.
    """

    values: Mapping[str, bytes]
    binary: Mapping[str, bytes] = field(default_factory=dict)
    type: str = ""

    @property
    def files(self) -> Mapping[str, bytes]:
        return {**self.values, **self.binary}


@dataclass(frozen=True, slots=True)
class AccountToken:
    """A token of a service account, good until ``expires_at``."""

    text: str
    issued_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class PodAccess:
    """The additions of a service account to a pod.

    Attributes:
        mounts_token: whether its containers find a token in the usual place.
        pull_secrets: the names of the secrets with which its images are pulled, be they the pod's or the account's.
    """

    mounts_token: bool = False
    pull_secrets: tuple[str, ...] = ()


class ConfigSource(Protocol):
    """The objects of an API that pods use. No method waits for a disk."""

    def get(self, key: ConfigKey) -> ConfigData | None:
        """The object as it is now; None if there is none."""
        ...

    def changes(self, pod: Pod) -> AsyncIterator[None]:
        """One item at once, then one after each change or burst of changes of what ``pod`` refers to."""
        ...

    async def access(self, pod: Pod) -> PodAccess:
        """The additions of the account of ``pod``."""
        ...

    async def variables(self, *, shares_network: bool) -> Mapping[str, str]:
        """The variables by which a container finds the API; none if it cannot reach it.

        Args:
            shares_network: whether the container is on the node's network.
        """
        ...

    async def token(self, pod: Pod, file: TokenFile, *, volume: str) -> AccountToken:
        """A new token for the account of ``pod``, for a file of its volume.

        Raises:
            VolumeUnusable: there is no such account, or the node issues no tokens.
        """
        ...
