"""Feature gates in the kubelet's syntax: ``--feature-gates Gate=true,Other=false``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Final

from plugbay.errors import UsageError, quote
from plugbay.values import dataclass


class Gate(Enum):
    """The gates that concern devices."""

    RESOURCE_HEALTH_STATUS = "ResourceHealthStatus"
    RESOURCE_HEALTH_STATUS_MESSAGE = "ResourceHealthStatusMessage"
    DRA_EXTENDED_RESOURCE = "DRAExtendedResource"
    POD_LEVEL_RESOURCE_MANAGERS = "PodLevelResourceManagers"
    TOPOLOGY_MANAGER_POLICY_OPTIONS = "TopologyManagerPolicyOptions"
    TOPOLOGY_MANAGER_POLICY_BETA_OPTIONS = "TopologyManagerPolicyBetaOptions"
    TOPOLOGY_MANAGER_POLICY_ALPHA_OPTIONS = "TopologyManagerPolicyAlphaOptions"
    KUBELET_POD_RESOURCES_GET = "KubeletPodResourcesGet"
    KUBELET_POD_RESOURCES_DYNAMIC_RESOURCES = "KubeletPodResourcesDynamicResources"
    KUBELET_POD_RESOURCES_LIST_USE_ACTIVE_PODS = "KubeletPodResourcesListUseActivePods"
    DEVICE_MANAGER_DEALLOCATE = "DeviceManagerDeallocate"


class GateStage(Enum):
    ALPHA = "ALPHA"
    BETA = "BETA"
    GA = "GA"
    DEPRECATED = "DEPRECATED"


class Lock(Enum):
    """Whether a gate may be set to another value than its default."""

    NONE = "none"
    TO_DEFAULT = "to default"


@dataclass(frozen=True, slots=True)
class GateSpec:
    """One row of the table."""

    stage: GateStage
    default: bool
    lock: Lock = Lock.NONE


GATES: Final[Mapping[Gate, GateSpec]] = {
    Gate.RESOURCE_HEALTH_STATUS: GateSpec(GateStage.BETA, True),
    Gate.RESOURCE_HEALTH_STATUS_MESSAGE: GateSpec(GateStage.BETA, True),
    Gate.DRA_EXTENDED_RESOURCE: GateSpec(GateStage.BETA, True),
    Gate.POD_LEVEL_RESOURCE_MANAGERS: GateSpec(GateStage.ALPHA, False),
    Gate.TOPOLOGY_MANAGER_POLICY_OPTIONS: GateSpec(GateStage.GA, True),
    Gate.TOPOLOGY_MANAGER_POLICY_BETA_OPTIONS: GateSpec(GateStage.BETA, True),
    Gate.TOPOLOGY_MANAGER_POLICY_ALPHA_OPTIONS: GateSpec(GateStage.ALPHA, False),
    Gate.KUBELET_POD_RESOURCES_GET: GateSpec(GateStage.GA, True, Lock.TO_DEFAULT),
    Gate.KUBELET_POD_RESOURCES_DYNAMIC_RESOURCES: GateSpec(GateStage.GA, True, Lock.TO_DEFAULT),
    Gate.KUBELET_POD_RESOURCES_LIST_USE_ACTIVE_PODS: GateSpec(GateStage.DEPRECATED, True),
    Gate.DEVICE_MANAGER_DEALLOCATE: GateSpec(GateStage.ALPHA, False),
}
"""The gates of kubelet 1.36, and ``DeviceManagerDeallocate``, which is proposed to it."""

_WITH_EFFECT: Final = frozenset(
    {
        Gate.RESOURCE_HEALTH_STATUS,
        Gate.KUBELET_POD_RESOURCES_LIST_USE_ACTIVE_PODS,
        Gate.DEVICE_MANAGER_DEALLOCATE,
    }
)
"""The other gates are about features that our Device Manager lacks: DRA, topology options to come, exclusive CPUs."""
_WHOLE_STAGES: Final = {"AllAlpha": GateStage.ALPHA, "AllBeta": GateStage.BETA}
"""Set every gate of a stage that is not set by its own name."""
_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "false", "FALSE", "False"})


def _defaults() -> frozenset[Gate]:
    return frozenset(gate for gate, spec in GATES.items() if spec.default)


@dataclass(frozen=True, slots=True)
class FeatureGates:
    """A value for every gate."""

    enabled: frozenset[Gate] = _defaults()

    def is_enabled(self, gate: Gate) -> bool:
        return gate in self.enabled


DEFAULT_GATES: Final = FeatureGates()


def changed_in_vain(gates: FeatureGates) -> list[Gate]:
    """The gates that differ from their default, but have no effect here."""
    return sorted((gates.enabled ^ DEFAULT_GATES.enabled) - _WITH_EFFECT, key=lambda gate: gate.value)


def parse_feature_gates(text: str) -> FeatureGates:
    """Apply ``text`` to the defaults; if a gate has several values, the last one counts.

    Raises:
        UsageError: with the kubelet's text.

    Source: kubelet 1.36 ``component-base/cli/flag/map_string_bool.go``, ``component-base/featuregate``.
    """
    wanted = dict(_pairs(text))
    stages = {_WHOLE_STAGES[name]: value for name, value in wanted.items() if name in _WHOLE_STAGES}
    named = {_gate(name): value for name, value in wanted.items() if name not in _WHOLE_STAGES}
    for gate, value in named.items():
        spec = GATES[gate]
        if spec.lock is Lock.TO_DEFAULT and value is not spec.default:
            raise UsageError(
                f"cannot set feature gate {gate.value} to {_go(value)}, feature is locked to {_go(spec.default)}"
            )
    return FeatureGates(
        frozenset(gate for gate, spec in GATES.items() if named.get(gate, stages.get(spec.stage, spec.default)))
    )


def _pairs(text: str) -> Iterator[tuple[str, bool]]:
    for pair in filter(None, text.split(",")):
        name, equals, value = (part.strip() for part in pair.partition("="))
        if not equals:
            raise UsageError("malformed pair, expect string=bool")
        if value not in _TRUE | _FALSE:
            raise UsageError(
                f"invalid value of {name}: {value}, err: strconv.ParseBool: parsing {quote(value)}: invalid syntax"
            )
        yield name, value in _TRUE


def _gate(name: str) -> Gate:
    try:
        return Gate(name)
    except ValueError:
        raise UsageError(f"unrecognized feature gate: {name}") from None


def _go(value: bool) -> str:
    return "true" if value else "false"
