"""Large answers are compressed for clients that name gzip, and nothing else is."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator

import pytest

from plugbay.node.api.reading.compression import THRESHOLD_BYTES, accepts_gzip, compressed
from plugbay.ops.routing import Request, Response, StreamResponse

LARGE = b"{" + b" " * THRESHOLD_BYTES + b"}"
ASKING = Request("GET", "/", headers={"accept-encoding": "gzip"})


@pytest.mark.parametrize(
    ("header", "is_accepted"),
    [
        ("gzip", True),
        ("deflate, GZIP;q=0.5", True),
        ("gzip ; q=1.0, *;q=0", True),
        ("gzip;q=0", False),
        ("gzip; q=0.000", False),
        ("gzip;q=x", True),
        ("identity", False),
        ("x-gzip-not", False),
        ("*", False),
        ("", False),
        (",;,=", False),
    ],
)
def test_gzip_is_asked_for_by_name(header: str, is_accepted: bool) -> None:
    assert accepts_gzip(header) is is_accepted


async def test_a_large_answer_is_compressed() -> None:
    answer = await compressed(ASKING, Response(200, LARGE, "application/json", (("Warning", "x"),)))
    assert isinstance(answer, Response)
    assert gzip.decompress(answer.body) == LARGE
    assert len(answer.body) < len(LARGE) / 20
    assert answer.headers == (("Warning", "x"), ("Vary", "Accept-Encoding"), ("Content-Encoding", "gzip"))


@pytest.mark.parametrize(
    ("request_", "body"),
    [(ASKING, LARGE[:THRESHOLD_BYTES]), (Request("GET", "/"), LARGE)],
    ids=["small", "not asked for"],
)
async def test_other_answers_stay_as_they_are(request_: Request, body: bytes) -> None:
    answer = await compressed(request_, Response(body=body))
    assert isinstance(answer, Response)
    assert answer.body == body
    assert "Content-Encoding" not in dict(answer.headers)


async def test_streams_stay_as_they_are() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield LARGE

    stream = StreamResponse(chunks())
    assert await compressed(ASKING, stream) is stream
