"""Kinds of questions: each is answered when it is asked, and none is stored. Pure."""

from __future__ import annotations

from typing import Final

from plugbay.node.api.field_selectors import NO_FIELDS
from plugbay.node.api.resources import ApiResource
from plugbay.objects.messages.fields import object_table
from plugbay.printers import tables


def _review(group: str, kind: str, *, is_namespaced: bool = False) -> ApiResource:
    plural = f"{kind.lower()}s"
    return ApiResource(
        group,
        "v1",
        plural,
        kind.lower(),
        kind,
        is_namespaced,
        ("create",),
        tables.PLAIN,
        NO_FIELDS,
        schema=object_table(f"{group}/v1", kind),
    )


REVIEWS: Final = (
    _review("authentication.k8s.io", "SelfSubjectReview"),
    _review("authentication.k8s.io", "TokenReview"),
    _review("authorization.k8s.io", "LocalSubjectAccessReview", is_namespaced=True),
    _review("authorization.k8s.io", "SelfSubjectAccessReview"),
    _review("authorization.k8s.io", "SelfSubjectRulesReview"),
    _review("authorization.k8s.io", "SubjectAccessReview"),
)
