import contextlib
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.errors import InvalidQuantity
from plugbay.model.quantity import MAX_VALUE, Quantity, QuantityFormat

NANO = Fraction(1, 10**9)
SUFFIXES = {
    "n": NANO,
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}


@pytest.mark.parametrize(("suffix", "factor"), SUFFIXES.items(), ids=lambda value: str(value) or "none")
def test_every_suffix_multiplies(suffix: str, factor: Fraction) -> None:
    assert Quantity.parse(f"3{suffix}").value == 3 * factor


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("-0", 0),
        ("+5", 5),
        ("-5", -5),
        ("1.", 1),
        (".5", Fraction(1, 2)),
        ("0.1", Fraction(1, 10)),
        ("007", 7),
        ("1e3", 1000),
        ("1E3", 1000),
        ("1e+3", 1000),
        ("1.5e-3", Fraction(3, 2000)),
        ("1E", 10**18),
        ("0.5Ki", 512),
    ],
)
def test_parse(text: str, value: Fraction | int) -> None:
    assert Quantity.parse(text).value == value


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", ".", "-", "+", "Ki", "e3", "1 Gi", " 1", "1\n", "1,5", "1K", "1ki", "1KI", "1g", "1Gb", "1mm"),
        *("1e", "1e1.5", "1e3k", "1.2.3", "--1", "0x10", "1_000", "inf", "nan", "\u0661", "1\u00b5"),
        "9" * 1000,
    ],
    ids=lambda text: ascii(text)[:12],
)
def test_refuses_what_is_no_quantity(text: str) -> None:
    with pytest.raises(InvalidQuantity):
        Quantity.parse(text)


def test_error_shows_the_text_and_stays_short() -> None:
    with pytest.raises(InvalidQuantity, match=r"quantity '1 Gi' is not a number"):
        Quantity.parse("1 Gi")
    with pytest.raises(InvalidQuantity) as caught:
        Quantity.parse("9" * 100_000)
    assert len(str(caught.value)) < 150


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("0", "0"),
        ("0Gi", "0"),
        ("0e5", "0"),
        ("1.5", "1500m"),
        ("1000m", "1"),
        ("1000", "1k"),
        ("1500", "1500"),
        ("0.001", "1m"),
        ("0.0000001", "100n"),
        ("1000000k", "1G"),
        ("1024", "1024"),
        ("1024Ki", "1Mi"),
        ("1.5Gi", "1536Mi"),
        ("1023.5Ki", "1048064"),
        ("0.5Ki", "512"),
        ("0.1Ki", "102400m"),
        ("1e3", "1e3"),
        ("1e4", "10e3"),
        ("12e6", "12e6"),
        ("1e2", "100"),
        ("1e-2", "10e-3"),
        ("-1.5", "-1500m"),
        ("-2048", "-2048"),
        ("-2Ki", "-2Ki"),
    ],
)
def test_canonical_text(text: str, canonical: str) -> None:
    assert str(Quantity.parse(text)) == canonical


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.1n", NANO),
        ("-0.1n", -NANO),
        ("1.1n", 2 * NANO),
        ("1e-999999999999", NANO),
        ("0e999999999999", 0),
        ("1e999999999999", MAX_VALUE),
        ("-1e999999999999", -MAX_VALUE),
        ("8Ei", MAX_VALUE),
        ("10E", MAX_VALUE),
        (str(MAX_VALUE), MAX_VALUE),
        (str(MAX_VALUE - 1), MAX_VALUE - 1),
    ],
)
def test_rounds_up_to_nano_and_stops_at_the_largest(text: str, value: Fraction | int) -> None:
    assert Quantity.parse(text).value == value


@pytest.mark.parametrize(
    ("text", "whole", "ceiling"),
    [("2", True, 2), ("1500m", False, 2), ("1n", False, 1), ("0", True, 0), ("-1500m", False, -1), ("1Ki", True, 1024)],
)
def test_whole_numbers(text: str, whole: bool, ceiling: int) -> None:
    quantity = Quantity.parse(text)
    assert quantity.is_whole is whole
    assert quantity.to_int_ceil() == ceiling


def test_comparison_goes_by_value() -> None:
    assert Quantity.parse("1") == Quantity.parse("1000m") == Quantity.parse("1e0")
    assert len({Quantity.parse("1Ki"), Quantity.parse("1024")}) == 1
    assert Quantity.parse("999m") < Quantity.parse("1") < Quantity.parse("1Ki") < Quantity.parse("2k")


numbers = st.from_regex(r"[+-]?([0-9]{1,20}(\.[0-9]{0,12})?|\.[0-9]{1,12})", fullmatch=True, alphabet="+-.0123456789")
exponents = st.builds("e{}".format, st.integers(-30, 30))
texts = st.builds("{}{}".format, numbers, st.sampled_from(list(SUFFIXES)) | exponents)


@given(texts)
def test_canonical_text_keeps_the_value_and_is_final(text: str) -> None:
    quantity = Quantity.parse(text)
    again = Quantity.parse(str(quantity))
    assert again == quantity
    assert str(again) == str(quantity)
    assert "." not in str(quantity)


@given(numbers, st.sampled_from(list(SUFFIXES)))
def test_value_is_exact_up_to_rounding(number: str, suffix: str) -> None:
    exact = Fraction(number) * SUFFIXES[suffix]
    value = Quantity.parse(number + suffix).value
    if abs(exact) >= MAX_VALUE:
        assert abs(value) == MAX_VALUE
    else:
        assert 0 <= abs(value) - abs(exact) < NANO
        assert (value % NANO) == 0


@given(texts, texts)
def test_order_is_the_order_of_values(left: str, right: str) -> None:
    a, b = Quantity.parse(left), Quantity.parse(right)
    assert (a < b, a == b, a > b) == (a.value < b.value, a.value == b.value, a.value > b.value)


@given(st.text(max_size=12) | texts)
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(InvalidQuantity):
        assert isinstance(Quantity.parse(text).format, QuantityFormat)
