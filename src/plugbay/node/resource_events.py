"""Events of the node about its plugins and devices: few, however much happens."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Final

from plugbay.manager.endpoints.notices import PluginChange, ResourceNews
from plugbay.model.devices import ListedDevice
from plugbay.model.ids import ResourceName
from plugbay.ops.clock import Clock
from plugbay.ops.rate_limit import TokenBucket
from plugbay.pods.events import EventType, ObjectRef
from plugbay.pods.store.event_log import EventLog
from plugbay.values import dataclass

REST_S: Final = 5.0
"""The pause after events were recorded; changes meanwhile are told together."""
MAX_NAMED: Final = 5
"""The most devices of a resource that get an event each; if more change at once, one event tells of all."""
BURST: Final = 100
EVENTS_PER_S: Final = 0.1
"""Events with a text of their own, in the long run: so plugins and devices cannot push the events of the pods out."""
_SHOWN_REASONS: Final = 3
_PLUGIN: Final = {
    PluginChange.REGISTERED: (EventType.NORMAL, "PluginRegistered", "The plugin of resource {} is registered"),
    PluginChange.STOPPED: (
        EventType.WARNING,
        "PluginStopped",
        "The plugin of resource {} has stopped: no device of it is given to a pod until it registers again",
    ),
    PluginChange.GONE: (
        EventType.WARNING,
        "PluginGone",
        "The plugin of resource {} did not come back in time: its devices no longer count",
    ),
}


@dataclass(frozen=True, slots=True)
class ResourceEvent:
    """An event to be recorded; the event log counts those with the same text."""

    type: EventType
    reason: str
    message: str


TOO_MANY: Final = ResourceEvent(
    EventType.WARNING,
    "ManyDeviceChanges",
    "Plugins and devices change more often than events can show; see plugbay node describe",
)


async def follow_resources(
    events: EventLog, node: ObjectRef, notices: AsyncIterator[Mapping[ResourceName, ResourceNews]], *, clock: Clock
) -> None:
    """Record the changes of plugins and devices, at once after a quiet time, then at intervals."""
    budget = TokenBucket(rate=EVENTS_PER_S, burst=BURST, monotonic=clock.monotonic)
    async for news in notices:
        for event in resource_events(news):
            if not (events.is_known(node, event.type, event.reason, event.message) or budget.take()):
                events.record(node, TOO_MANY.type, TOO_MANY.reason, TOO_MANY.message)
                break
            events.record(node, event.type, event.reason, event.message)
        await clock.sleep(REST_S)


def resource_events(news: Mapping[ResourceName, ResourceNews]) -> Iterator[ResourceEvent]:
    """The events that tell ``news``."""
    for resource in sorted(news):
        yield from _events(resource, news[resource])


def _events(resource: ResourceName, news: ResourceNews) -> Iterator[ResourceEvent]:
    for change in news.plugin:
        kind, reason, message = _PLUGIN[change]
        yield ResourceEvent(kind, reason, message.format(resource))
    yield from _failures(resource, [news.failed[device_id] for device_id in sorted(news.failed)])
    recovered = sorted(news.recovered)
    if len(recovered) > MAX_NAMED:
        yield _healthy(f"{len(recovered)} devices of resource {resource} are healthy: {_some(recovered)}")
    else:
        for device_id in recovered:
            yield _healthy(f"Device {device_id} of resource {resource} is healthy")


def _failures(resource: ResourceName, failed: Sequence[ListedDevice]) -> Iterator[ResourceEvent]:
    if len(failed) <= MAX_NAMED:
        for device in failed:
            cause = f": {_cause(device)}" if _cause(device) else ""
            yield _unhealthy(f"Device {device.id} of resource {resource} is unhealthy{cause}")
        return
    named = _some([device.id for device in failed])
    causes = Counter(cause for device in failed if (cause := _cause(device))).most_common(_SHOWN_REASONS)
    shown = f" ({', '.join(f'{count} for {cause}' for cause, count in causes)})" if causes else ""
    yield _unhealthy(f"{len(failed)} devices of resource {resource} are unhealthy: {named}{shown}")


def _cause(device: ListedDevice) -> str:
    """The plugin's reason, if it says more than the two words of the field can."""
    return device.reason or ("" if device.health == "Unhealthy" else device.health[:100])


def _some(names: Sequence[str]) -> str:
    return f"{', '.join(names[:MAX_NAMED])} and {len(names) - MAX_NAMED} more"


def _healthy(message: str) -> ResourceEvent:
    return ResourceEvent(EventType.NORMAL, "DeviceHealthy", message)


def _unhealthy(message: str) -> ResourceEvent:
    return ResourceEvent(EventType.WARNING, "DeviceUnhealthy", message)
