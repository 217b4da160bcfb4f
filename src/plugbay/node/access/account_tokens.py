"""Tokens of service accounts: made for pods and for clients, and verified by the node that made them.

They are JSON Web Tokens with the claims of an API server, signed with a key that only this node has (HS256: nobody else
has to verify them). The key is kept beside the objects, in the node's database.

Source: RFC 7519; Kubernetes 1.36 ``pkg/serviceaccount/claims.go``,
``pkg/registry/core/serviceaccount/storage/token.go``.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import secrets
import uuid
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, Final

from plugbay.documents import Json
from plugbay.objects.table import ObjectKey, ObjectTable
from plugbay.ops.clock import Clock
from plugbay.printers import v1
from plugbay.values import dataclass

ISSUER: Final = "https://kubernetes.default.svc.cluster.local"
AUDIENCES: Final = (ISSUER,)
"""The audiences of tokens for the node's own API."""
_KEY: Final = ObjectKey("plugbay", "keys", "", "account-tokens")
"""No client can name it: there is no such kind."""
_HEADER: Final[Json] = {"alg": "HS256", "typ": "JWT"}
_PRIVATE: Final = "kubernetes.io"


@dataclass(frozen=True, slots=True)
class AccountUser:
    """The user that a token stands for.

    Attributes:
        audiences: those of the token.
    """

    name: str
    uid: str
    groups: tuple[str, ...]
    audiences: tuple[str, ...]

    def object(self) -> Json:
        """As ``authentication.k8s.io/v1`` UserInfo."""
        return {"username": self.name, "uid": self.uid, "groups": list(self.groups)}


@dataclass(frozen=True, slots=True)
class BoundObject:
    """The object with whose end a token ends."""

    kind: str
    name: str
    uid: str


class AccountTokens:
    """Makes and verifies tokens.

    Args:
        has_pod: whether a pod of this namespace, name and UID exists.
    """

    def __init__(self, objects: ObjectTable, has_pod: Callable[[str, str, str], bool], clock: Clock) -> None:
        self._objects = objects
        self._has_pod = has_pod
        self._clock = clock
        self._making_key = asyncio.Lock()

    async def issue(
        self, account: Json, audiences: Iterable[str], expires_s: int, bound: BoundObject | None = None
    ) -> tuple[str, datetime]:
        """A new token for a service account, and its end.

        Raises:
            StoreUnusable: the key of the tokens cannot be kept.
        """
        now = int(self._clock.now().timestamp())
        namespace, name = v1.namespace(account), v1.name(account)
        private: Json = {"namespace": namespace, "serviceaccount": {"name": name, "uid": v1.uid(account)}}
        if bound is not None:
            private[bound.kind.lower()] = {"name": bound.name, "uid": bound.uid}
        claims: Json = {
            "aud": list(audiences),
            "exp": now + expires_s,
            "iat": now,
            "iss": ISSUER,
            "jti": str(uuid.uuid4()),
            _PRIVATE: private,
            "nbf": now,
            "sub": f"system:serviceaccount:{namespace}:{name}",
        }
        signed = f"{_encoded(_HEADER)}.{_encoded(claims)}"
        token = f"{signed}.{_base64(_signature(await self._key(), signed))}"
        return token, datetime.fromtimestamp(now + expires_s, UTC)

    def user(self, token: str, audiences: Iterable[str] = AUDIENCES) -> AccountUser | None:
        """The user of a token of ours that is still good for one of ``audiences``; None for any other text."""
        claims = self._claims(token)
        if claims is None:
            return None
        given = v1.texts(claims, "aud")
        namespace = v1.text(claims, _PRIVATE, "namespace")
        name, uid = (v1.text(claims, _PRIVATE, "serviceaccount", each) for each in ("name", "uid"))
        account = self._objects.get(ObjectKey("", "serviceaccounts", namespace, name))
        is_good = (
            v1.number(claims, "exp") > self._clock.now().timestamp()
            and not set(given).isdisjoint(audiences)
            and account is not None
            and v1.uid(account) == uid
            and self._is_bound(claims, namespace)
        )
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
        return AccountUser(v1.text(claims, "sub"), uid, groups, tuple(given)) if is_good else None

    def has_issued(self, token: str) -> bool:
        """Whether it is a token of ours, be it still good or not."""
        return self._claims(token) is not None

    def _claims(self, token: str) -> Json | None:
        """The claims of a token of ours; None for any other text."""
        kept = self._objects.get(_KEY)
        signed, _, signature = token.rpartition(".")
        if kept is None or not signed.isascii() or not signature.isascii():
            return None
        key = base64.b64decode(v1.text(kept, "key"))
        if not hmac.compare_digest(_base64(_signature(key, signed)), signature):
            return None
        _, _, claims = signed.partition(".")
        found: Any = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
        return found if isinstance(found, dict) else None

    def _is_bound(self, claims: Json, namespace: str) -> bool:
        """Whether the object that a token is bound to is still there, if there is one."""
        pod, secret = (v1.mapping(claims, _PRIVATE, kind) for kind in ("pod", "secret"))
        if pod:
            return self._has_pod(namespace, v1.text(pod, "name"), v1.text(pod, "uid"))
        if secret:
            found = self._objects.get(ObjectKey("", "secrets", namespace, v1.text(secret, "name")))
            return found is not None and v1.uid(found) == v1.text(secret, "uid")
        return True

    async def _key(self) -> bytes:
        async with self._making_key:
            if (kept := self._objects.get(_KEY)) is None:
                key = base64.b64encode(secrets.token_bytes(32)).decode()
                kept = await self._objects.create(_KEY, {"metadata": {"name": _KEY.name}, "key": key})
            return base64.b64decode(v1.text(kept, "key"))


def _encoded(value: Json) -> str:
    return _base64(json.dumps(value, separators=(",", ":")).encode())


def _base64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _signature(key: bytes, signed: str) -> bytes:
    return hmac.digest(key, signed.encode(), hashlib.sha256)
