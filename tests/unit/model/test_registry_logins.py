"""Logins at registries, and the images that they are for."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.model.registry_logins import DOCKER_CONFIG, DOCKER_CONFIG_JSON, RegistryLogin, logins_for, logins_of


def config(**places: object) -> dict[str, bytes]:
    return {".dockerconfigjson": json.dumps({"auths": places}).encode()}


def test_names_and_passwords_are_read_apart_or_together() -> None:
    auth = base64.b64encode(b"bob:a:b").decode()
    entries = {"one.example": {"username": "ann", "password": "x"}, "two.example": {"auth": auth, "username": "other"}}
    logins = (RegistryLogin("one.example", "ann", "x"), RegistryLogin("two.example", "bob", "a:b"))
    assert logins_of(DOCKER_CONFIG_JSON, config(**entries)) == logins
    assert logins_of(DOCKER_CONFIG, {".dockercfg": json.dumps(entries).encode()}) == logins


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("Opaque", config()),
        (DOCKER_CONFIG_JSON, {}),
        (DOCKER_CONFIG_JSON, {".dockerconfigjson": b"{"}),
        (DOCKER_CONFIG_JSON, {".dockerconfigjson": b"[]"}),
        (DOCKER_CONFIG, {".dockercfg": b'"x"'}),
    ],
)
def test_a_secret_without_logins_is_told_apart_from_one_with_none(kind: str, values: dict[str, bytes]) -> None:
    assert logins_of(kind, values) is None
    assert logins_of(DOCKER_CONFIG_JSON, config()) == ()


@pytest.mark.parametrize(
    ("place", "image", "fits"),
    [
        ("registry.example", "registry.example/a/b:1", True),
        ("https://registry.example/v2/", "registry.example/a", True),
        ("registry.example/team", "registry.example/team/a", True),
        ("registry.example/team", "registry.example/other/a", False),
        ("registry.example", "registry.example:5000/a", False),
        ("registry.example:5000", "registry.example:5000/a", True),
        ("*.example", "registry.example/a", True),
        ("*.example", "a.registry.example/a", False),
        ("https://index.docker.io/v1/", "busybox", True),
        ("https://index.docker.io/v1/", "library/busybox:1", True),
        ("docker.io", "docker.io/library/busybox", True),
        ("index.docker.io", "quay.io/library/busybox", False),
        ("localhost:5000", "localhost:5000/a", True),
    ],
)
def test_a_login_is_for_the_images_of_its_place(place: str, image: str, fits: bool) -> None:
    logins = logins_of(DOCKER_CONFIG_JSON, config(**{place: {"username": "u", "password": "p"}}))
    assert logins is not None
    assert bool(logins_for(image, logins)) is fits


def test_the_most_particular_login_comes_first() -> None:
    logins = [RegistryLogin("r.example", "u", "1"), RegistryLogin("r.example/team", "u", "2")]
    assert [each.password for each in logins_for("r.example/team/a", [*logins, *logins])] == ["2", "1"]


def test_nothing_of_a_login_gets_into_logs() -> None:
    assert repr(RegistryLogin("r.example", "ann", "s3cret")) == "RegistryLogin(place='r.example')"


@given(st.text(), st.binary(max_size=40))
def test_any_text_is_read(place: str, content: bytes) -> None:
    for values in ({".dockerconfigjson": content}, config(**{place: {"auth": content.decode("latin-1")}})):
        logins_for("r.example/a", logins_of(DOCKER_CONFIG_JSON, values) or ())
