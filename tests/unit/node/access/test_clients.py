"""Whose a request is."""

from __future__ import annotations

import pytest

from plugbay.documents import Json
from plugbay.node.access.account_tokens import AUDIENCES, AccountTokens
from plugbay.node.access.clients import OWNER_NAME, ClientUsers, impersonated
from plugbay.objects.table import ObjectKey, ObjectTable
from plugbay.ops.routing import HttpError
from plugbay.testing.clock import ManualClock

ROBOT = "system:serviceaccount:lab:robot"


class UnkeptTokens:
    """Keeps nothing."""

    def save_object(self, key: ObjectKey, value: Json | None) -> None:
        return None

    async def flush(self) -> None:
        return None


async def test_a_token_that_ends_while_its_request_arrives_does_not_make_it_the_owners() -> None:
    objects, clock = ObjectTable(UnkeptTokens()), ManualClock()
    tokens = AccountTokens(objects, lambda namespace, name, uid: True, clock)
    account: Json = {"metadata": {"namespace": "lab", "name": "robot", "uid": "u"}}
    await objects.create(ObjectKey("", "serviceaccounts", "lab", "robot"), account)
    token, _ = await tokens.issue(account, AUDIENCES, 600)
    headers = {"authorization": f"Bearer {token}"}
    found = ClientUsers(tokens).of(headers)
    assert found is not None
    assert found.name == ROBOT
    clock.advance(601)
    with pytest.raises(HttpError) as refused:
        ClientUsers(tokens).of(headers)
    assert refused.value.status == 401
    assert ClientUsers(tokens).of({"authorization": "Bearer of-the-node"}) is None


def test_an_impersonated_account_is_in_the_groups_of_accounts() -> None:
    user = impersonated({"impersonate-user": ROBOT, "impersonate-group": "a, b"})
    assert user is not None
    groups = ("a", "b", "system:authenticated", "system:serviceaccounts", "system:serviceaccounts:lab")
    assert (user.name, user.groups) == (ROBOT, groups)


@pytest.mark.parametrize("headers", [{}, {"impersonate-user": OWNER_NAME}])
def test_the_owner_is_not_a_user_with_rights_of_roles(headers: dict[str, str]) -> None:
    assert impersonated(headers) is None


def test_a_client_that_acts_as_another_has_to_name_it() -> None:
    with pytest.raises(HttpError, match="must name the user"):
        impersonated({"impersonate-extra-scopes": "a"})
