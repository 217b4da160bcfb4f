"""Names of pods and nodes, as they are typed and as ``-o name`` prints them."""

from __future__ import annotations

from argparse import ArgumentTypeError

import pytest

from plugbay.cli.arguments.names import node_name, object_of, pod_name
from plugbay.cli.main import make_parser

NAMED = {
    pod_name: ["web", "pod/web", "pods/web", "po/web", "Pod/web"],
    node_name: ["web", "node/web", "nodes/web", "no/web"],
}


@pytest.mark.parametrize(("read", "text"), [(read, text) for read, texts in NAMED.items() for text in texts])
def test_the_kind_may_stand_before_a_name(read: type, text: str) -> None:
    assert read(text) == "web"


@pytest.mark.parametrize("text", ["deploy/web", "node/web", "/web", "a/pod/web", "pod/a/web"])
def test_another_kind_is_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="takes pods only, such as pod/NAME, found '"):
        pod_name(text)


@pytest.mark.parametrize("text", ["pod/", "Web", "a b", "-web", "web.", "x" * 254])
def test_what_no_pod_can_be_called_is_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="wants the name of a pod, "):
        pod_name(text)


def test_an_object_has_a_kind_and_a_name() -> None:
    assert object_of("po/web") == ("Pod", "web")
    assert object_of("no/n1") == ("Node", "n1")


@pytest.mark.parametrize(
    "argv",
    [
        ["get", "pod/web"],
        ["describe", "pod/web"],
        ["wait", "--for=delete", "pod/web"],
        ["delete", "pod/web"],
    ],
    ids=" ".join,
)
def test_every_command_about_pods_takes_the_kind(argv: list[str]) -> None:
    assert make_parser().parse_args(["pod", *argv]).names == ["web"]


@pytest.mark.parametrize(
    "argv", [["pod", "exec", "pod/web", "--", "env"], ["pod", "logs", "pod/web"], ["node", "cordon", "node/web"]]
)
def test_every_command_about_one_object_takes_the_kind(argv: list[str]) -> None:
    assert make_parser().parse_args(argv).name == "web"
