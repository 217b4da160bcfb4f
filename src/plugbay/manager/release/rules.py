"""The table of answers to PostStopContainer and Deallocate. Pure.

Source: spec 12.8.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from plugbay.errors import RpcCode


class ReleaseVerdict(Enum):
    """The meaning of an answer for its operation."""

    DONE = "done"
    UNSUPPORTED = "unsupported"
    """The plugin has no such method, whatever its options say."""
    REFUSED = "refused"
    """The plugin will never do it."""
    RETRY = "retry"


_VERDICTS: Final[Mapping[RpcCode, ReleaseVerdict]] = {
    RpcCode.OK: ReleaseVerdict.DONE,
    RpcCode.UNIMPLEMENTED: ReleaseVerdict.UNSUPPORTED,
    RpcCode.INVALID_ARGUMENT: ReleaseVerdict.REFUSED,
    RpcCode.NOT_FOUND: ReleaseVerdict.REFUSED,
    RpcCode.FAILED_PRECONDITION: ReleaseVerdict.REFUSED,
    RpcCode.PERMISSION_DENIED: ReleaseVerdict.REFUSED,
    RpcCode.OUT_OF_RANGE: ReleaseVerdict.REFUSED,
}


def verdict_of(code: RpcCode) -> ReleaseVerdict:
    """The verdict for a status code; a call whose code is not final is tried again."""
    return _VERDICTS.get(code, ReleaseVerdict.RETRY)
