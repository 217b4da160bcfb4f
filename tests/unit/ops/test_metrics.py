"""The text of metrics, read back by Prometheus' own parser."""

from __future__ import annotations

import math
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from plugbay.ops.metrics import MAX_LABELS, Histogram, LabelCounter, Metric, MetricKind, exposition

NUMBERS = st.floats(allow_nan=False) | st.integers(-(2**60), 2**60)


def text(*metrics: Metric) -> str:
    return "".join(exposition(metrics))


def samples(written: str) -> list[tuple[str, dict[str, str], float]]:
    return [
        (sample.name, sample.labels, float(sample.value))
        for family in text_string_to_metric_families(written)
        for sample in family.samples
    ]


def test_counters_keep_their_names_whatever_they_end_in() -> None:
    written = text(
        Metric("requests_list", MetricKind.COUNTER, "Calls of List.", [({"server_api_version": "v1"}, 2)]),
        Metric("registration_total", MetricKind.COUNTER, "Calls of Register.", [({}, 3)]),
    )
    assert written == (
        "# HELP requests_list Calls of List.\n"
        "# TYPE requests_list counter\n"
        'requests_list{server_api_version="v1"} 2\n'
        "# HELP registration_total Calls of Register.\n"
        "# TYPE registration_total counter\n"
        "registration_total 3\n"
    )


def test_metric_without_samples_is_not_written() -> None:
    assert text(Metric("empty_total", MetricKind.COUNTER, "None yet.", [])) == ""


def test_histogram_counts_what_is_not_above_each_bound() -> None:
    taken = Histogram((0.05, 1.0, 2.5))
    for value in (0.05, 0.06, 1, 7):
        taken.observe(value)
    written = text(Metric("took_seconds", MetricKind.HISTOGRAM, "Time.", [({"r": "a/b"}, taken)]))
    assert written.splitlines()[2:] == [
        'took_seconds_bucket{r="a/b",le="0.05"} 1',
        'took_seconds_bucket{r="a/b",le="1"} 3',
        'took_seconds_bucket{r="a/b",le="2.5"} 3',
        'took_seconds_bucket{r="a/b",le="+Inf"} 4',
        'took_seconds_sum{r="a/b"} 8.11',
        'took_seconds_count{r="a/b"} 4',
    ]


@given(values=st.lists(st.floats(0, 100)), bounds=st.sets(st.floats(0, 100), min_size=1))
def test_histogram_agrees_with_counting_by_hand(values: Iterable[float], bounds: set[float]) -> None:
    values = list(values)
    histogram = Histogram(sorted(bounds))
    for value in values:
        histogram.observe(value)
    by_hand = [sum(value <= bound for value in values) for bound in (*sorted(bounds), math.inf)]
    assert [count for _, count in histogram.buckets()] == by_hand
    assert histogram.count == len(values)
    assert histogram.sum == pytest.approx(sum(values))


@given(label=st.text(st.characters(exclude_categories=["Cs"])), value=NUMBERS)
def test_any_label_and_value_is_read_back_as_it_was(label: str, value: float) -> None:
    written = text(Metric("m", MetricKind.GAUGE, "Any \\ text\nat all.", [({"name": label}, value)]))
    assert samples(written) == [("m", {"name": label}, float(value))]
    assert written.count("\n") == 3


def test_label_that_is_no_text_does_not_break_the_scrape() -> None:
    assert samples(text(Metric("m", MetricKind.GAUGE, "M.", [({"path": "a\udcff"}, 1)]))) == [
        ("m", {"path": "a\\udcff"}, 1)
    ]


def test_not_a_number_is_written_as_go_does() -> None:
    assert text(Metric("m", MetricKind.GAUGE, "M.", [({}, math.nan)])).endswith("m NaN\n")


def test_labels_that_others_choose_are_bounded() -> None:
    counts = LabelCounter("other")
    for number in range(MAX_LABELS + 10):
        counts.count(f"name-{number}")
    counts.count("name-0")
    assert counts["name-0"] == 2
    assert counts["other"] == 10
    assert len(counts) == MAX_LABELS + 1
