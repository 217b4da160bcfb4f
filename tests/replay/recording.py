"""A recording of a scripted situation on a kubelet's node, read into values."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any, Final

Json = dict[str, Any]

KUBELET_ROOT: Final = "/var/lib/kubelet"
_RPCS: Final = {"Allocate": "allocate", "PreStartContainer": "prestart", "GetPreferredAllocation": "preferred"}
_FIRST: Final = ("serve", "set")
"""Of steps recorded at one moment these came first: they are what made the others possible."""


class Who(Enum):
    """Whom a step is about."""

    PLUGIN = "plugin"
    POD = "pod"
    NODE = "node"


@dataclass(frozen=True, slots=True)
class Step:
    """One thing the script does.

    Attributes:
        at_s: seconds since the start.
        subject: name of the plugin or pod; empty for the node.
        action: the recording's own words.
    """

    at_s: float
    who: Who
    subject: str
    action: str
    args: Json


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A moment at which everything was looked at; ``key`` is unique in the recording."""

    at_s: float
    key: str
    seen: Json


@dataclass(frozen=True, slots=True)
class Launch:
    """One process of a plugin: what it lists first, and its behaviours, one per call, the last one stays."""

    devices: Sequence[Json]
    behaviours: Mapping[str, Sequence[Json]]


@dataclass(frozen=True, slots=True)
class PluginScript:
    """
    Attributes:
        socket, watcher_socket: paths as on the recorded machine; the second serves the registration service.
        watcher: what GetInfo answers; None for a plugin that registers by itself.
        launches: one for each time the plugin is started.
        allocated: the identifiers of each Allocate call.
    """

    name: str
    resource: str
    socket: str
    watcher_socket: str
    watcher: Json | None
    options: Json
    notify_error: str
    launches: Sequence[Launch]
    allocated: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Recording:
    """
    Attributes:
        pods: v1 pod specs by name, as recorded.
        script: steps and snapshots in order.
        observations: as recorded, but ``snapshots`` by key, each with the names of the pods that had ``ended``.
        duration_s: of the script, the recorder's clearing away at the end included.
        cdi_spec: a file of the engine's directory.
    """

    number: int
    name: str
    plugins: Mapping[str, PluginScript]
    pods: Mapping[str, Json]
    script: Sequence[Step | Snapshot]
    observations: Json
    duration_s: float
    cdi_spec: Json | None


def read(path: Path) -> Recording:
    raw: Json = json.loads(path.read_text())
    setup, observations = raw["setup"], raw["observations"]
    steps = [step for each in raw["steps"] for step in _steps(each, observations["pods"])]
    steps = _configured_starts(steps, setup)
    steps += _clearing_away(steps, observations["pods"])
    snapshots = [
        Snapshot(each["t"], f"{index} {each['label']}", _snapshot(each, observations["pods"]))
        for index, each in enumerate(observations["snapshots"], 1)
    ]
    script: list[Step | Snapshot] = sorted([*steps, *snapshots], key=_order)
    observations = {
        **observations,
        "node": _before(
            observations["node"], max((each.at_s for each in script), default=0.0)
        ),  # the plugins are quit afterwards
        "snapshots": {each.key: each.seen for each in snapshots},
    }
    plugins = {
        name: _plugin(name, each, steps, observations["plugin_log"].get(name, []))
        for name, each in setup["plugins"].items()
    }
    ends = [row["t"] for rows in observations["pods"].values() for row in rows]
    last_s = max([0.0, *ends, *(each.at_s for each in script)]) + 0.001
    cdi_spec = setup.get("cdi_spec")
    return Recording(raw["number"], raw["name"], plugins, setup["pods"], script, observations, last_s, cdi_spec)


def until(observations: Json, at_s: float) -> Json:
    """What had been seen by a moment, snapshots aside."""
    return {
        "plugin_log": {name: _before(rows, at_s) for name, rows in observations["plugin_log"].items()},
        "pods": {name: _before(rows, at_s) for name, rows in observations["pods"].items()},
        "node": _before(observations["node"], at_s),
        "events": _before(observations["events"], at_s),
    }


def ended_pods(pods: Mapping[str, Sequence[Json]]) -> list[str]:
    """Names of pods that will run nothing any more."""
    return [name for name, rows in pods.items() if rows and rows[-1].get("phase") not in ("Pending", "Running")]


def _snapshot(raw: Json, pods: Mapping[str, Sequence[Json]]) -> Json:
    seen = {key: value for key, value in raw.items() if key not in ("t", "label")}
    return {**seen, "ended": ended_pods({name: _before(rows, raw["t"]) for name, rows in pods.items()})}


def _before(rows: Sequence[Json], at_s: float) -> list[Json]:
    return [row for row in rows if row["t"] < at_s]


def _order(each: Step | Snapshot) -> tuple[float, int]:
    if isinstance(each, Step) and each.action in _FIRST:
        return each.at_s, 0
    return each.at_s, 1 if isinstance(each, Step) else 2


def _steps(raw: Json, pods: Mapping[str, Sequence[Json]]) -> Iterator[Step]:
    at_s, does, args = raw["t"], raw["do"], raw.get("with") or {}
    if match := re.fullmatch(r"plugin (\S+): (.+)", does):
        yield Step(at_s, Who.PLUGIN, match[1], match[2], args)
    elif match := re.fullmatch(r"registration socket of plugin (\S+) removed", does):
        yield Step(at_s, Who.PLUGIN, match[1], "registration socket removed", args)
    elif match := re.fullmatch(r"pod (\S+) (created|deleted)", does):
        yield Step(at_s, Who.POD, match[1], match[2], args)
    elif match := re.match(r"\S+ pods (\S+) to (\S+) created", does):
        names = sorted(name for name in pods if match[1] <= name <= match[2])
        first_s = min(pods[name][0]["t"] for name in names)  # the step was written down when it was over
        for name in names:
            yield Step(first_s, Who.POD, name, "created", args)
    else:
        for action in does.split(", ") if does.endswith("kubelet started") else [does]:
            yield Step(at_s, Who.NODE, "", action, args)


def _configured_starts(steps: Sequence[Step], setup: Json) -> list[Step]:
    """The steps, with what the recorder changed in the kubelet's configuration at the start before which it did."""
    changes = iter(setup.get("kubelet_configuration_changes") or [setup.get("kubelet_configuration_change") or {}])
    return [replace(step, args=next(changes, {})) if step.action == "kubelet started" else step for step in steps]


def _clearing_away(steps: Sequence[Step], pods: Mapping[str, Sequence[Json]]) -> list[Step]:
    """The recorder deletes at the end what is left, all at once, without writing it down.

    Pods that wait go first here: they must not get what the others leave.
    """
    deleted = {step.subject for step in steps if step.who is Who.POD and step.action == "deleted"}
    ends = {
        name: row["t"]
        for name, rows in pods.items()
        if name not in deleted
        for row in reversed(rows)
        if "deletionTimestamp" in row or "object" in row
    }
    names = sorted(ends, key=lambda name: any("containerStatuses" in row for row in pods[name]))
    return [Step(min(ends.values()), Who.POD, name, "deleted", {}) for name in names]


def _plugin(name: str, raw: Json, steps: Sequence[Step], log: Sequence[Json]) -> PluginScript:
    starts = [each.at_s for each in steps if each.subject == name and each.action == "started"]
    kills = [each.at_s for each in steps if each.subject == name and each.action.startswith("killed")]
    launches = []
    for start, end in zip(starts, [*starts[1:], None], strict=True):
        rows = [row for row in log if row["t"] >= start and (end is None or row["t"] < end)]
        lists: list[Sequence[Json]] = [row["devices"] for row in rows if row["what"] == "sent_devices"]
        devices = lists[0] if lists else raw["devices"]
        was_killed = any(start < kill and (end is None or kill <= end) for kill in kills)
        launches.append(Launch(devices, _configured(raw) if end is None else _acted(rows, dies=not was_killed)))
    return PluginScript(
        name,
        raw["resource"],
        raw["socket"],
        raw.get("watcher_socket") or raw["socket"],
        raw.get("watcher"),
        raw.get("options", {}),
        raw.get("notify_error", ""),
        launches,
        [row["request"][0] for row in log if row["what"] == "rpc" and row["rpc"] == "Allocate"],
    )


def _configured(raw: Json) -> dict[str, Sequence[Json]]:
    return {key: raw[key] for key in (*_RPCS.values(), "get_options") if key in raw}


def _acted(rows: Sequence[Json], *, dies: bool) -> dict[str, list[Json]]:
    """Behaviours of a process whose configuration is not shown, from what it did; without an answer it died."""
    acted: dict[str, list[Json]] = {}
    asked: list[str] = []
    for row in rows:
        key = _RPCS.get(row.get("rpc", ""))
        if key is None:
            continue
        if row["what"] == "rpc":
            asked.append(key)
        elif row["what"] == "answer":
            asked.remove(key)
            kept = {k: v for k, v in row.items() if k in ("ids", "error")}
            acted.setdefault(key, []).append(row.get("behaviour", kept))
    if dies:
        for key in asked:
            acted.setdefault(key, []).append({"die": True})
    return acted
