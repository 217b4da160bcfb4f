"""USB IDs are hexadecimal, whatever YAML takes their characters for."""

from __future__ import annotations

import pytest

from plugbay.plugins.generic.config.nodes import ConfigFormat, Scalar, ScalarKind, read_yaml
from plugbay.plugins.generic.config.reading import examine_config, parse_device_flag
from plugbay.plugins.generic.config.usb_ids import parse_usb_id

GOOD = {
    '"1209"': 0x1209,
    "1209": 0x1209,
    "8086": 0x8086,
    '"0407"': 0x0407,
    "0x1209": 0x1209,
    '"0x1209"': 0x1209,
    "0X407": 0x407,
    "0bda": 0x0BDA,
    '"0bda"': 0x0BDA,
    "0BDA": 0x0BDA,
    '"1e10"': 0x1E10,
    '"407"': 0x407,
    "bda": 0xBDA,
}
BAD = {
    '""': "is empty",
    "65536": "is not a USB ID",
    '"10c4a"': "is not a USB ID",
    "12_9": "is not a USB ID",
    "-1": "is not a USB ID",
    "ghij": "is not a USB ID",
    "407": 'write "0407" in quotes',
    "0407": '0407 is ambiguous: to YAML it is an octal number, and IDs are hexadecimal; write "0407" in quotes',
    "0089": 'write "0089" in quotes',
    "0b11": '0b11 is ambiguous: to YAML it is a binary number, and IDs are hexadecimal; write "0b11" in quotes',
    "1e10": 'number with an exponent, and IDs are hexadecimal; write "1e10" in quotes',
    "1e1": 'write "01e1" in quotes',
    "7": 'write "0007" in quotes',
    "true": "is not a USB ID",
}


def scalar(text: str) -> Scalar:
    node = read_yaml(text, source="")
    assert isinstance(node, Scalar)
    return node


@pytest.mark.parametrize(("text", "number"), GOOD.items(), ids=GOOD)
def test_ids_are_read_from_their_characters(text: str, number: int) -> None:
    assert parse_usb_id(scalar(text), language=ConfigFormat.YAML) == number


@pytest.mark.parametrize(("text", "words"), BAD.items(), ids=BAD)
def test_what_is_wrong_or_ambiguous_is_told_with_what_to_write(text: str, words: str) -> None:
    problem = parse_usb_id(scalar(text), language=ConfigFormat.YAML)
    assert isinstance(problem, str)
    assert words in problem


@pytest.mark.parametrize("language", [ConfigFormat.JSON, ConfigFormat.TOML])
def test_numbers_of_languages_without_hexadecimal_ids_are_refused(language: ConfigFormat) -> None:
    problem = parse_usb_id(scalar("1209"), language=language)
    assert isinstance(problem, str)
    assert 'write "1209" in quotes' in problem


def test_hexadecimal_numbers_of_toml_are_ids() -> None:
    assert parse_usb_id(scalar("0x1209"), language=ConfigFormat.TOML) == 0x1209


@pytest.mark.parametrize(
    ("text", "number"), [("1209", 1209), ("0407", 0o407), ("0x1209", 0x1209), ('"1209"', 0x1209), ("0bda", 0x0BDA)]
)
def test_old_files_may_ask_for_decimal_numbers(text: str, number: int) -> None:
    assert parse_usb_id(scalar(text), language=ConfigFormat.YAML, is_decimal=True) == number


def test_numbers_without_quotes_are_known_as_such() -> None:
    assert scalar("0407").kind is ScalarKind.INTEGER
    assert scalar("1e10").kind is ScalarKind.FLOAT


def test_a_file_with_an_id_that_squats_plugin_takes_for_another_is_told() -> None:
    text = "domain: a.b\ndevices: [{name: x, usb: [{vendor: 1209, product: 0x10, serial: 1209}, {vendor: 10c4}]}]"
    read = examine_config(text, source="f")
    assert [each.sentence for each in (*read.errors, *read.warnings)] == [
        "f:2:36: devices[0].usb[0].vendor: is taken for the hexadecimal ID 1209; to squat's plugin it is the decimal "
        'number in a file, which is the ID 04b9: write "1209" in quotes'
    ]
    assert examine_config(f"compat: decimalUsbIds\n{text}", source="f").warnings == ()
    assert examine_config(text.replace("1209", '"1209"'), source="f").warnings == ()
    assert parse_device_flag("{name: x, domain: a.b, usb: [{vendor: 1209}]}", source="--device").warnings == ()
