"""The rows of the page, what happened between two states of them, and the last hour."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from plugbay.observe.page.happenings import HappeningKind, NodeHappening, happenings
from plugbay.observe.page.history import KEPT_S, MOST_EVENTS, MOST_SAMPLES, History
from plugbay.observe.page.rows import RowChanges, Rows, changes_between, rows_of
from plugbay.observe.page.table import table_page
from plugbay.observe.view import (
    CheckpointFile,
    DeviceHealth,
    DeviceHolder,
    DeviceView,
    HealthWord,
    ObservedNode,
    PluginView,
    ReadingProblem,
    RejectedPod,
    ResourceView,
    SocketView,
    Witness,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
GPU = "example.com/gpu"
HEALTHY = DeviceHealth(word=HealthWord.HEALTHY)
SICK = DeviceHealth(word=HealthWord.UNHEALTHY, reason="XidError")
WEB = DeviceHolder(container="main", pod="web", namespace="default", uid="u1")
REJECTED = RejectedPod(namespace="lab", pod="train", uid="u2", reason="UnexpectedAdmissionError", message="none left")
HOSTILE = "\x1b[2J<script>alert(1)</script>\u202e&\n"


def node(*devices: DeviceView, problems: tuple[ReadingProblem, ...] = (), state: str = "Live") -> ObservedNode:
    resource = ResourceView(
        name=GPU, capacity=len(devices), allocatable=len(devices), devices=devices, plugin=PluginView(state=state)
    )
    return ObservedNode(taken=NOW, root="/k", resources=(resource,), problems=problems)


def device(name: str = "a", **more: object) -> DeviceView:
    return replace(DeviceView(id=name, health=HEALTHY), **more)  # type: ignore[arg-type]


def told(before: ObservedNode, after: ObservedNode) -> list[tuple[HappeningKind, str]]:
    return [(each.kind, each.text) for each in between(rows_of(before), rows_of(after), at=1.0)]


def between(before: Rows, after: Rows, *, at: float) -> list[NodeHappening]:
    return happenings(before, changes_between(before, after), at=at)


def test_only_rows_that_differ_are_sent() -> None:
    before = rows_of(node(device("a"), device("b")))
    after = rows_of(node(device("a"), device("c")))
    changes = changes_between(before, after)
    assert (set(changes.put), changes.gone) == ({f"d {GPU} c"}, (f"d {GPU} b",))
    assert not changes_between(after, rows_of(node(device("a"), device("c"))))


def test_a_node_that_is_only_read_again_does_not_change() -> None:
    file = CheckpointFile(path="/k/checkpoint", written=NOW)
    later = replace(node(), taken=NOW + timedelta(1), checkpoint=replace(file, written=NOW + timedelta(1)))
    assert not changes_between(rows_of(replace(node(), checkpoint=file)), rows_of(later))


@given(st.lists(st.sets(st.sampled_from("abcdef")), min_size=2, max_size=6))
def test_changes_lead_from_each_state_to_the_next(states: list[set[str]]) -> None:
    shown: Rows = {}
    before: Rows = {}
    for names in states:
        after = rows_of(node(*map(device, sorted(names))))
        changes = changes_between(before, after)
        shown = {key: row for key, row in shown.items() if key not in changes.gone} | dict(changes.put)
        assert shown == after
        before = after


def test_a_time_line_tells_what_became_of_devices() -> None:
    assert told(node(), node(device())) == [(HappeningKind.APPEARED, "a appeared, Healthy")]
    assert told(node(device()), node()) == [(HappeningKind.VANISHED, "a vanished")]
    assert told(node(device()), node(device(health=SICK))) == [
        (HappeningKind.UNHEALTHY, "a became Unhealthy (XidError)")
    ]
    assert told(node(device(health=SICK)), node(device())) == [(HappeningKind.HEALTHY, "a became Healthy")]
    held = node(device(holders=(WEB,)))
    assert told(node(device()), held) == [(HappeningKind.HELD, "a was given to default/web/main")]
    assert told(held, node(device())) == [(HappeningKind.FREED, "a was given back by default/web/main")]


def test_many_alike_events_are_told_as_one() -> None:
    devices = [device(str(number)) for number in range(9)]
    assert told(node(), node(*devices)) == [(HappeningKind.APPEARED, "9 devices appeared")]
    assert len(told(node(), node(*devices[1:]))) == 8


def test_a_time_line_tells_of_plugins_and_of_sources() -> None:
    assert told(node(), node(state="Gone")) == [(HappeningKind.PLUGIN, "its plugin is Gone")]
    late = (ReadingProblem(Witness.POD_RESOURCES, "the kubelet does not answer"),)
    assert told(node(), node(problems=late)) == [(HappeningKind.PROBLEM, "the kubelet does not answer")]
    assert told(node(problems=late), node()) == [(HappeningKind.PROBLEM, "all sources can be read again")]


def test_a_time_line_tells_of_pods_that_are_refused() -> None:
    refused = replace(node(), rejected=(REJECTED,))
    text = "lab/train was refused, UnexpectedAdmissionError: none left"
    assert told(node(), refused) == [(HappeningKind.REJECTED, text)]
    assert told(refused, node()) == told(refused, refused) == []
    many = replace(node(), rejected=tuple(replace(REJECTED, uid=str(number)) for number in range(9)))
    assert told(node(), many) == [(HappeningKind.REJECTED, "9 pods were refused")]


def test_a_time_line_tells_of_sockets_on_any_kubelet() -> None:
    made, listens = SocketView(name="a.sock", made=NOW), SocketView(name="a.sock", made=NOW, pid=7, command="plug")
    bare = node()

    def steps(*sockets: SocketView | None) -> list[str]:
        views = [replace(bare, sockets=() if each is None else (each,)) for each in sockets]
        return [text for before, after in pairwise(views) for _, text in told(before, after)]

    assert steps(None, listens, made, replace(made, made=NOW + timedelta(1)), None) == [
        "a.sock was made, and plug listens there",
        "a.sock has no process that listens any more",
        "a.sock was made anew, and nothing listens there",
        "a.sock was removed",
    ]


def test_the_last_hour_is_kept_and_bounded() -> None:
    history = History()
    states = [rows_of(node(device())), rows_of(node(device(holders=(WEB,))))]
    for second in range(2 * int(KEPT_S)):
        rows = states[second % 2]
        history.take(rows, between(states[(second + 1) % 2], rows, at=float(second)), at=float(second))
    [samples] = history.samples().values()
    assert len(samples) <= MOST_SAMPLES + 2
    assert float(samples[0][0] or 0) <= KEPT_S <= float(samples[1][0] or 0)
    events = history.events()
    assert len(events) == MOST_EVENTS
    assert events[-1].at == 2 * KEPT_S - 1


def test_what_stays_the_same_takes_one_sample() -> None:
    history = History()
    for second in range(100):
        history.take(rows_of(node(device())), [], at=float(second))
    assert history.samples() == {GPU: [[0.0, 0, 1, 1]]}
    assert not history.events()


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_hostile_names_are_harmless_in_the_table() -> None:
    hostile = device(HOSTILE, holders=(replace(WEB, pod=HOSTILE),), host_paths=(HOSTILE,))
    page = table_page(node(hostile), search='"><script>')
    seen = Tags()
    seen.feed(page)
    assert "script" not in seen.tags
    assert "\x1b" not in page
    assert "\u202e" not in page
    refused = replace(REJECTED, pod=HOSTILE, message=HOSTILE, at=NOW)
    seen = Tags()
    seen.feed(table_page(replace(node(hostile), rejected=(refused,))))
    assert "script" not in seen.tags
    assert "UnexpectedAdmissionError" in seen.text
    assert "\\x1b[2J<script>alert(1)</script>\\u202e&\\n" in seen.text


def test_a_search_leaves_only_devices_with_the_text_in_the_table() -> None:
    page = table_page(node(device("a"), device("b", holders=(WEB,))), search="WEB")
    assert "Devices: 1 of 2" in page


def test_no_change_is_nothing() -> None:
    assert not RowChanges({}, ())
