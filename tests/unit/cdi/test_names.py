"""Names of CDI devices, and the annotations that carry them."""

from __future__ import annotations

import pytest

from plugbay.cdi.names import (
    CdiKind,
    QualifiedName,
    annotation_key,
    check_device_name,
    names_in,
    names_of,
    parse_kind,
    parse_qualified_name,
)
from plugbay.errors import InvalidCdiName


@pytest.mark.parametrize("name", ["a/b=c", "vendor.example/gpu=0", "v-1_x.y/c.d-e_1=g0:1.2-3_4", "A/B=7"])
def test_a_good_name_is_read_and_written_back(name: str) -> None:
    assert str(parse_qualified_name(name)) == name


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "vendor is missing"),
        ("gpu0", "vendor is missing"),
        ("/class=x", "vendor is missing"),
        ("=x", "vendor is missing"),
        ("vendor=x", "class is missing"),
        ("vendor/=x", "class is missing"),
        ("vendor/class=", "name is missing"),
        ("vendor/class", "name is missing"),
        ("1vendor/class=x", "vendor '1vendor' has to start with a letter"),
        ("vendor-/class=x", "vendor 'vendor-' has to end with a letter or digit"),
        ("ven dor/class=x", "vendor 'ven dor' holds ' '"),
        ("a/b/c=x", "class 'b/c' holds '/'"),
        ("vendor/1class=x", "class '1class' has to start with a letter"),
        ("vendor/class=-x", "name '-x' has to start with a letter or digit"),
        ("vendor/class=x=y", "name 'x=y' holds '='"),
        ("vendor/class=x:", "name 'x:' has to end with a letter or digit"),
        ("vendor/class=ä", "has to start with a letter or digit"),
        ("vendor/class=x\n", "has to end with a letter or digit"),
    ],
)
def test_a_bad_name_is_refused_with_the_part_that_is_wrong(name: str, problem: str) -> None:
    with pytest.raises(InvalidCdiName) as refused:
        parse_qualified_name(name)
    assert problem in str(refused.value)


def test_a_kind_is_divided_at_the_first_slash() -> None:
    assert parse_kind("vendor.example/gopher") == CdiKind("vendor.example", "gopher")
    for bad in ("vendor", "a/b/c", "/c", "v/"):
        with pytest.raises(InvalidCdiName):
            parse_kind(bad)


def test_a_device_name_may_be_one_digit() -> None:
    check_device_name("0")
    with pytest.raises(InvalidCdiName, match="it is empty"):
        check_device_name("")


def test_annotations_ask_for_devices() -> None:
    annotations = {
        annotation_key("my.plugin", "card/1"): "v/c=b,v/c=a",
        "cdi.k8s.io/another": "v/c=a,v/d=x",
        "other.io/key": "no name at all",
    }
    assert annotation_key("my.plugin", "card/1") == "cdi.k8s.io/my.plugin_card_1"
    assert [str(name) for name in names_in(annotations)] == ["v/c=a", "v/d=x", "v/c=b"]
    assert [str(name) for name in names_of(["v/c=b"], annotations)] == ["v/c=b", "v/c=a", "v/d=x"]


@pytest.mark.parametrize("value", ["v/c=a, v/c=b", "v/c", "", "v/c=a,"])
def test_one_bad_name_spoils_the_annotations(value: str) -> None:
    with pytest.raises(InvalidCdiName):
        names_in({"cdi.k8s.io/x": value})


@pytest.mark.parametrize(("plugin", "device"), [("p" * 40, "d" * 40), ("-p", "d"), ("p", "d-"), ("p", "a b")])
def test_a_bad_annotation_key_is_refused(plugin: str, device: str) -> None:
    with pytest.raises(InvalidCdiName):
        annotation_key(plugin, device)


def test_names_sort_by_kind() -> None:
    kind = CdiKind("v", "c")
    assert sorted([QualifiedName(kind, "b"), QualifiedName(kind, "a")])[0].name == "a"
