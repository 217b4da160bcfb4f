"""Config maps and secrets in a dictionary."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import timedelta

from plugbay.model.pods import Pod
from plugbay.model.projections import ConfigKind, TokenFile
from plugbay.ops.changes import Changes
from plugbay.ops.clock import Clock
from plugbay.pods.running.configs import AccountToken, ConfigData, ConfigKey, PodAccess


class FakeConfigs:
    """A `ConfigSource` that a test fills.

    Attributes:
        objects: what there is; `put` and `remove` change it.
        account: what each pod's account adds.
        services: the variables by which containers find the API.
        issued: the number of tokens that were given out.
    """

    def __init__(self, clock: Clock) -> None:
        self.objects: dict[ConfigKey, ConfigData] = {}
        self.account = PodAccess()
        self.services: Mapping[str, str] = {}
        self.issued = 0
        self._clock = clock
        self._changes = Changes()

    def put(self, kind: ConfigKind, name: str, values: Mapping[str, bytes], *, namespace: str = "default") -> None:
        self.objects[ConfigKey(kind, namespace, name)] = ConfigData(values)
        self._changes.notify()

    def remove(self, kind: ConfigKind, name: str, *, namespace: str = "default") -> None:
        del self.objects[ConfigKey(kind, namespace, name)]
        self._changes.notify()

    def get(self, key: ConfigKey) -> ConfigData | None:
        return self.objects.get(key)

    def changes(self, pod: Pod) -> AsyncIterator[None]:
        return aiter(self._changes)

    async def access(self, pod: Pod) -> PodAccess:
        return self.account

    async def variables(self, *, shares_network: bool) -> Mapping[str, str]:
        return self.services

    async def token(self, pod: Pod, file: TokenFile, *, volume: str) -> AccountToken:
        self.issued += 1
        now = self._clock.now()
        return AccountToken(f"{file.audience}-{self.issued}", now, now + timedelta(seconds=file.expires_s))
