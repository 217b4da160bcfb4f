"""The Grafana dashboard of plugin processes. Pure.

Every metric in it is one that `plugbay.sdk.process.metrics` exports; a test compares them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final

from plugbay.values import dataclass

TITLE: Final = "plugbay device plugins"
FILE: Final = "plugbay-dashboard.json"
LABEL: Final = "grafana_dashboard"
"""The label by which Grafana's usual sidecar finds dashboards in ConfigMaps."""
_WIDTH, _HEIGHT, _COLUMNS = 12, 8, 2
_CHOSEN: Final = 'resource_name=~"$resource"'
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}


@dataclass(frozen=True, slots=True)
class Panel:
    """A graph: expressions of PromQL with the legend for each."""

    title: str
    about: str
    queries: Sequence[tuple[str, str]]
    unit: str = "short"


def _of(metric: str, **labels: str) -> str:
    """``metric`` of the chosen resources, with labels that match."""
    conditions = [f'{label}=~"{value}"' for label, value in labels.items()]
    return f"{metric}{{{','.join((*conditions, _CHOSEN))}}}"


PANELS: Final = (
    Panel(
        "Devices by health",
        "Devices that nodes offer, and those that they offer no more to new pods.",
        [(f"sum by (resource_name, health) ({_of('plugbay_devices')})", "{{resource_name}} {{health}}")],
    ),
    Panel(
        "Nodes whose resource is not ready",
        "More than 0 for longer than a roll-out takes: see /readyz of the pods there.",
        [
            (
                f"count by (resource_name) ({_of('plugbay_resource_state', state='streaming')} == 0)",
                "{{resource_name}}",
            )
        ],
    ),
    Panel(
        "Changes of health, per hour",
        "Devices that fell ill or recovered, with the reason.",
        [
            (
                "sum by (resource_name, health, reason) "
                f"(increase({_of('plugbay_device_health_transitions_total')}[1h]))",
                "{{resource_name}} {{health}} {{reason}}",
            )
        ],
    ),
    Panel(
        "Assignments",
        "Uses of devices by containers, for plugins that clean up after them; `releasing` should not stay.",
        [(f"sum by (resource_name, phase) ({_of('plugbay_assignments')})", "{{resource_name}} {{phase}}")],
    ),
    Panel(
        "Kubelets' calls: 99th percentile",
        "How long answers take; a pod waits for Allocate.",
        [
            (
                "histogram_quantile(0.99, sum by (le, method) "
                f"(rate({_of('plugbay_call_duration_seconds_bucket')}[$__rate_interval])))",
                "{{method}}",
            )
        ],
        unit="s",
    ),
    Panel(
        "Failures, per hour",
        "Calls that failed, looks for devices without a list, refused registrations, releases that did not work.",
        [
            (f"sum(increase({_of('plugbay_call_duration_seconds_count', outcome='failed')}[1h]))", "calls"),
            (f"sum(increase({_of('plugbay_discovery_failures_total')}[1h]))", "looks for devices"),
            (f"sum(increase({_of('plugbay_registrations_total', outcome='refused')}[1h]))", "registrations"),
            (f"sum(increase({_of('plugbay_releases_total', outcome='failed|given_up')}[1h]))", "releases"),
        ],
    ),
    Panel(
        "Registrations, per hour",
        "Restarts of kubelets and of plugins show here.",
        [(f"sum by (resource_name) (increase({_of('plugbay_registrations_total')}[1h]))", "{{resource_name}}")],
    ),
    Panel(
        "Memory of plugin processes",
        "The largest ones; their limit is in the manifest.",
        [(f"topk(5, process_resident_memory_bytes and on (namespace, pod) {_of('plugbay_devices')})", "{{pod}}")],
        unit="bytes",
    ),
)


def dashboard() -> str:
    """The dashboard as Grafana imports it."""
    return (
        json.dumps(
            {
                "title": TITLE,
                "uid": "plugbay-plugins",
                "tags": ["kubernetes", "device-plugin"],
                "schemaVersion": 39,
                "refresh": "1m",
                "time": {"from": "now-6h", "to": "now"},
                "templating": {"list": _variables()},
                "panels": list(_panels()),
            },
            indent=2,
        )
        + "\n"
    )


def _variables() -> list[dict[str, object]]:
    of_resources = "label_values(plugbay_devices, resource_name)"
    resource = {
        "name": "resource",
        "label": "Resource",
        "type": "query",
        "datasource": _SOURCE,
        "query": of_resources,
        "definition": of_resources,
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "current": {"text": "All", "value": "$__all"},
    }
    return [{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}, resource]


def _panels() -> Iterator[dict[str, object]]:
    for number, panel in enumerate(PANELS):
        row, column = divmod(number, _COLUMNS)
        yield {
            "id": number + 1,
            "type": "timeseries",
            "title": panel.title,
            "description": panel.about,
            "datasource": _SOURCE,
            "gridPos": {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
            "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
            "targets": [
                {"refId": chr(ord("A") + index), "datasource": _SOURCE, "expr": query, "legendFormat": legend}
                for index, (query, legend) in enumerate(panel.queries)
            ],
        }
