"""The metrics of a plugin process, read from what its parts count anyway."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from plugbay.model.health import HealthState
from plugbay.ops.metrics import Histogram, Metric, MetricKind
from plugbay.sdk.process.sources import ConfigState
from plugbay.sdk.serving.server import PluginServer
from plugbay.sdk.serving.states import State, shown

_Samples: TypeAlias = Iterator[tuple[Mapping[str, str], float | Histogram]]


def plugin_metrics(servers: Iterable[PluginServer]) -> list[Metric]:
    """All metrics of what is served now; ``resource_name`` is a label of each."""
    served = tuple(servers)
    return [
        Metric("plugbay_devices", MetricKind.GAUGE, "Devices offered, replicas not counted.", _devices(served)),
        Metric(
            "plugbay_device_changes_total",
            MetricKind.COUNTER,
            "Devices that were added, removed, or changed in other ways than their health.",
            _changes(served),
        ),
        Metric(
            "plugbay_device_health_transitions_total",
            MetricKind.COUNTER,
            "How often a device came to another state of health, or to another reason for it.",
            _transitions(served),
        ),
        Metric(
            "plugbay_resource_state",
            MetricKind.GAUGE,
            "1 for the state that the resource is in, 0 for all others.",
            _states(served),
        ),
        Metric(
            "plugbay_registrations_total",
            MetricKind.COUNTER,
            "Answers of kubelets to registrations.",
            _registrations(served),
        ),
        Metric(
            "plugbay_streams_opened_total",
            MetricKind.COUNTER,
            "ListAndWatch streams that kubelets opened; all but the first are reconnections.",
            ((_of(each), each.counted.streams_opened) for each in served),
        ),
        Metric(
            "plugbay_streams_open",
            MetricKind.GAUGE,
            "ListAndWatch streams that are open.",
            ((_of(each), each.counted.streams_opened - each.counted.streams_ended) for each in served),
        ),
        Metric(
            "plugbay_call_duration_seconds",
            MetricKind.HISTOGRAM,
            "How long answers to kubelets' calls took, by method and outcome.",
            _calls(served),
        ),
        Metric(
            "plugbay_discovery_duration_seconds",
            MetricKind.HISTOGRAM,
            "How long looks for devices took, failed ones too.",
            ((_of(each), each.looks.taken) for each in served if each.looks.taken.count),
        ),
        Metric(
            "plugbay_discovery_failures_total",
            MetricKind.COUNTER,
            "Looks for devices that gave no list.",
            ((_of(each), each.looks.failures) for each in served),
        ),
        Metric(
            "plugbay_assignments",
            MetricKind.GAUGE,
            "Assignments that are not released yet, by their phase.",
            _assignments(served),
        ),
        Metric(
            "plugbay_releases_total",
            MetricKind.COUNTER,
            "Attempts to give devices back, by outcome.",
            _releases(served),
        ),
        Metric(
            "plugbay_checkpoint_readings_total",
            MetricKind.COUNTER,
            "Times that a kubelet was made to write its checkpoint to see what is in use, by outcome.",
            _readings(served),
        ),
    ]


def config_metrics(configs: Iterable[ConfigState]) -> list[Metric]:
    """The metrics of configs that may change; none for a process without."""
    states = tuple(configs)
    if not states:
        return []
    return [
        Metric(
            "plugbay_config_last_reload_successful",
            MetricKind.GAUGE,
            "1 if the newest config is in use, 0 while one before it is, or none.",
            (({"source": each.source, "config": each.name or ""}, float(not each.problem)) for each in states),
        )
    ]


def _of(server: PluginServer, **labels: str) -> Mapping[str, str]:
    return {"resource_name": server.resource, **labels}


def _devices(served: Iterable[PluginServer]) -> _Samples:
    for each in served:
        for state in HealthState:
            yield _of(each, health=state.value), each.history.health[state]


def _changes(served: Iterable[PluginServer]) -> _Samples:
    for each in served:
        for change, count in each.history.changes.items():
            yield _of(each, change=change), count


def _transitions(served: Iterable[PluginServer]) -> _Samples:
    for each in served:
        for (state, reason), count in each.history.transitions.items():
            yield _of(each, health=state, reason=reason), count


def _states(served: Iterable[PluginServer]) -> _Samples:
    for each in served:
        for state in dict.fromkeys(map(shown, State)):
            yield _of(each, state=state.value), state is each.state


def _registrations(served: Iterable[PluginServer]) -> _Samples:
    for each in served:
        yield _of(each, outcome="accepted"), each.report.registrations
        yield _of(each, outcome="refused"), each.life.refusals


def _calls(served: Iterable[PluginServer]) -> _Samples:
    for each in served:
        for (method, outcome), taken in each.counted.calls.items():
            yield _of(each, method=method, outcome=outcome), taken


def _assignments(served: Iterable[PluginServer]) -> _Samples:
    for each in served:
        if each.release is not None:
            counts = Counter(use.phase.value for use in each.release.ledger.uses())
            for phase in ("allocating", "open", "releasing"):  # as `UsePhase`, which most plugins do without
                yield _of(each, phase=phase), counts[phase]


def _releases(served: Iterable[PluginServer]) -> _Samples:
    for each in served:
        if each.release is not None:
            for outcome, count in each.release.ending.counts.items():
                yield _of(each, outcome=outcome), count


def _readings(served: Iterable[PluginServer]) -> _Samples:
    for each in served:
        if each.release is not None:
            for outcome, count in each.release.evidence.outcomes.items():
                yield _of(each, outcome=outcome), count
