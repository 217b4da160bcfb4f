"""Large answers, compressed for clients that take them so. Streams, such as watches and logs, are never.

Source: apiserver 1.36 ``pkg/endpoints/handlers/responsewriters/writers.go``.
"""

from __future__ import annotations

import asyncio
import zlib
from dataclasses import replace
from typing import Final

from plugbay.ops.routing import Answer, Request, Response

THRESHOLD_BYTES: Final = 128 * 1024
"""Answers up to this size travel as fast without."""
_LEVEL: Final = 1
_GZIP_FORMAT: Final = 31
"""The ``wbits`` of zlib for a file of gzip."""
_GZIP: Final = "gzip"


async def compressed(request: Request, answer: Answer) -> Answer:
    """``answer``, in gzip if it is large and the client takes that."""
    if not isinstance(answer, Response) or len(answer.body) <= THRESHOLD_BYTES:
        return answer
    vary = ("Vary", "Accept-Encoding")
    if not accepts_gzip(request.headers.get("accept-encoding", "")):
        return replace(answer, headers=(*answer.headers, vary))
    body = await asyncio.to_thread(zlib.compress, answer.body, _LEVEL, _GZIP_FORMAT)
    return replace(answer, body=body, headers=(*answer.headers, vary, ("Content-Encoding", _GZIP)))


def accepts_gzip(accept_encoding: str) -> bool:
    """Whether a client names gzip, and does not refuse it with a weight of 0 (RFC 9110 section 12.5.3)."""
    for coding in accept_encoding.split(","):
        name, _, weight = (part.strip().lower() for part in coding.partition(";"))
        if name == _GZIP:
            return not _is_zero(weight)
    return False


def _is_zero(weight: str) -> bool:
    name, _, value = (part.strip() for part in weight.partition("="))
    try:
        return name == "q" and float(value) == 0
    except ValueError:
        return False
