"""A node of ours on a machine that has a stock kubelet's directory as well: no plugin goes astray."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from plugbay.cli.main import make_parser
from tests.contract.rigs.kubelet_machine import WITH_KUBELET, needs_kubelet_machine, on_kubelet_machine
from tests.test_docs import ALL

pytestmark = [needs_kubelet_machine, pytest.mark.timeout(120)]

with_and_without_kubelet = pytest.mark.parametrize(
    "kubelet", [pytest.param("", id="directory"), pytest.param(WITH_KUBELET, id="live")]
)
REPOSITORY: Final = Path(__file__).parents[3]
GOPHERS: Final = "mkdir -p /tmp/gophers && touch /tmp/gophers/g1\n"
DIRECTORY: Final = "directory --resource example.com/gopher --path /tmp/gophers --env Gopher"
NODE_UP: Final = (
    "plugbay node up --runtime process > /tmp/node &\nuntil grep -q SIGTERM /tmp/node; do sleep 0.05; done\n"
)
SEE_KUBELET: Final = "\ncat /tmp/kubelet 2>/dev/null || echo no kubelet\n"
TWO: Final = (
    "plugbay: error: there are two kubelets on this machine: the node of `plugbay node up` at /var/lib/plugbay, and "
    "one whose directory is /var/lib/kubelet; choose with --node or with --root /var/lib/kubelet\n"
)
WAITING: Final = "until grep -q 'waiting for a kubelet' /tmp/serve; do sleep 0.05; done\n"


def in_background(block: str) -> str:
    """What a reader types into several terminals, as one script: what runs on there runs on here."""
    served = re.sub(r"^(plugbay serve\b.*?)(?: &)?$", r"\1 &", block, flags=re.MULTILINE)
    return re.sub(r"^plugbay node up$", "plugbay node up -d", served, flags=re.MULTILINE)


def of_readme() -> str:
    [block] = [
        each.text for each in ALL if (each.page, each.language) == ("README.md", "sh") and "node up" in each.text
    ]
    return in_background(block)


def of_help() -> str:
    typed = "\n".join(make_parser().examples)
    typed = typed.replace("/etc/gophers", "/tmp/gophers")  # /etc is the real machine's
    return GOPHERS + in_background(typed).replace(
        "plugbay pod exec web", "plugbay pod wait --for=condition=Ready web\nplugbay pod exec web"
    )


def of_new_plugin() -> str:
    """Its own README, but that its device is not below /dev, which is the real machine's."""
    return """
cd /tmp && plugbay new gopher > /tmp/files && cd gopher && mkdir /tmp/cards && ln -s /dev/null /tmp/cards/Gopher=g1
sed -i s:/dev/gopher:/tmp/cards: *.py *.yaml
sed '1,/^plugbay devices/d; /^```/,$d' README.md > typed
grep -q 'plugbay node up' typed && . ./typed
"""


@pytest.mark.parametrize("quick_start", [of_readme, of_help, of_new_plugin])
@with_and_without_kubelet
async def test_quick_start_works_on_a_machine_with_a_kubelet(
    kubelet: str, quick_start: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(REPOSITORY)
    assert callable(quick_start)
    done = await on_kubelet_machine(kubelet + quick_start() + SEE_KUBELET)
    assert "Gopher=g1\n" in done.out, done
    assert done.out.endswith("kubelet is up\n" if kubelet else "no kubelet\n"), "and nothing registered with it"


@with_and_without_kubelet
async def test_nothing_is_served_while_either_kubelet_may_be_meant(kubelet: str) -> None:
    done = await on_kubelet_machine(kubelet + NODE_UP + f"plugbay serve {DIRECTORY}\necho $?" + SEE_KUBELET)
    assert done.out == "2\n" + ("kubelet is up\n" if kubelet else "no kubelet\n")
    assert done.err.endswith(TWO)


async def test_pod_resources_of_either_are_not_guessed() -> None:
    asked = "; echo $?; ".join(["plugbay podresources", "plugbay podresources --node", ""])
    done = await on_kubelet_machine(NODE_UP + asked)
    assert done.out.split() == ["2", "0"]
    assert TWO in done.err


@pytest.mark.parametrize(
    ("chosen", "root", "why"),
    [
        pytest.param("--node", "/var/lib/plugbay", "--node says so", id="node"),
        pytest.param("--root /var/lib/kubelet", "/var/lib/kubelet", "--root says so", id="root"),
    ],
)
async def test_an_option_says_which(chosen: str, root: str, why: str) -> None:
    done = await on_kubelet_machine(
        WITH_KUBELET
        + NODE_UP
        + f"plugbay serve {chosen} {DIRECTORY} 2> /tmp/serve &\n"
        + "until grep -q ': registered' /tmp/serve; do sleep 0.05; done; head -n 1 /tmp/serve"
        + SEE_KUBELET
    )
    first, *rest = done.out.splitlines()
    assert first.endswith(f" serving the kubelet at {root}: {why}")
    assert rest == ["kubelet is up", "example.com/gopher"][: 1 if chosen == "--node" else 2]


async def test_a_plugin_of_a_daemon_set_waits_for_its_kubelet() -> None:
    """It may start first: only the directory is there then."""
    done = await on_kubelet_machine(
        f"plugbay serve {DIRECTORY} 2> /tmp/serve &\n"
        + WAITING
        + WITH_KUBELET
        + "until grep -q example.com/gopher /tmp/kubelet; do sleep 0.05; done; head -n 1 /tmp/serve"
    )
    assert done.out.endswith(
        " serving the kubelet at /var/lib/kubelet: a kubelet has its directory there; --node chooses the node of "
        "`plugbay node up`\n"
    )


async def test_a_node_is_served_where_no_kubelet_ever_was() -> None:
    done = await on_kubelet_machine(
        f"rm -r /var/lib/kubelet; plugbay serve {DIRECTORY} 2> /tmp/serve &\n"
        + "until grep -q 'kubelet at' /tmp/serve; do sleep 0.05; done; head -n 1 /tmp/serve"
    )
    assert done.out.endswith(
        " serving the kubelet at /var/lib/plugbay: no kubelet has its directory at /var/lib/kubelet\n"
    )
