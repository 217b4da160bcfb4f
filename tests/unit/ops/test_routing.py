"""Paths find their handlers."""

from __future__ import annotations

import pytest

from plugbay.ops.routing import HttpError, Request, Response, Router


async def answer(request: Request) -> Response:
    return Response()


@pytest.fixture
def router() -> Router:
    made = Router()
    for method, template in (("GET", "/"), ("GET", "/version"), ("GET", "/pods"), ("DELETE", "/pods")):
        made.add(method, template, answer)
    made.add("GET", "/pods/{name}", answer)
    made.add("DELETE", "/pods/{name}", answer)
    return made


@pytest.mark.parametrize("path", ["/", "/version", "/version/", "/pods", "/pods/", "/pods/p", "/pods/p/"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_slash_at_the_end_says_nothing_to_readers(router: Router, method: str, path: str) -> None:
    assert router.find(method, path)[0] is answer


@pytest.mark.parametrize("path", ["/pods/", "/pods/p/"])
def test_a_slash_at_the_end_makes_no_object_all_objects(router: Router, path: str) -> None:
    with pytest.raises(HttpError) as refused:
        router.find("DELETE", path)
    assert refused.value.status == 404


@pytest.mark.parametrize("path", ["/version//", "/pods//", ""])
def test_more_slashes_are_other_paths(router: Router, path: str) -> None:
    with pytest.raises(HttpError):
        router.find("GET", path)


@pytest.mark.parametrize("body", [rb'{"a": "\ud800"}', rb'{"\uDFFF": 1}', b'"\xff"', b"NaN", b"[" * 100_000])
def test_a_body_that_is_not_json_is_refused(body: bytes) -> None:
    with pytest.raises(HttpError) as refused:
        Request("POST", "/", body=body).json()
    assert refused.value.status == 400


def test_characters_may_be_escaped() -> None:
    body = rb'{"a": "\ud83d\ude00", "b": "\\ud800"}'
    assert Request("POST", "/", body=body).json() == {"a": "\U0001f600", "b": "\\ud800"}
