"""Templates of the generic plugin: what they fill in, and what is said about texts that are none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.plugins.generic.templates.template import Template, TemplateProblem, parse_template

FACTS = {"serial": "0001", "path": "/dev/ttyUSB0", "attr:queue/rotational": "0", "property:ID_MODEL": "Stick"}


def template(text: str, *, takes_index: bool = False) -> Template:
    parsed = parse_template(text, takes_index=takes_index)
    assert isinstance(parsed, Template)
    return parsed


def problem(text: str, *, takes_index: bool = False) -> tuple[str, int]:
    parsed = parse_template(text, takes_index=takes_index)
    assert isinstance(parsed, TemplateProblem)
    return parsed.text, parsed.offset


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("", ""),
        ("/dev/zigbee", "/dev/zigbee"),
        ("{path}", "/dev/ttyUSB0"),
        ("/dev/by-serial/{serial}/{serial}", "/dev/by-serial/0001/0001"),
        ("{attr:queue/rotational}{property:ID_MODEL}", "0Stick"),
        ("{{serial}}", "{serial}"),
        ("{{{serial}}}", "{0001}"),
        ("costs 5$ or $HOME", "costs 5$ or $HOME"),
        ("echo ${{HOME}}", "echo ${HOME}"),
        ("${{index}}", "${index}"),
    ],
)
def test_a_template_is_filled_with_facts(text: str, filled: str) -> None:
    assert template(text).fill(FACTS) == filled


def test_the_index_stands_in_names_of_variables() -> None:
    name = template("SERIAL_${index}_{serial}", takes_index=True)
    assert name.has_index
    assert name.fill(FACTS, index=2) == "SERIAL_2_0001"
    assert not template("SERIAL").has_index


def test_names_are_told_once_and_in_order() -> None:
    assert template("{serial}-{model}-{serial}").names == ("serial", "model")
    assert template("{serial}-{model}-{vendor}").missing(FACTS) == ("model", "vendor")


def test_a_fact_that_is_missing_is_an_error_with_its_name() -> None:
    with pytest.raises(KeyError, match="model"):
        template("{model}").fill(FACTS)


@pytest.mark.parametrize(
    ("text", "sentence", "offset"),
    [
        ("ab{serial", "this { has no } behind it; write {{ for a brace", 2),
        ("ab}cd", "this } has no { before it; write }} for a brace", 2),
        ("ab{}", "{} names no property; write {{}} for two braces", 2),
        ("{ serial }", "{ serial } is not the name of a property; write {serial}", 1),
        ("{1+1}", "{1+1} is not the name of a property; write {{1+1}} for the text", 1),
        ("N${index}", "${index} may stand in the name of a variable only; write ${{index}} for the text", 1),
        ("${serial}", "${serial} is not known here; write {serial} for the property or ${{serial}} for the text", 0),
    ],
)
def test_a_text_that_is_not_a_template_is_told_with_its_place(text: str, sentence: str, offset: int) -> None:
    assert problem(text) == (sentence, offset)


@given(st.text())
def test_any_text_can_be_written_with_doubled_braces(text: str) -> None:
    assert template(text.replace("{", "{{").replace("}", "}}")).fill({}) == text


@given(st.text(alphabet="{}$inde x"), st.booleans())
def test_any_text_is_a_template_or_has_a_problem_within_it(text: str, takes_index: bool) -> None:
    parsed = parse_template(text, takes_index=takes_index)
    assert isinstance(parsed, Template) or 0 <= parsed.offset < len(text)
