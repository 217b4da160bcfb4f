"""Names of images, and what they say about pulling."""

from __future__ import annotations

import pytest

from plugbay.model.images import PullPolicy, default_pull_policy, with_default_tag

DIGEST = "sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("image", "named", "policy"),
    [
        ("busybox", "busybox:latest", PullPolicy.ALWAYS),
        ("busybox:latest", "busybox:latest", PullPolicy.ALWAYS),
        ("busybox:1.36", "busybox:1.36", PullPolicy.IF_NOT_PRESENT),
        ("localhost:5000/a/b", "localhost:5000/a/b:latest", PullPolicy.ALWAYS),
        ("localhost:5000/a/b:2", "localhost:5000/a/b:2", PullPolicy.IF_NOT_PRESENT),
        (f"a/b@{DIGEST}", f"a/b@{DIGEST}", PullPolicy.IF_NOT_PRESENT),
        (f"a/b:latest@{DIGEST}", f"a/b:latest@{DIGEST}", PullPolicy.IF_NOT_PRESENT),
    ],
)
def test_a_tag_that_moves_is_pulled_each_time(image: str, named: str, policy: PullPolicy) -> None:
    assert with_default_tag(image) == named
    assert default_pull_policy(image) is policy
