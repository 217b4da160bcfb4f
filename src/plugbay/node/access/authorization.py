"""The rights of service accounts: by the roles that are bound to them. Pure.

Source: Kubernetes 1.36 ``staging/src/k8s.io/apiserver/pkg/endpoints/request/requestinfo.go``,
``plugin/pkg/auth/authorizer/rbac/rbac.go``, ``rbac/bootstrappolicy/policy.go`` (``system:discovery``,
``system:basic-user``, ``cluster-admin``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, Protocol
from urllib.parse import unquote

from plugbay.documents import Json
from plugbay.node.access.account_tokens import AccountUser
from plugbay.objects.table import ObjectKey
from plugbay.ops.routing import TRUE_WORDS, parse_target, segments_of
from plugbay.printers import v1
from plugbay.values import dataclass

RBAC: Final = "rbac.authorization.k8s.io"
_ALL: Final = "*"
_CLUSTER_ADMIN: Final = "cluster-admin"
_EVERYTHING: Final[list[Json]] = [
    {"apiGroups": [_ALL], "resources": [_ALL], "verbs": [_ALL]},
    {"nonResourceURLs": [_ALL], "verbs": [_ALL]},
]
_EVERY_ACCOUNT: Final[list[Json]] = [
    {
        "nonResourceURLs": [
            *("/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", "/version", "/version/"),
            *("/healthz", "/livez", "/readyz"),
        ],
        "verbs": ["get"],
    },
    {
        "apiGroups": ["authorization.k8s.io"],
        "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
        "verbs": ["create"],
    },
    {"apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"], "verbs": ["create"]},
]
_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get", "HEAD": "get"}
_STREAMS: Final = frozenset({"exec", "attach", "portforward"})
"""Subresources that do something, whatever the method is."""
_NOWHERE: Final = ""
"""The path of a target with empty parts, which no rule names."""
_ONE_NAME: Final = re.compile(r"metadata\.name==?([^\\,=!]+)")
"""A field selector for one object."""
_OF_NAMESPACES: Final = frozenset({"status", "finalize"})


class StoredObjects(Protocol):
    """The part of the table of objects that is asked."""

    def get(self, key: ObjectKey) -> Json | None: ...

    def of(self, group: str, plural: str) -> list[Json]: ...


@dataclass(frozen=True, slots=True)
class RequestedAction:
    """A request, as rules speak of it.

    Attributes:
        resource: with its subresource, such as ``pods/log``; empty for a path that leads to no resource.
        namespace: empty for all, or for a resource without namespaces.
        name: empty for a list, or a new object.
    """

    verb: str
    path: str
    group: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""


def action_of(method: str, target: str) -> RequestedAction:
    """The action that a request asks for; the target is taken apart as the router does it.

    Raises:
        HttpError: the target cannot be read.
    """
    path, pairs = parse_target(target)
    segments = segments_of(method, path)
    path = "/".join(segments)
    parts = [unquote(part) for part in segments[1:]]
    start = {"api": 2, "apis": 3}.get(parts[0], 0)
    if not start or len(parts) <= start or parts[start:] == [""]:
        verb = "get" if method == "HEAD" else method.lower()
        return RequestedAction(verb, _NOWHERE if "" in parts[:-1] else unquote(path))
    if "" in parts:
        return RequestedAction(method.lower(), _NOWHERE)
    verb = _VERBS.get(method, method.lower())
    group = "" if start == 2 else parts[1]
    rest, namespace = parts[start:], ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in _OF_NAMESPACES:
            rest = rest[2:]
    name = rest[1] if len(rest) > 1 else ""
    below = rest[2] if len(rest) > 2 else ""
    if verb == "get" and not name:
        query = dict(pairs)
        verb = "watch" if query.get("watch", "false") in TRUE_WORDS else "list"
        only = _ONE_NAME.fullmatch(query.get("fieldSelector", ""))
        name = only[1] if only else ""
    elif verb == "delete" and not name:
        verb = "deletecollection"
    elif verb == "get" and below in _STREAMS:
        verb = "create"
    return RequestedAction(verb, path, group, f"{rest[0]}/{below}" if below else rest[0], namespace, name)


def is_allowed(account: AccountUser, action: RequestedAction, objects: StoredObjects) -> bool:
    """Whether a role that is bound to ``account`` allows ``action``; without any, it may look at what the API has."""
    return any(allows(rule, action) for rule in rules_of(account, action.namespace, objects))


def refusal(account: AccountUser, action: RequestedAction) -> str:
    """The words in which an API server refuses ``action``."""
    if not action.resource:
        return f'forbidden: User "{account.name}" cannot {action.verb} path "{action.path}"'
    what = f'{_plural(action)} "{action.name}"' if action.name else _plural(action)
    where = f'in the namespace "{action.namespace}"' if action.namespace else "at the cluster scope"
    does = f'cannot {action.verb} resource "{action.resource}" in API group "{action.group}" {where}'
    return f'{what} is forbidden: User "{account.name}" {does}'


def _plural(action: RequestedAction) -> str:
    plural = action.resource.partition("/")[0]
    return f"{plural}.{action.group}" if action.group else plural


def rules_of(account: AccountUser, namespace: str, objects: StoredObjects) -> Iterator[Json]:
    """The rules that hold for ``account`` in a namespace; with an empty one, those for the whole cluster."""
    yield from _EVERY_ACCOUNT
    for binding in objects.of(RBAC, "clusterrolebindings"):
        if _is_bound(account, binding):
            yield from rules_of_role(binding, objects)
    if namespace:
        for binding in objects.of(RBAC, "rolebindings"):
            if v1.namespace(binding) == namespace and _is_bound(account, binding):
                yield from (rule for rule in rules_of_role(binding, objects) if "nonResourceURLs" not in rule)


def _is_bound(account: AccountUser, binding: Json) -> bool:
    return any(_is_subject(account, each, v1.namespace(binding)) for each in v1.objects(binding, "subjects"))


def _is_subject(account: AccountUser, subject: Json, namespace: str) -> bool:
    name = v1.text(subject, "name")
    match v1.text(subject, "kind"):
        case "ServiceAccount":
            return account.name == f"system:serviceaccount:{v1.text(subject, 'namespace') or namespace}:{name}"
        case "Group":
            return name in account.groups
        case "User":
            return name == account.name
        case _:
            return False


def rules_of_role(binding: Json, objects: StoredObjects) -> Iterable[Json]:
    """The rules of the role that ``binding`` binds."""
    name = v1.text(binding, "roleRef", "name")
    is_of_cluster = v1.text(binding, "roleRef", "kind") == "ClusterRole"
    plural, namespace = ("clusterroles", "") if is_of_cluster else ("roles", v1.namespace(binding))
    role = objects.get(ObjectKey(RBAC, plural, namespace, name))
    if role is None:
        return _EVERYTHING if is_of_cluster and name == _CLUSTER_ADMIN else ()
    return v1.objects(role, "rules")


def allows(rule: Json, action: RequestedAction) -> bool:
    """Whether one rule allows ``action``."""
    if not _holds(v1.texts(rule, "verbs"), action.verb):
        return False
    if not action.resource:
        return any(_covers(url, action.path) for url in v1.texts(rule, "nonResourceURLs"))
    names = v1.texts(rule, "resourceNames")
    below = action.resource.partition("/")[2]
    resources = v1.texts(rule, "resources")
    return (
        _holds(v1.texts(rule, "apiGroups"), action.group)
        and (_holds(resources, action.resource) or (bool(below) and f"*/{below}" in resources))
        and (not names or action.name in names)
    )


def _holds(values: list[str], wanted: str) -> bool:
    return _ALL in values or wanted in values


def _covers(url: str, path: str) -> bool:
    return path.startswith(url[:-1]) if url.endswith(_ALL) else path == url
