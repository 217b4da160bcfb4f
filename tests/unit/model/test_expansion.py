from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.model.expansion import container_argv, container_env, expand
from plugbay.model.ids import ContainerName
from plugbay.model.pods import Container, EnvVar

ENV = {"A": "a", "B": "$(A)", "EMPTY": "", "$(A": "odd"}


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("plain", "plain"),
        ("$(A)", "a"),
        ("$(A)$(A)-$(A)", "aa-a"),
        ("$(B)", "$(A)"),
        ("$(EMPTY)", ""),
        ("$(MISSING)", "$(MISSING)"),
        ("$()", "$()"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$a"),
        ("$$$$(A)", "$$(A)"),
        ("$A ${A}", "$A ${A}"),
        ("$", "$"),
        ("$$", "$"),
        ("end$", "end$"),
        ("$(A", "$(A"),
        ("$(", "$("),
        ("$($$", "$($"),
        ("$($(A)", "odd"),
        ("$(A))", "a)"),
        ("$( A)", "$( A)"),
    ],
    ids=repr,
)
def test_expand(text: str, expanded: str) -> None:
    assert expand(text, ENV) == expanded


def cursor_expand(text: str, env: Mapping[str, str]) -> str:
    """The rules said once more, character by character, as upstream does it."""
    out, at = "", 0
    while at < len(text):
        if text[at] != "$" or at + 1 == len(text):
            out, at = out + text[at], at + 1
        elif text[at + 1] == "$":
            out, at = out + "$", at + 2
        elif text[at + 1] == "(" and ")" in text[at + 2 :]:
            end = text.index(")", at + 2)
            out, at = out + env.get(text[at + 2 : end], text[at : end + 1]), end + 1
        else:
            out, at = out + text[at : at + 2], at + 2
    return out


@given(st.text(alphabet="$()AB x\n", max_size=30), st.dictionaries(st.text("AB$( ", max_size=2), st.text("$(A)x")))
def test_expand_follows_the_rules(text: str, env: dict[str, str]) -> None:
    assert expand(text, env) == cursor_expand(text, env)


@given(st.text())
def test_escaped_text_comes_out_as_written(text: str) -> None:
    assert expand(text.replace("$", "$$"), {"A": "a"}) == text


def a_container(*env: tuple[str, str], command: tuple[str, ...] = (), args: tuple[str, ...] = ()) -> Container:
    return Container(
        ContainerName("main"), command=command, args=args, env=tuple(EnvVar(name, value) for name, value in env)
    )


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ([("A", "1"), ("B", "$(A)2"), ("C", "$(B)3")], {"A": "1", "B": "12", "C": "123"}),
        ([("B", "$(A)"), ("A", "1")], {"B": "$(A)", "A": "1"}),
        ([("A", "1"), ("A", "$(A)2")], {"A": "12"}),
        ([("A", "$$(B)"), ("C", "$(A)")], {"A": "$(B)", "C": "$(B)"}),
    ],
    ids=["earlier", "later is unknown", "same name again", "values are literal"],
)
def test_env_refers_to_what_stands_before(env: list[tuple[str, str]], expected: dict[str, str]) -> None:
    assert container_env(a_container(*env)) == expected


def test_argv_sees_devices_and_pod_and_the_pod_wins() -> None:
    container = a_container(
        ("MINE", "pod"),
        ("BOTH", "pod"),
        ("COPY", "$(Gopher)"),
        command=("run", "$(Gopher)"),
        args=("$(MINE)", "$(BOTH)", "$(COPY)", "$(NONE)"),
    )
    argv = container_argv(container, device_env={"Gopher": "g1", "BOTH": "device"})
    assert argv == ("run", "g1", "pod", "pod", "$(Gopher)", "$(NONE)")
