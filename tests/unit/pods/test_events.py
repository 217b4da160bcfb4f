from __future__ import annotations

from plugbay.model.ids import ContainerName, PodUid
from plugbay.model.pods import Container, Pod, PodSpec
from plugbay.model.requests import ContainerKind
from plugbay.objects.watch import Broadcast, Change
from plugbay.ops.changes import Changes
from plugbay.pods.events import ObjectRef, event_object, pod_ref
from plugbay.pods.store.event_log import MAX_EVENTS, MAX_MESSAGE, EventLog
from plugbay.testing.clock import ManualClock
from plugbay.testing.fake_node import FakeStore

POD = ObjectRef("Pod", "default", "p", "u")


def test_repetitions_are_counted() -> None:
    clock, kept = ManualClock(), FakeStore(Changes())
    log = EventLog(kept, clock)
    log.warning(POD, "BackOff", "again")
    clock.advance(5)
    log.warning(POD, "BackOff", "again")
    (event,) = log
    assert event.count == 2
    assert (event.last_at - event.first_at).total_seconds() == 5
    assert list(kept.events.values()) == [event]


def test_another_message_is_another_event() -> None:
    log = EventLog(FakeStore(Changes()), ManualClock())
    log.normal(POD, "Started", "one")
    log.normal(POD, "Started", "two")
    assert [event.count for event in log] == [1, 1]


def test_the_oldest_is_forgotten() -> None:
    kept = FakeStore(Changes())
    log = EventLog(kept, ManualClock())
    for number in range(MAX_EVENTS + 1):
        log.normal(POD, "Started", str(number))
    messages = [event.message for event in log]
    assert messages == [str(number) for number in range(1, MAX_EVENTS + 1)]
    assert len(kept.events) == MAX_EVENTS


def test_counting_goes_on_after_a_restart() -> None:
    clock, kept = ManualClock(), FakeStore(Changes())
    EventLog(kept, clock).normal(POD, "Started", "one")
    log = EventLog(kept, clock, stored=kept.events.values())
    log.normal(POD, "Started", "one")
    assert [event.count for event in log] == [2]


def test_an_event_names_the_container_as_v1_does() -> None:
    spec = PodSpec(
        containers=(Container(ContainerName("a")),),
        init_containers=(Container(ContainerName("i"), kind=ContainerKind.INIT),),
    )
    pod = Pod("p", spec, uid=PodUid("u"))
    assert pod_ref(pod, ContainerName("i")).field_path == "spec.initContainers{i}"
    log = EventLog(FakeStore(Changes()), ManualClock())
    log.normal(pod_ref(pod, ContainerName("a")), "Started", "Container started")
    (shown,) = map(event_object, log)
    assert shown["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "default",
        "name": "p",
        "uid": "u",
        "fieldPath": "spec.containers{a}",
    }


async def test_a_slow_watcher_sees_only_the_newest() -> None:
    broadcast = Broadcast[str, int]()
    subscription = broadcast.subscribe([("a", 1)])
    broadcast.send(Change.MODIFIED, "a", 2)
    broadcast.send(Change.ADDED, "b", 1)
    broadcast.send(Change.DELETED, "b", 3)
    assert await subscription.next() == [(Change.ADDED, 2), (Change.DELETED, 3)]


def test_a_message_without_end_is_cut() -> None:
    log = EventLog(FakeStore(Changes()), ManualClock())
    log.warning(POD, "Failed", "x" * 4_000_000)
    [event] = log
    assert event.message == "x" * MAX_MESSAGE + f"… ({4_000_000 - MAX_MESSAGE} more characters)"
