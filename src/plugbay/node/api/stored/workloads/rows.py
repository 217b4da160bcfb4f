"""The rows of the kinds that make pods. Pure."""

from __future__ import annotations

from typing import Final

from plugbay.node.api.field_selectors import SelectableField, selectable
from plugbay.node.api.resources import SCALE, ScaledFields, StoredKind
from plugbay.node.api.stored.rows import row
from plugbay.node.api.stored.workloads import checks, defaults
from plugbay.objects.metadata import label_rule
from plugbay.printers import workloads as tables

_SCALED: Final = ScaledFields()
_ALL: Final = ("all",)

REPLICA_SETS: Final = row(
    "apps/v1",
    "replicasets",
    "ReplicaSet",
    stored=StoredKind(
        prepare=defaults.replica_set, check=checks.check_replica_set, has_generation=True, scaled=_SCALED
    ),
    short_names=("rs",),
    categories=_ALL,
    columns=tables.REPLICA_SETS,
    fields=selectable("status.replicas", absent="0"),
    subresources=(SCALE,),
    has_status=True,
)
DEPLOYMENTS: Final = row(
    "apps/v1",
    "deployments",
    "Deployment",
    stored=StoredKind(prepare=defaults.deployment, check=checks.check_deployment, has_generation=True, scaled=_SCALED),
    short_names=("deploy",),
    categories=_ALL,
    columns=tables.DEPLOYMENTS,
    subresources=(SCALE,),
    has_status=True,
)
DAEMON_SETS: Final = row(
    "apps/v1",
    "daemonsets",
    "DaemonSet",
    stored=StoredKind(prepare=defaults.daemon_set, check=checks.check_daemon_set, has_generation=True),
    short_names=("ds",),
    categories=_ALL,
    columns=tables.DAEMON_SETS,
    has_status=True,
)
CONTROLLER_REVISIONS: Final = row(
    "apps/v1",
    "controllerrevisions",
    "ControllerRevision",
    stored=StoredKind(check=checks.check_revision),
    columns=tables.CONTROLLER_REVISIONS,
)
JOBS: Final = row(
    "batch/v1",
    "jobs",
    "Job",
    stored=StoredKind(prepare=defaults.job, check=checks.check_job, name_rule=label_rule, has_generation=True),
    categories=_ALL,
    columns=tables.JOBS,
    fields={"status.successful": SelectableField((("status", "succeeded"),), absent="0")},
    has_status=True,
)
WORKLOADS: Final = (CONTROLLER_REVISIONS, DAEMON_SETS, DEPLOYMENTS, JOBS, REPLICA_SETS)
"""All of them."""
