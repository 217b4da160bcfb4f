"""The service accounts of pods as clients of the API: their tokens, and what they may do."""

from __future__ import annotations

import asyncio

from plugbay.documents import Json
from plugbay.model.pods import Pod
from plugbay.node.access.account_tokens import AUDIENCES, AccountTokens, AccountUser, BoundObject
from plugbay.node.access.authorization import action_of, is_allowed, refusal
from plugbay.node.access.clients import impersonated, is_impersonating
from plugbay.objects.table import ObjectTable
from plugbay.ops.clock import Clock
from plugbay.ops.http_access import RequestHead
from plugbay.ops.listening import TcpAddress
from plugbay.ops.routing import HttpError
from plugbay.pods.running.configs import AccountToken
from plugbay.values import dataclass


@dataclass(frozen=True, slots=True)
class ServedApi:
    """The way to the API: ``authority`` is the certificate, in PEM, that its clients have to trust."""

    address: TcpAddress
    authority: str


class AccountAccess:
    """The service accounts of a node that serves its API over TCP."""

    def __init__(self, objects: ObjectTable, tokens: AccountTokens, clock: Clock) -> None:
        self._objects = objects
        self._tokens = tokens
        self._clock = clock
        self._served: asyncio.Future[ServedApi] = asyncio.get_running_loop().create_future()

    def open(self, address: TcpAddress, *, authority: str) -> None:
        """Let pods use the API, which is served from now on."""
        self._served.set_result(ServedApi(address, authority))

    @property
    def served(self) -> ServedApi | None:
        """The way to the API; None while it is not served yet."""
        return self._served.result() if self._served.done() else None

    async def way(self) -> ServedApi:
        """The way to the API, once it is served."""
        return await asyncio.shield(self._served)

    async def token(self, pod: Pod, account: Json, *, audience: str, expires_s: int) -> AccountToken:
        """A new token for the account of a pod, which ends with the pod; an empty audience is the API's."""
        await self.way()
        now = self._clock.now()
        audiences = (audience,) if audience else AUDIENCES
        text, end = await self._tokens.issue(account, audiences, expires_s, BoundObject("Pod", pod.name, pod.uid))
        return AccountToken(text, now, end)

    def check(self, token: str, head: RequestHead) -> None:
        """Refuse a request with ``token`` that its account may not make.

        Raises:
            HttpError: the token is not good, or the account has no right to do this.
        """
        user = self._tokens.user(token) if token else None
        if user is None:
            raise HttpError(401, "Unauthorized", "Unauthorized", headers=(("WWW-Authenticate", "Bearer"),))
        if is_impersonating(head.headers):
            raise HttpError(403, "Forbidden", f'forbidden: User "{user.name}" cannot act as another user on this node')
        self._check_rights(user, head)

    def check_owner(self, head: RequestHead) -> None:
        """Refuse a request of the node's owner in the name of a user who may not make it.

        Raises:
            HttpError: that user has no right to do this.
        """
        if (user := impersonated(head.headers)) is not None:
            self._check_rights(user, head)

    def _check_rights(self, user: AccountUser, head: RequestHead) -> None:
        action = action_of(head.method, head.target)
        if not is_allowed(user, action, self._objects):
            kind = action.resource.partition("/")[0]
            found = {"name": action.name, "group": action.group, "kind": kind}
            details = {name: each for name, each in found.items() if each}
            raise HttpError(403, "Forbidden", refusal(user, action), details=details)
