"""Flags and variables in every spelling that NVIDIA's plugin takes."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.errors import InvalidNvidiaConfig, UsageError
from plugbay.plugins.nvidia.config.arguments import parse_arguments, parse_environment
from plugbay.plugins.nvidia.config.choices import Dialect
from plugbay.plugins.nvidia.config.configuration import Configuration
from plugbay.plugins.nvidia.config.durations import Span, parse_span
from plugbay.plugins.nvidia.config.flags import PLUGIN_FLAGS, ConfigFlag, FlagKind
from plugbay.plugins.nvidia.config.validation import dialect_of, settle
from tests.unit.plugins.nvidia.golden_machines import configured

NAMED: Final = [flag for flag in PLUGIN_FLAGS if flag.names]
TRUE_WORDS: Final = ("1", "t", "T", "TRUE", "true", "True")
DURATIONS: Final = ("health-clean-time", "rescan-interval")
FALSE_WORDS: Final = ("0", "f", "F", "FALSE", "false", "False")


def sample(flag: ConfigFlag) -> tuple[str, Any]:
    """A text and the value that it stands for, which is not the default."""
    match flag.kind:
        case FlagKind.BOOLEAN:
            return str(not flag.default).lower(), not flag.default
        case FlagKind.INTEGERS:
            return "0", (0,)
        case FlagKind.TEXTS:
            words = flag.allowed[1:3] or ("one", "two")
            return ",".join(words), tuple(words)
        case _:
            others = [word for word in flag.allowed if word != flag.default]
            word = others[-1] if others else "5m" if flag.key in DURATIONS else "/else where"
            return word, word


@pytest.mark.parametrize("flag", NAMED, ids=lambda flag: flag.key)
def test_every_name_and_every_spelling_of_a_flag(flag: ConfigFlag) -> None:
    text, value = sample(flag)
    for name in flag.names:
        for arguments in ([f"--{name}={text}"], [f"-{name}={text}"]):
            assert parse_arguments(arguments)[flag.key].value == value
        if flag.kind is not FlagKind.BOOLEAN:
            assert parse_arguments([f"--{name}", text])[flag.key].value == value


@pytest.mark.parametrize("flag", NAMED, ids=lambda flag: flag.key)
def test_every_variable_of_a_flag(flag: ConfigFlag) -> None:
    text, value = sample(flag)
    for variable in flag.variables:
        given_value = parse_environment({variable: text})[flag.key]
        assert given_value.value == value
        assert given_value.place.field == variable


@pytest.mark.parametrize("flag", NAMED, ids=lambda flag: flag.key)
def test_precedence_of_every_flag(flag: ConfigFlag) -> None:
    """Command line, environment, file, default: whatever is taken away, the next one counts."""
    texts, values = zip(*(sample(flag) for _ in range(3)), strict=True)
    layers = [
        parse_arguments([f"--{flag.key}={texts[0]}"]),
        parse_environment({flag.variables[0]: texts[1]}),
        parse_arguments([f"--{flag.names[-1]}={texts[2]}"]),
    ]
    for number, layer in enumerate(layers):
        counting = settle(*layers[number:])[flag.key]
        assert counting == layer[flag.key]
        assert counting.value == values[number]
    assert settle()[flag.key].value == flag.default


@pytest.mark.parametrize("flag", [each for each in NAMED if each.field], ids=lambda flag: flag.key)
def test_every_field_of_the_file_counts_before_the_default(flag: ConfigFlag) -> None:
    text, _ = sample(flag)
    written = f"[{text}]" if flag.kind in (FlagKind.TEXTS, FlagKind.INTEGERS) else text
    *sections, name = flag.field
    config = "".join(f"{section}: {{" for section in sections) + f"{name}: {written}" + "}" * len(sections)
    assert configured(config=config) == configured([f"--{flag.key}={text}"])
    assert configured(config=config) != configured()


def test_boolean_words_are_those_of_go() -> None:
    for word in TRUE_WORDS:
        assert parse_arguments([f"--gds-enabled={word}"])["gds-enabled"].value is True
    for word in FALSE_WORDS:
        assert parse_environment({"GDS_ENABLED": word})["gds-enabled"].value is False
    assert parse_arguments(["--gds-enabled", "false"])["gds-enabled"].value is True  # the next word is no flag
    for word in ("yes", "on", "tRUE", " true"):
        with pytest.raises(UsageError, match="parse error"):
            parse_arguments([f"--gds-enabled={word}"])


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--nope"], "flag provided but not defined: -nope"),
        (["--mps-root"], "flag needs an argument: -mps-root"),
        (["--driver-root=/a", "--nvidia-driver-root=/b"], "Cannot use two forms of the same flag"),
        (["--imex-channel-ids=1,x"], 'invalid value "1,x" for flag -imex-channel-ids'),
        (["--imex-channel-ids=9223372036854775808"], "value out of range"),
        (["--imex-channel-ids="], "invalid syntax"),
    ],
)
def test_wrong_usage(arguments: list[str], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        parse_arguments(arguments)


def test_numbers_in_the_notations_of_go() -> None:
    numbers = parse_arguments(["--imex-channel-ids=0x10, 010,0b11,1_000", "--imex-channel-ids=-5"])
    assert numbers["imex-channel-ids"].value == (16, 8, 3, 1000, -5)


def test_repeated_flags() -> None:
    layer = parse_arguments(
        ["--mig-strategy=single", "--mig-strategy=mixed", "--cdi-disable-hooks=a", "rest", "--nope"]
    )
    assert layer["mig-strategy"].value == "mixed"
    more = parse_arguments(["--cdi-disable-hooks=a , b", "--cdi-disable-hooks=c"])
    assert more["cdi-disable-hooks"].value == ("a", "b", "c")


def test_empty_variables() -> None:
    assert configured(environment={"MPS_ROOT": "", "IMEX_CHANNEL_IDS": "", "GDS_ENABLED": ""}) == configured()
    with pytest.raises(InvalidNvidiaConfig, match="invalid strategy: "):
        configured(environment={"DEVICE_LIST_STRATEGY": ""})
    only_file = configured(environment={"IMEX_CHANNEL_IDS": ""}, config="imex: {channelIDs: [0]}")
    assert only_file.imex.channel_ids == (0,)


def test_dialect_is_known_before_the_file_is_read() -> None:
    assert dialect_of({}, {}) is Dialect.REFERENCE
    assert dialect_of(parse_arguments(["--config-dialect=extended"]), {}) is Dialect.EXTENDED
    with pytest.raises(InvalidNvidiaConfig, match="allowed: reference, extended"):
        dialect_of({}, parse_environment({"CONFIG_DIALECT": "go"}))


def test_configuration_is_a_value() -> None:
    assert isinstance(configured(), Configuration)
    assert hash(configured()) == hash(configured())


@given(st.integers(-(2**63) + 1, 2**63 - 2))
def test_durations_are_read_as_they_are_written(nanoseconds: int) -> None:
    span = Span(nanoseconds)
    assert parse_span(str(span)) == span


@pytest.mark.parametrize(
    ("text", "nanoseconds", "written"),
    [
        ("1h", 3_600_000_000_000, "1h0m0s"),
        ("1.5h", 5_400_000_000_000, "1h30m0s"),
        ("60s", 60_000_000_000, "1m0s"),
        (".5s", 500_000_000, "500ms"),
        ("1.s", 1_000_000_000, "1s"),
        ("1500us", 1_500_000, "1.5ms"),
        ("-3ms", -3_000_000, "-3ms"),
        ("+1\u00b5s", 1_000, "1\u00b5s"),
        ("1m30.5s", 90_500_000_000, "1m30.5s"),
    ],
)
def test_durations_of_go(text: str, nanoseconds: int, written: str) -> None:
    assert parse_span(text) == Span(nanoseconds)
    assert str(Span(nanoseconds)) == written


@given(st.text(max_size=20))
def test_any_text_is_a_duration_or_a_value_error(text: str) -> None:
    try:
        parse_span(text)
    except ValueError:
        pass


@given(st.lists(st.text(max_size=12) | st.sampled_from([f"--{flag.key}" for flag in NAMED]), max_size=4))
def test_any_command_line_is_settings_or_wrong_usage(arguments: list[str]) -> None:
    try:
        parse_arguments(arguments)
    except UsageError:
        pass
