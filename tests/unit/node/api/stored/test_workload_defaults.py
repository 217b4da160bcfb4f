"""Workloads get the defaults of an API server, and no others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from plugbay.documents import Json
from plugbay.node.api.stored.workloads import defaults
from plugbay.printers import v1


@pytest.mark.parametrize(
    ("fill", "labels"),
    [
        (defaults.deployment, {}),
        (defaults.replica_set, {}),
        (defaults.daemon_set, {}),
        (defaults.job, {"app": "a"}),
    ],
)
def test_only_a_job_takes_the_labels_of_its_template(
    fill: Callable[[Json, Json | None], Json], labels: dict[str, str]
) -> None:
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": []}}
    value: Json = {"metadata": {"name": "a"}, "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template}}
    assert v1.mapping(fill(value, None), "metadata", "labels") == labels
