"""What of two sets of observations can be compared, and where it differs: pure.

Both sides have the form of a recording's ``observations``. They become comparable values by path, such as
``pods/p/phases``, by leaving out what the README of the recordings says is chance: which identifiers were picked, order
inside lists, which resource comes first, exact times, and ``Pending`` rows without container statuses. Beyond that:

* A container that is just being made is left out: how often that is seen is a matter of speed.
* Assignments of pods that have ended are left out of checkpoints: kubelets keep them for a while.
* What a container waits for: a kubelet shows it late, or not at all when something else comes first.
* How often an event that is repeated while something goes on was seen.
* The node's numbers may pass through more values than a kubelet reports, which looks once a second and so is late.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import groupby
from typing import Any, Final, NamedTuple

from tests.replay.recording import Json

_OF_A_RESOURCE: Final = re.compile(
    r'kubelet_device_plugin_(registration_total|alloc_duration_seconds_count)\{resource_name="(s\d+\.example/[^"]*)"\}'
)
Views = dict[str, Any]

_BEING_MADE: Final = ("ContainerCreating", "PodInitializing")
_OF_RUNTIMES: Final = ("Pulled", "ImageNotUsed", "PathsNotPlaced")
"""Events of a runtime: a kubelet's about images, and ours about images and paths that are left out."""
_REPEATED: Final = ("BackOff", "Failed", "FailedScheduling")


class Difference(NamedTuple):
    path: str
    expected: Any
    found: Any


def differences(expected: Json, found: Json) -> list[Difference]:
    """Where a node does not do what was recorded, by path."""
    wanted, had = comparable(expected), comparable(found)
    paths = [*wanted, *(path for path in had if path not in wanted)]
    return [
        Difference(path, wanted.get(path), had.get(path))
        for path in paths
        if not _agrees(path, wanted.get(path), had.get(path), had.get("node", []))
    ]


def _agrees(path: str, expected: Any, found: Any, node_rows: Sequence[Json]) -> bool:
    if path == "node" or path.endswith("/waits"):
        return _is_subsequence(expected or [], found or [])
    if path.startswith("snapshots/") and path.endswith("/node"):
        return any(expected.items() <= row.items() for row in [{}, *node_rows])
    return bool(expected == found)


def is_like(path: str, patterns: Iterable[str]) -> bool:
    """Whether one of the patterns, in the manner of a shell's, names the path."""
    return any(fnmatchcase(path, pattern) for pattern in patterns)


def is_reached(path: str, expected: Any, found: Any) -> bool:
    """Whether as much was seen as had been recorded; whether it is the same is another question."""
    if path == "node":
        return _is_subsequence(expected, found or [])
    return len(found or ()) >= len(expected)


def _is_subsequence(rows: Sequence[Any], of: Sequence[Any]) -> bool:
    left = iter(of)
    return all(any(row == each for each in left) for row in rows)


def comparable(observations: Json) -> Views:
    """Comparable values by path; those that grow as time passes are lists."""
    views: Views = {"node": _changes(row["resources"] for row in observations["node"] if row["resources"])}
    for name, rows in observations["plugin_log"].items():
        views |= {f"plugins/{name}/{key}": value for key, value in _plugin(rows).items()}
    for name, rows in observations["pods"].items():
        views |= {f"pods/{name}/{key}": value for key, value in _pod(rows).items()}
    pods = sorted({event["pod"] for event in observations["events"]})
    views |= {f"events/{pod}": _events(each for each in observations["events"] if each["pod"] == pod) for pod in pods}
    for key, snapshot in observations.get("snapshots", {}).items():
        views |= {f"snapshots/{key}/{part}": value for part, value in _snapshot(snapshot).items()}
    return views | _metrics(observations.get("metrics_delta", {}))


def _metrics(counts: Json) -> Views:
    """Of the recording's resources: other counters are those of the whole node, its recorder's calls included."""
    found = {match: int(count) for name, count in counts.items() if (match := _OF_A_RESOURCE.fullmatch(name))}
    return {f"metrics/{match[1]}/{match[2]}": count for match, count in found.items()}


# --- plugins --------------------------------------------------------------------------------------------------------


def _plugin(rows: Sequence[Json]) -> Views:
    """Calls around admission, PreStartContainer and the rest go on beside each other; each kind keeps its order."""
    calls = [row for row in rows if row["what"] == "rpc"]
    views = {
        "registrations": [
            (row["request"]["resource_name"], row["request"]["version"], row["result"], row.get("text", ""))
            for row in rows
            if row["what"] == "register"
        ],
        "connections": [row["rpc"] for row in calls if row["rpc"] in ("GetDevicePluginOptions", "ListAndWatch")],
        "infos": [row["rpc"] for row in calls if row["rpc"] == "GetInfo"],
        "notifications": [_notification(row) for row in calls if row["rpc"] == "NotifyRegistrationStatus"],
        "admissions": [_admission(row) for row in calls if row["rpc"] in ("GetPreferredAllocation", "Allocate")],
        "pre-starts": [len(row["request"]) for row in calls if row["rpc"] == "PreStartContainer"],
    }
    return {key: value for key, value in views.items() if value}


def _notification(row: Json) -> tuple[bool, str]:
    return row["request"]["plugin_registered"], re.sub(r"at socket \S+/", "at socket .../", row["request"]["error"])


def _admission(row: Json) -> tuple[str, Any]:
    if row["rpc"] == "Allocate":
        return "Allocate", [len(container) for container in row["request"]]
    return "GetPreferredAllocation", [
        (len(each["available"]), len(each["must_include"]), each["size"]) for each in row["request"]
    ]


# --- pods -----------------------------------------------------------------------------------------------------------


def _pod(rows: Sequence[Json]) -> Views:
    views: Views = {"phases": _changes(_phase(row) for row in rows if _counts(row))}
    names = {
        each["name"]: key
        for row in rows
        for key in ("initContainerStatuses", "containerStatuses")
        for each in row.get(key, ())
    }
    for name, key in names.items():
        statuses = [each for row in rows for each in row.get(key, ()) if each["name"] == name]
        views[f"{name}/states"] = list(dict.fromkeys(state for each in statuses for state in _states(each)))
        views[f"{name}/waits"] = list(dict.fromkeys(wait for each in statuses for wait in _waits(each)))
        views[f"{name}/health"] = _changes(health for each in statuses if (health := _health(each)))
    return {key: value for key, value in views.items() if value}


def _counts(row: Json) -> bool:
    return row.get("phase") != "Pending" or bool(row.get("containerStatuses"))


def _phase(row: Json) -> tuple[Any, ...]:
    return row.get("phase", row.get("object")), row.get("reason", ""), _text(row.get("message", ""))


def _states(status: Json) -> Iterator[tuple[Any, ...]]:
    """Runs and their ends; a run's end may be seen only as what was before."""
    restarts, state = status["restartCount"], status["state"]
    if "terminated" in status.get("lastState", {}):
        yield _end(status["lastState"]["terminated"], restarts - ("waiting" not in state))
    if "running" in state:
        yield "running", restarts
    elif "terminated" in state:
        yield _end(state["terminated"], restarts)


def _end(end: Json, restarts: int) -> tuple[Any, ...]:
    return "terminated", restarts, end["reason"], end["exitCode"], _text(end.get("message", ""))


def _waits(status: Json) -> Iterator[tuple[str, str]]:
    waiting = status["state"].get("waiting")
    if waiting and waiting["reason"] not in _BEING_MADE:
        yield waiting["reason"], _text(waiting.get("message", ""))


def _health(status: Json) -> list[tuple[str, list[tuple[str, int]]]]:
    return sorted(
        (each["name"], sorted(Counter(device["health"] for device in each["resources"]).items()))
        for each in status.get("allocatedResourcesStatus", ())
    )


def _events(events: Iterable[Json]) -> list[tuple[Any, ...]]:
    counted: Counter[tuple[Any, ...]] = Counter()
    last: dict[tuple[Any, ...], int] = {}
    for event in events:  # one row for each time, with the count so far, which starts again with the kubelet
        if event["reason"] not in _OF_RUNTIMES:
            key = event["type"], event["reason"], _text(event["message"]), event.get("container", "")
            before = last.get(key, 0)
            counted[key] += event["count"] - (before if event["count"] > before else 0)
            last[key] = event["count"]
    return sorted((*key, "again and again" if key[1] in _REPEATED else times) for key, times in counted.items())


def _text(text: str) -> str:
    """A message without what is different on every node."""
    text = re.sub(r"failed to create containerd container: (?=CDI)| \(looked in [^)]*\)", "", text)
    text = re.sub(r"endpoint .* has been stopped", "endpoint ... has been stopped", text)
    return re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|<uid [^>]+>", "<uid>", text)


# --- snapshots ------------------------------------------------------------------------------------------------------


def _snapshot(snapshot: Json) -> Views:
    views: Views = {"node": snapshot["node"]} if "node" in snapshot else {}
    if "checkpoint" in snapshot:
        views |= comparable_checkpoint(snapshot["checkpoint"], snapshot["ended"])
    if "podresources" in snapshot:
        resources = snapshot["podresources"]
        views["list"] = _pods(resources["v1_list"])
        views["list-v1alpha1"] = _pods(resources["v1alpha1_list"], topology=False)
        views["allocatable"] = sorted(_device_rows(resources["v1_allocatable"]["devices"]))
        for name, answer in resources.get("v1_get", {}).items():
            views[f"get/{name}"] = answer["error"] if "error" in answer else _pods([answer])
    return views


def comparable_checkpoint(checkpoint: Json, ended: Iterable[str]) -> Views:
    held = [each for each in checkpoint.get("entries") or () if each["pod"] not in {f"<uid {pod}>" for pod in ended}]
    return {
        "checkpoint": {key: checkpoint.get(key) for key in ("mode", "sum_valid", "error")},
        "registered": {name: sorted(ids or ()) for name, ids in (checkpoint.get("registered") or {}).items()},
        "entries": sorted((_entry(each) for each in held), key=repr),
    }


def _entry(entry: Json) -> tuple[Any, ...]:
    ids = ",".join(sorted({each for listed in entry["devices"].values() for each in listed}))
    by_node = sorted((node, len(listed)) for node, listed in entry["devices"].items())
    return entry["pod"], entry["container"], entry["resource"], by_node, _response(entry["response"], ids)


def _response(response: Json | None, ids: str) -> list[tuple[str, Any]]:
    def text(value: Any) -> Any:
        return value.replace(ids, "{ids}") if isinstance(value, str) else value

    def part(value: Any) -> Any:
        if isinstance(value, Mapping):
            return sorted((key, text(each)) for key, each in value.items())
        return sorted([text(item) for item in each] if isinstance(each, list) else text(each) for each in value)

    return sorted((key, part(value)) for key, value in (response or {}).items() if value)


def _pods(pods: Iterable[Json], *, topology: bool = True) -> Json:
    return {
        pod["name"]: {
            each["name"]: _device_counts(each.get("devices", ()), topology=topology) for each in pod["containers"]
        }
        for pod in pods
    }


def _device_counts(devices: Iterable[Json], *, topology: bool) -> list[tuple[str, str, int]]:
    """Elements by resource and NUMA nodes, with the number of identifiers; how they are split is chance."""
    counted: Counter[tuple[str, str]] = Counter()
    for each in devices:
        counted[each["resource_name"], str(each.get("numa_nodes")) if topology else ""] += len(each["device_ids"])
    return sorted((resource, nodes, count) for (resource, nodes), count in counted.items())


def _device_rows(devices: Iterable[Json]) -> Iterator[tuple[str, str, str]]:
    for each in devices:
        for device_id in each["device_ids"]:
            yield each["resource_name"], device_id, str(each["numa_nodes"])


def _changes(values: Iterable[Any]) -> list[Any]:
    return [value for value, _ in groupby(values)]
