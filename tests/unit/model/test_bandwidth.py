from __future__ import annotations

import pytest

from plugbay.errors import InvalidBandwidth
from plugbay.model.bandwidth import EGRESS, INGRESS, Bandwidth, bandwidth_of


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        *(("1k", 1_000), ("1000", 1_000), ("999.5", 1_000), ("1M", 1_000_000), ("10Mi", 10_485_760)),
        *(("1.5k", 1_500), ("1e3", 1_000), ("1000000m", 1_000), ("1000.0001", 1_001), ("1P", 10**15), ("+1k", 1_000)),
    ],
)
def test_rate_is_in_whole_bits_per_second(text: str, rate: int) -> None:
    assert bandwidth_of({INGRESS: text}) == Bandwidth(ingress=rate)
    assert bandwidth_of({EGRESS: text, INGRESS: "1k", "other": "x"}) == Bandwidth(1_000, rate)


def test_no_annotation_is_no_limit() -> None:
    assert bandwidth_of({"kubernetes.io/ingress": "x"}) is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        *(("999", "is unreasonably small (< 1kbit)"), ("0", "is unreasonably small"), ("-1M", "is unreasonably small")),
        *(("1000001G", "is unreasonably large (> 1Pbit)"), ("1E", "is unreasonably large")),
        *(("", "is not a number"), ("1MB", "is not a number"), ("10 M", "is not a number"), ("1m1", "is not a number")),
        ("9" * 300, "is not a number"),
    ],
)
def test_other_rates_are_refused(text: str, problem: str) -> None:
    with pytest.raises(InvalidBandwidth) as refusal:
        bandwidth_of({INGRESS: "1M", EGRESS: text})
    assert str(refusal.value).startswith(f'annotation kubernetes.io/egress-bandwidth: "{text}" {problem}')
