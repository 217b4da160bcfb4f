"""The metrics of the generic plugin, and those of squat's plugin by its names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from plugbay.ops.metrics import Histogram, Metric, MetricKind
from plugbay.plugins.generic.serving.counts import LookCounts
from plugbay.plugins.generic.serving.plugin import GenericPlugin
from plugbay.sdk.author.plugin import DevicePlugin

if TYPE_CHECKING:
    from plugbay.sdk.serving.server import PluginServer

_Samples: TypeAlias = Iterator[tuple[Mapping[str, str], float | Histogram]]


def generic_metrics(looks: LookCounts, troubles: int, plugins: Iterable[GenericPlugin]) -> list[Metric]:
    """The metrics beside those that all plugins have.

    Args:
        troubles: things that the last look found wrong and that are not errors of the config.
    """
    served = tuple(plugins)
    return [
        Metric(
            "plugbay_generic_look_duration_seconds",
            MetricKind.HISTOGRAM,
            "How long looks at the machine by the rules took, failed ones too.",
            [({}, looks.taken)],
        ),
        Metric(
            "plugbay_generic_look_failures_total",
            MetricKind.COUNTER,
            "Looks at the machine that gave nothing.",
            [({}, looks.failures)],
        ),
        Metric(
            "plugbay_generic_events_total",
            MetricKind.COUNTER,
            "Events of the machine, by whether a path or the kernel told of them.",
            [({"source": source}, count) for source, count in sorted(looks.events.items())],
        ),
        Metric(
            "plugbay_generic_troubles",
            MetricKind.GAUGE,
            "Rules with which something is wrong on this machine now; the log says what.",
            [({}, troubles)],
        ),
        Metric(
            "plugbay_generic_commands_total",
            MetricKind.COUNTER,
            "Commands of rules that have ended, by what they are for and their outcome.",
            _commands(served),
        ),
    ]


def _commands(plugins: Sequence[GenericPlugin]) -> _Samples:
    for plugin in plugins:
        for purpose, counts in (("health", plugin.checked), ("release", plugin.released)):
            for outcome, count in sorted(counts.items()):
                yield {"resource_name": plugin.resource_name, "purpose": purpose, "outcome": outcome}, count


def compat_metrics(servers: Iterable[PluginServer]) -> list[Metric]:
    """The three metrics of squat's plugin, with the same names, labels and meaning.

    Source: squat/generic-device-plugin 0.1.
    """
    served = tuple(servers)
    return [
        Metric(
            "generic_device_plugin_devices",
            MetricKind.GAUGE,
            "Devices that the last look found.",
            [(_of(each), _found(each.plugin)) for each in served],
        ),
        Metric(
            "generic_device_plugin_allocations_total",
            MetricKind.COUNTER,
            "Containers that got devices.",
            [(_of(each), _allocations(each)) for each in served],
        ),
        Metric(
            "generic_device_plugin_restarts_total",
            MetricKind.COUNTER,
            "Registrations after the first one, and those that the kubelet refused.",
            [(_of(each), max(0, each.report.registrations - 1) + each.life.refusals) for each in served],
        ),
    ]


def _of(server: PluginServer) -> Mapping[str, str]:
    return {"resource": server.resource}


def _found(plugin: DevicePlugin) -> int:
    return plugin.offered.found if isinstance(plugin, GenericPlugin) else 0


def _allocations(server: PluginServer) -> int:
    taken = server.counted.calls.get(("Allocate", "ok"))
    return 0 if taken is None else taken.count
