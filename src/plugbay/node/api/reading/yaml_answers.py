"""Answers as YAML, for clients that take it rather than JSON. Streams, such as watches and logs, are never."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Final

from plugbay.node.api.reading.negotiation import YAML, prefers_yaml
from plugbay.ops.routing import JSON, Answer, Request, Response

_MOST_BYTES: Final = 256 * 1024
"""Answers up to this size, which takes a second, are laid out; a larger one stays JSON, which is YAML as well."""


async def in_wanted_format(request: Request, answer: Answer) -> Answer:
    """``answer``, in YAML if the client prefers that to JSON."""
    if not isinstance(answer, Response) or answer.content_type != JSON:
        return answer
    if not prefers_yaml(request.headers.get("accept", "")):
        return answer
    body = answer.body if len(answer.body) > _MOST_BYTES else await asyncio.to_thread(_laid_out, answer.body)
    return replace(answer, body=body, content_type=YAML)


def _laid_out(body: bytes) -> bytes:
    from plugbay.documents.texts import to_yaml  # PyYAML: most clients take JSON

    return to_yaml(json.loads(body)).encode()
