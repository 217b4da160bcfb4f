"""The user that a request counts for: an account, the owner of the node, or another that the owner acts as.

Source: Kubernetes 1.36 ``staging/src/k8s.io/apiserver/pkg/endpoints/filters/impersonation.go``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from plugbay.node.access.account_tokens import AccountTokens, AccountUser
from plugbay.ops.routing import HttpError

OWNER_NAME: Final = "kubernetes-admin"
"""The user that has the node's token, or may open its socket."""
MASTERS: Final = "system:masters"
_ACCOUNT: Final = "system:serviceaccount:"
_IMPERSONATE: Final = "impersonate-"


class ClientUsers:
    """Tells whose a request is that has been let in."""

    def __init__(self, tokens: AccountTokens) -> None:
        self._tokens = tokens

    def of(self, headers: Mapping[str, str]) -> AccountUser | None:
        """The user; None for the owner of the node.

        Raises:
            HttpError: as `impersonated`; 401, the token has ended since the request was let in.
        """
        token = headers.get("authorization", "").partition(" ")[2]
        if (user := self._tokens.user(token)) is not None:
            return user
        if self._tokens.has_issued(token):
            raise HttpError(401, "Unauthorized", "Unauthorized")
        return impersonated(headers)


def is_impersonating(headers: Mapping[str, str]) -> bool:
    return any(name.startswith(_IMPERSONATE) for name in headers)


def impersonated(headers: Mapping[str, str]) -> AccountUser | None:
    """The user that the owner of the node acts as (``kubectl --as``); None for the owner.

    Raises:
        HttpError: 400, the headers name no user.
    """
    if not is_impersonating(headers):
        return None
    if not (name := headers.get(f"{_IMPERSONATE}user", "")):
        raise HttpError(400, "BadRequest", "a client that acts as another must name the user (Impersonate-User)")
    groups = headers.get(f"{_IMPERSONATE}group", "")
    return named_user(name, groups.split(", ") if groups else [], uid=headers.get(f"{_IMPERSONATE}uid", ""))


def named_user(name: str, groups: Iterable[str], *, uid: str) -> AccountUser | None:
    """A user by name, in the groups that it always has; None for the owner of the node."""
    all_groups = [*groups, "system:authenticated"]
    if name == OWNER_NAME or MASTERS in all_groups:
        return None
    if name.startswith(_ACCOUNT):
        namespace = name.removeprefix(_ACCOUNT).partition(":")[0]
        all_groups += ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
    return AccountUser(name, uid, tuple(dict.fromkeys(all_groups)), ())
