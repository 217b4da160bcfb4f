"""What a journal means once the process that wrote it has ended: pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from plugbay.model.assignments import AssignmentKey, Origin
from plugbay.sdk.release.records import Content
from plugbay.sdk.release.uses import Phase, Use


def is_of_earlier_boot(content: Content, boot: str) -> bool:
    return content.header is not None and content.header.boot != boot


def as_found(content: Content, boot: str, allocating: Collection[AssignmentKey]) -> Content:
    """``content`` as whoever takes the journal over has to see it.

    A machine that was started anew has no containers, so all is over. Of an Allocate that was never answered no kubelet
    has made an assignment.

    Args:
        boot: names this boot of the machine.
        allocating: calls of the living that are being answered.
    """
    is_rebooted = is_of_earlier_boot(content, boot)
    uses = [
        _over(use) if is_rebooted or (use.phase is Phase.ALLOCATING and use.key not in allocating) else use
        for use in content.uses
    ]
    return replace(content, life=None if is_rebooted else content.life, uses=tuple(uses))


def _over(use: Use) -> Use:
    return use if use.phase is Phase.RELEASING else replace(use, phase=Phase.RELEASING, origin=Origin.SYNTHESISED)
