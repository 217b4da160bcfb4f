"""The rights of a client beyond those that its request asks for by method and path.

Source: Kubernetes 1.36 ``apiserver/pkg/endpoints/handlers/update.go`` (withAuthorization),
``pkg/registry/rbac/escalation_check.go``, ``pkg/registry/rbac/validation/rule.go`` (Covers).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from math import prod
from typing import Final

from plugbay.documents import Json
from plugbay.node.access.authorization import (
    RBAC,
    RequestedAction,
    StoredObjects,
    allows,
    is_allowed,
    refusal,
    rules_of,
    rules_of_role,
)
from plugbay.node.access.clients import ClientUsers
from plugbay.ops.routing import HttpError
from plugbay.printers import v1

_MOST_ACTIONS: Final = 10_000
"""The most actions of one rule that is given on; real ones have some hundred."""


class ClientRights:
    """Checks what only the body of a request tells."""

    def __init__(self, clients: ClientUsers, objects: StoredObjects) -> None:
        self._clients = clients
        self._objects = objects

    def check_creating(self, headers: Mapping[str, str], *, group: str, plural: str, namespace: str, name: str) -> None:
        """Refuse a client that makes an object by an update or a patch, and may not create it.

        Raises:
            HttpError: 403.
        """
        user = self._clients.of(headers)
        action = RequestedAction("create", "", group, plural, namespace, name)
        if user is not None and not is_allowed(user, action, self._objects):
            raise HttpError(403, "Forbidden", refusal(user, action))

    def check_granting(self, headers: Mapping[str, str], plural: str, value: Json) -> None:
        """Refuse a client that writes a role, or binds one, with rights that it does not have itself.

        It may with the verb ``escalate`` of the role, or ``bind`` of the role that is bound.

        Raises:
            HttpError: 403.
        """
        if (user := self._clients.of(headers)) is None:
            return
        namespace, name = v1.namespace(value), v1.name(value)
        if role := v1.mapping(value, "roleRef"):
            roles = "clusterroles" if v1.text(role, "kind") == "ClusterRole" else "roles"
            may = RequestedAction("bind", "", RBAC, roles, namespace, v1.text(role, "name"))
            given = rules_of_role(value, self._objects)
        else:
            may = RequestedAction("escalate", "", RBAC, plural, namespace, name)
            given = v1.objects(value, "rules")
        own = list(rules_of(user, namespace, self._objects))
        if any(allows(rule, may) for rule in own):
            return
        for rule in given:
            if not _covers(own, rule, namespace):
                why = f'user "{user.name}" is attempting to grant RBAC permissions not currently held: {_shown(rule)}'
                raise HttpError(403, "Forbidden", f'{plural}.{RBAC} "{name}" is forbidden: {why}')


def _covers(own: list[Json], rule: Json, namespace: str) -> bool:
    parts = [v1.texts(rule, name) for name in ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")]
    if prod(max(len(part), 1) for part in parts) > _MOST_ACTIONS:
        return False
    return all(any(allows(each, action) for each in own) for action in _actions(rule, namespace))


def _actions(rule: Json, namespace: str) -> Iterator[RequestedAction]:
    """All that a rule allows, an asterisk as it is: only an asterisk allows it."""
    verbs, names = v1.texts(rule, "verbs"), v1.texts(rule, "resourceNames") or [""]
    for verb, group, resource, name in product(verbs, v1.texts(rule, "apiGroups"), v1.texts(rule, "resources"), names):
        yield RequestedAction(verb, "", group, resource, namespace, name)
    for verb, url in product(verbs, v1.texts(rule, "nonResourceURLs")):
        yield RequestedAction(verb, url)


def _shown(rule: Json) -> str:
    """Source: Kubernetes 1.36 ``pkg/registry/rbac/validation/rule.go`` (CompactString)."""
    names = {
        "nonResourceURLs": "NonResourceURLs",
        "apiGroups": "APIGroups",
        "resources": "Resources",
        "resourceNames": "ResourceNames",
        "verbs": "Verbs",
    }
    parts = [f"{shown}:{v1.texts(rule, name)}" for name, shown in names.items() if rule.get(name)]
    return f"{{{', '.join(parts)}}}".replace("'", '"')
