"""When a kubelet is asked for its pods; what becomes of it otherwise is in `test_machine_overlaps`."""

from __future__ import annotations

from contextlib import closing

from plugbay.model.ids import DeviceId
from plugbay.sdk.release.ledger.journal import Journal
from plugbay.sdk.release.ledger.ledger import Ledger, Trouble
from plugbay.sdk.release.uses import GRACE_S
from tests.unit.sdk.release.machine_kubelet import RESOURCE
from tests.unit.sdk.release.machine_node import Node
from tests.unit.sdk.release.machine_pods import Container, Kind


def test_kubelet_is_not_asked_while_another_process_answers_it() -> None:
    """The one that came first looks, and the later one allocates."""
    with closing(Node(sees_pods=False)) as node:
        node.loop.run_for(0.1)
        node.admit(Container("x", Kind.APP, 1))
        node.loop.run_for(20)
        mine = node.process.release.ledger
        with closing(Ledger(Journal(mine.path.parent, RESOURCE, "boot 0"), RESOURCE, Trouble.RAISED)) as theirs:
            theirs.open()

            async def begin() -> None:
                theirs.begin({DeviceId("b"): DeviceId("b")}, "")

            node.loop.run_until_complete(begin())
            mine.hear()
            seen = node.process.fate.seen
            before = seen.count("list pods")
            node.look()
            node.loop.run_for(GRACE_S - 1)
            assert "send the list again" in seen
            assert seen.count("list pods") == before
            node.loop.run_for(2)
            assert seen.count("list pods") == before + 1
