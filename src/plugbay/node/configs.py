"""The objects of the node's API that its pods use: the node's `ConfigSource`."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping
from contextlib import aclosing
from ipaddress import ip_address
from typing import Final

from plugbay.documents import Json
from plugbay.errors import VolumeUnusable
from plugbay.model.downward import DEFAULT_ACCOUNT
from plugbay.model.pods import Pod
from plugbay.model.projections import ConfigKind, TokenFile
from plugbay.node.access.account_access import AccountAccess
from plugbay.objects.table import ObjectKey, ObjectTable
from plugbay.objects.watch import Change
from plugbay.ops.changes import Changes
from plugbay.pods.record import is_static
from plugbay.pods.running.configs import AccountToken, ConfigData, ConfigKey, PodAccess
from plugbay.pods.running.projecting import ROOT_AUTHORITY, config_keys
from plugbay.printers import v1

_PLURALS: Final = {ConfigKind.CONFIG_MAP: "configmaps", ConfigKind.SECRET: "secrets"}
_NO_API: Final = "this node does not serve its API to pods; start it with --api"


class NodeConfigs:
    """Config maps, secrets and service accounts out of the table of objects.

    Args:
        accounts: None on a node that does not serve its API over TCP.
        places_files: whether containers find the files of an account where clients look for them.
    """

    def __init__(self, objects: ObjectTable, accounts: AccountAccess | None, *, places_files: bool) -> None:
        self._objects = objects
        self._accounts = accounts
        self._places_files = places_files
        self._readers: dict[ObjectKey, set[Changes]] = {}
        objects.attach(self)

    def put(self, change: Change, key: ObjectKey, item: Json) -> None:
        """Tell those that wait for the object; see `Listener`."""
        for reader in self._readers.get(key, ()):
            reader.notify()

    def get(self, key: ConfigKey) -> ConfigData | None:
        value = self._objects.get(_object_key(key))
        if value is not None:
            return _data(key.kind, value)
        served = self._accounts.served if self._accounts is not None else None
        if served is not None and (key.kind, key.name) == (ConfigKind.CONFIG_MAP, ROOT_AUTHORITY):
            return ConfigData({"ca.crt": served.authority.encode()})
        return None

    def changes(self, pod: Pod) -> AsyncIterator[None]:
        return self._changes_of({*map(_object_key, config_keys(pod)), _account_key(pod)})

    async def _changes_of(self, places: Collection[ObjectKey]) -> AsyncGenerator[None, None]:
        reader = Changes()
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
        """See `ConfigSource`: the pod's own word counts, then its account's.

        Source: Kubernetes 1.36 ``plugin/pkg/admission/serviceaccount/admission.go``.
        """
        account = self._objects.get(_account_key(pod)) or {}
        mounts_token = pod.spec.automount_token
        if mounts_token is None:
            is_usual = self._accounts is not None and self._places_files and not is_static(pod)
            mounts_token = is_usual and account.get("automountServiceAccountToken") is not False
        of_account = tuple(v1.text(each, "name") for each in v1.objects(account, "imagePullSecrets"))
        return PodAccess(mounts_token, pod.spec.pull_secrets or of_account)

    async def variables(self, *, shares_network: bool) -> Mapping[str, str]:
        if self._accounts is None or not self._places_files:
            return {}
        address = (await self._accounts.way()).address
        if not shares_network and _is_loopback(address.host):
            return {}
        port = str(address.port)
        return {
            "KUBERNETES_SERVICE_HOST": address.host,
            "KUBERNETES_SERVICE_PORT": port,
            "KUBERNETES_SERVICE_PORT_HTTPS": port,
        }

    async def token(self, pod: Pod, file: TokenFile, *, volume: str) -> AccountToken:
        if self._accounts is None:
            raise VolumeUnusable(volume, f"failed to fetch token: {_NO_API}")
        key = _account_key(pod)
        async with aclosing(self._changes_of({key})) as changes:
            async for _ in changes:
                if (account := self._objects.get(key)) is not None:
                    return await self._accounts.token(pod, account, audience=file.audience, expires_s=file.expires_s)
                if key.name != DEFAULT_ACCOUNT:  # which each namespace gets after a moment
                    break
        raise VolumeUnusable(volume, f'failed to fetch token: serviceaccounts "{key.name}" not found')


def _account_key(pod: Pod) -> ObjectKey:
    return ObjectKey("", "serviceaccounts", pod.namespace, pod.spec.service_account or DEFAULT_ACCOUNT)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


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
