"""Whether containers that ended are started again: pure.

Source: kubelet 1.36 ``container/helpers.go``, ``ShouldContainerBeRestarted``.
"""

from __future__ import annotations

from plugbay.model.pods import RestartPolicy
from plugbay.model.requests import ContainerKind
from plugbay.node.records import ContainerRecord, PodRecord, Terminated


def restarts(kind: ContainerKind, policy: RestartPolicy, end: Terminated) -> bool:
    """Whether a container that ended so is started again while its pod lives."""
    match kind:
        case ContainerKind.SIDECAR:
            return True
        case ContainerKind.INIT:
            return end.exit_code != 0 and policy is not RestartPolicy.NEVER
        case ContainerKind.APP:
            return policy is RestartPolicy.ALWAYS or (policy is RestartPolicy.ON_FAILURE and end.exit_code != 0)


def is_over(record: PodRecord) -> bool:
    """Whether nothing of the pod will be started again: every app container, or one init container, ended for good."""
    policy = record.pod.spec.restart_policy
    inits = [each for each in record.containers.values() if each.kind is ContainerKind.INIT]
    apps = [each for each in record.containers.values() if each.kind is ContainerKind.APP]
    return any(_failed(each, policy) for each in inits) or all(_ended(each, policy) for each in apps)


def _ended(container: ContainerRecord, policy: RestartPolicy) -> bool:
    return isinstance(container.state, Terminated) and not restarts(container.kind, policy, container.state)


def _failed(container: ContainerRecord, policy: RestartPolicy) -> bool:
    return _ended(container, policy) and isinstance(container.state, Terminated) and container.state.exit_code != 0
