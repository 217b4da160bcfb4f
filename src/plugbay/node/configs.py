"""The objects of the node's API that its pods use: the node's `ConfigSource`."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Collection, Mapping
from typing import Final

from plugbay.documents import Json
from plugbay.errors import VolumeUnusable
from plugbay.model.pods import Pod
from plugbay.model.projections import ConfigKind
from plugbay.objects.table import ObjectKey, ObjectTable
from plugbay.objects.watch import Change
from plugbay.ops.changes import Changes
from plugbay.pods.running.configs import AccountToken, ConfigData, ConfigKey, PodAccess
from plugbay.printers import v1

_PLURALS: Final = {ConfigKind.CONFIG_MAP: "configmaps", ConfigKind.SECRET: "secrets"}


class NodeConfigs:
    """Config maps, secrets and service accounts out of the table of objects."""

    def __init__(self, objects: ObjectTable) -> None:
        self._objects = objects
        self._readers: dict[ObjectKey, set[Changes]] = {}
        objects.attach(self)

    def put(self, change: Change, key: ObjectKey, item: Json) -> None:
        """Tell those that wait for the object; see `Listener`."""
        for reader in list(self._readers.get(key, ())):
            reader.notify()

    def get(self, key: ConfigKey) -> ConfigData | None:
        value = self._objects.get(_object_key(key))
        return None if value is None else _data(key.kind, value)

    async def changes(self, keys: Collection[ConfigKey]) -> AsyncIterator[None]:
        reader = Changes()
        places = [_object_key(key) for key in keys]
        for place in places:
            self._readers.setdefault(place, set()).add(reader)
        try:
            async for _ in reader:
                yield
        finally:
            for place in places:
                self._readers[place].discard(reader)
                if not self._readers[place]:
                    del self._readers[place]

    async def access(self, pod: Pod) -> PodAccess:
        return PodAccess(mounts_token=bool(pod.spec.automount_token))

    async def variables(self, *, shares_network: bool) -> Mapping[str, str]:
        return {}

    async def token(self, pod: Pod, *, audience: str, expires_s: int) -> AccountToken:
        raise VolumeUnusable("token", "this node issues no tokens")


def _object_key(key: ConfigKey) -> ObjectKey:
    return ObjectKey("", _PLURALS[key.kind], key.namespace, key.name)


def _data(kind: ConfigKind, value: Json) -> ConfigData:
    """The content of an object that was checked when it was stored."""
    texts = v1.mapping(value, "data")
    if kind is ConfigKind.SECRET:
        return ConfigData(_decoded(texts), type=v1.text(value, "type"))
    values = {key: str(text).encode(errors="surrogateescape") for key, text in texts.items()}
    return ConfigData(values, _decoded(v1.mapping(value, "binaryData")))


def _decoded(blobs: Json) -> dict[str, bytes]:
    return {key: base64.b64decode(str(text)) for key, text in blobs.items()}
