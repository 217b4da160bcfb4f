"""What tests of operations over networks share."""

from __future__ import annotations

from pathlib import Path

import pytest

from plugbay.cni.chain import Attachment
from tests.contract.rigs.fake_cni import MAKES, PASSES, Machine

C1 = Attachment("c1", "/run/netns/c1", "eth0", (("IgnoreUnknown", "1"), ("K8S_POD_NAME", "web")))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = Machine(tmp_path, environ={"KEPT": "yes", "CNI_COMMAND": "overridden", "CNI_NETNS_OVERRIDE": "1"})
    made.install("first", MAKES)
    made.install("second", PASSES)
    return made
