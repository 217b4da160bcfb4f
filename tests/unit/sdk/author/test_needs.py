"""The rights that an author declares: each checked where it is written."""

from __future__ import annotations

from typing import Any

import pytest

from plugbay import (
    Capability,
    Device,
    DevicePlugin,
    HostDirectory,
    Memory,
    NodeName,
    NodeReader,
    OneAtATime,
    OnNodes,
    Privileged,
    Variable,
    plugin,
    resources,
)
from plugbay.errors import InvalidPlugin
from plugbay.sdk.author.mistakes import check_attributes
from plugbay.sdk.author.needs import check_needs

WHY = "a reason"
GOOD = [
    HostDirectory("/opt/card", WHY),
    HostDirectory("/", WHY, container_path="/host"),
    Capability("NET_ADMIN", WHY),
    Privileged(WHY),
    Variable("LOG", "", WHY),
    Memory(64, WHY),
    NodeName(WHY),
    NodeReader(WHY),
    OneAtATime(WHY),
    OnNodes("example.com/card=true,!old", WHY),
]


def test_needs_of_use() -> None:
    check_needs("example.com/card", GOOD)
    check_needs("example.com/card", ())


@pytest.mark.parametrize(
    ("need", "problem"),
    [
        (HostDirectory("opt", WHY), '"opt" is not a path'),
        (HostDirectory("/opt/../etc", WHY), '"/opt/../etc" is not a path'),
        (HostDirectory("/opt/", WHY), '"/opt/" is not a path'),
        (HostDirectory("/opt", WHY, container_path="x"), '"x" is not a path'),
        (HostDirectory("/", WHY), "a container_path is wanted"),
        (Capability("CAP_NET_ADMIN", WHY), "without CAP_, such as NET_ADMIN"),
        (Capability("net_admin", WHY), "such as NET_ADMIN"),
        (Capability("NET_ADMINS", WHY), "the name that Linux gives it"),
        (Variable("A-B", "x", WHY), "a variable has a name of letters"),
        (Memory(0, WHY), "a whole number of MiB"),
        (Memory(True, WHY), "a whole number of MiB"),
        (OnNodes("", WHY), "a selector has conditions on labels"),
        (OnNodes("a in b", WHY), "is not a label selector such as app=web"),
        (OnNodes("a", ""), "the reason has to be a line of text"),
        (Privileged(""), "the reason has to be a line of text"),
        (Capability("NET_ADMIN", "two\nlines"), "the reason has to be a line of text"),
        ("NET_ADMIN", "it is not one of plugbays needs, such as HostDirectory"),
    ],
    ids=str,
)
def test_need_of_no_use(need: Any, problem: str) -> None:
    with pytest.raises(InvalidPlugin, match="`needs` has ") as caught:
        check_needs("example.com/card", [need])
    assert problem.replace('"', "") in str(caught.value).replace('"', "").replace("'", "")


def test_needs_that_are_not_a_list() -> None:
    with pytest.raises(InvalidPlugin, match="it has to be a list"):
        check_needs("example.com/card", Privileged(WHY))
    with pytest.raises(InvalidPlugin, match="it has to be a list"):
        check_needs("example.com/card", "SYS_ADMIN")


def test_every_way_to_write_a_plugin_takes_them() -> None:
    needs = [Capability("NET_ADMIN", WHY)]

    @plugin("example.com/card", needs=needs)
    def cards() -> list[Device]:
        return []

    @resources(needs=needs)
    def found() -> list[DevicePlugin]:
        return []

    assert cards.needs == needs
    assert found.needs == tuple(needs)
    check_attributes(cards)
    cards.needs = [Capability("", WHY)]
    with pytest.raises(InvalidPlugin, match=r"example\.com/card"):
        check_attributes(cards)
    with pytest.raises(InvalidPlugin, match="such as NET_ADMIN"):
        resources(needs=[Capability("x", WHY)])(lambda: [])
