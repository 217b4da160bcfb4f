"""The controllers, one for each kind of objects. Pure."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final, Protocol

from plugbay.documents import Json
from plugbay.node.controllers.actions import APPS, BATCH, Children, ControlPlan, StatusOutcome
from plugbay.node.controllers.daemon_sets import FailedPods, daemon_set_plan, daemon_set_status
from plugbay.node.controllers.deployments.plan import deployment_plan
from plugbay.node.controllers.deployments.status import deployment_status
from plugbay.node.controllers.jobs.plan import job_plan
from plugbay.node.controllers.jobs.status import job_status
from plugbay.node.controllers.replica_sets import replica_set_plan, replica_set_status
from plugbay.printers import v1
from plugbay.values import dataclass


class StatusOf(Protocol):
    def __call__(self, value: Json, children: Children, now: datetime, *, problem: str = "") -> StatusOutcome: ...


@dataclass(frozen=True, slots=True)
class Controller:
    """Looks after one kind.

    Attributes:
        component: its name in events.
        has_pods: whether it makes pods itself.
    """

    plural: str
    kind: str
    api_version: str
    component: str
    plan: Callable[[Json, Children, datetime], ControlPlan]
    status: StatusOf
    has_pods: bool = True

    @property
    def group(self) -> str:
        return self.api_version.partition("/")[0]


REPLICA_SETS: Final = Controller(
    "replicasets", "ReplicaSet", APPS, "replicaset-controller", replica_set_plan, replica_set_status
)
DEPLOYMENTS: Final = Controller(
    "deployments", "Deployment", APPS, "deployment-controller", deployment_plan, deployment_status, has_pods=False
)
JOBS: Final = Controller("jobs", "Job", BATCH, "job-controller", job_plan, job_status)


def daemon_sets(node: str, failed: Callable[[str], FailedPods]) -> Controller:
    """The controller of DaemonSets.

    Args:
        node: the name of the node.
        failed: the failed pods of a DaemonSet, by its UID, that were deleted so far.
    """

    def plan(value: Json, children: Children, now: datetime) -> ControlPlan:
        return daemon_set_plan(value, children, now, node=node, failed=failed(v1.uid(value)))

    return Controller("daemonsets", "DaemonSet", APPS, "daemonset-controller", plan, daemon_set_status)
