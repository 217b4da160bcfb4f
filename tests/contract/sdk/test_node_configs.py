"""Configs for several nodes in one file: each node gets its own, and a label switches it while the process runs."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from plugbay.errors import ClusterUnusable, UsageError
from plugbay.kubelet.paths import KubeletPaths
from plugbay.ops.clock import SystemClock
from plugbay.ops.tasks import background
from plugbay.plugins.directory.plugin import DirectoryPlugin
from plugbay.sdk.deploying.deployment import Deployment
from plugbay.sdk.deploying.noted_yaml import noted_yaml
from plugbay.sdk.deploying.objects import manifest
from plugbay.sdk.deploying.plugin_needs import combined
from plugbay.sdk.process.config import ConfigEntry
from plugbay.sdk.process.config_file import ConfigFile
from plugbay.sdk.process.node_configs import parse_configs
from plugbay.sdk.process.node_labels import OwnNodeLabels, ThisNode
from plugbay.sdk.process.pages import PluginPages
from plugbay.sdk.process.roster import Roster
from plugbay.sdk.process.runner import serving
from plugbay.sdk.serving.server import PluginServer
from plugbay.sdk.watching import watching
from plugbay.testing import local_kubelet
from plugbay.testing.fakes.kubelet import FakeKubelet, RegisteredPlugin, fake_kubelet
from tests.contract.cli.test_check_config import plugbay
from tests.contract.rigs.nodes_api import NodesApi, nodes_api
from tests.contract.rigs.own_api import account_of, cluster_of, label_node, only_node
from tests.test_docs import ALL

DEADLINE_S = 20.0
LABEL = "example.com_config"
CONFIGS = """\
nodeLabel: example.com/config
plugins:
- {target: tea}
- {target: milk}
configs:
- name: rum
  plugins: [{target: tea}, {target: rum}]
- name: gin
  nodeNames: [gin-*]
  plugins: [{target: gin}, {target: tea}]
- {name: bad, plugins: [{target: nothing}]}
"""


@pytest.fixture
def file(sockets: Path) -> Path:
    path = sockets / "plugins.yaml"
    path.write_text(CONFIGS)
    for name in ("tea", "milk", "rum", "gin", "beer"):
        (sockets / name).mkdir()
    return path


def config_file(file: Path, node: ThisNode) -> ConfigFile:
    def load(entry: ConfigEntry) -> list[DirectoryPlugin]:
        if not (file.parent / entry.target).is_dir():
            raise UsageError(f"there is no {entry.target}")
        return [DirectoryPlugin(f"example.com/{entry.target}", file.parent / entry.target, env="D")]

    return ConfigFile(file, load, node)


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not holds():  # noqa: ASYNC110  # of which nothing tells
            await asyncio.sleep(0.005)


async def registered(kubelet: FakeKubelet, count: int) -> dict[str, RegisteredPlugin]:
    plugins = [await kubelet.next_registration() for _ in range(count)]
    return {plugin.registration.resource_name.removeprefix("example.com/"): plugin for plugin in plugins}


@pytest.mark.parametrize(("node", "served"), [("gin-1", {"gin", "tea"}), ("other", {"milk", "tea"})])
async def test_a_name_chooses_without_asking_a_cluster(sockets: Path, file: Path, node: str, served: set[str]) -> None:
    file.write_text(
        CONFIGS.replace("nodeLabel: example.com/config\n", "").replace("{name: ", "{nodeNames: [x], name: ")
    )
    file.write_text(re.sub("- name: rum", "- name: rum\n  nodeNames: [r]", file.read_text()))
    paths = KubeletPaths(sockets / "k")
    async with fake_kubelet(paths) as kubelet, serving([config_file(file, ThisNode(node))], paths=paths):
        assert set(await registered(kubelet, 2)) == served


async def test_a_file_for_certain_nodes_wants_to_know_which_this_is(file: Path) -> None:
    with pytest.raises(UsageError, match=r"has configs for certain nodes, and NODE_NAME does not say which this is"):
        config_file(file, ThisNode())


async def test_a_label_switches_and_leaves_alone_what_both_configs_have(
    sockets: Path, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="plugbay.sdk.process.config_file")
    paths = KubeletPaths(sockets / "k")
    async with nodes_api(sockets) as api, fake_kubelet(paths) as kubelet:
        api.label("gin-1")
        async with serving([config_file(file, api.node("gin-1"))], paths=paths):
            before = await registered(kubelet, 2)
            assert set(before) == {"gin", "tea"}
            await until(lambda: api.watches)
            api.label("gin-1", **{LABEL: "rum"})
            assert set(await registered(kubelet, 1)) == {"rum"}
            await before["gin"].until_ended()
            api.tell("gin-1", {"type": "BOOKMARK", "object": {}})
            api.label("gin-1", **{LABEL: "rum"}, other="x")
            api.label("gin-1")
            assert set(await registered(kubelet, 1)) == {"gin"}
            assert not before["tea"].ended.is_set()
            assert kubelet.unasked_registrations == 0
    assert [record.getMessage() for record in caplog.records if "node" in record.getMessage()] == [
        f"{file}: node gin-1 gets config gin: its rule matches",
        f"{file}: node gin-1 gets config rum: label example.com/config names it",
        f"{file}: node gin-1 gets config gin: its rule matches",
    ]
    assert not [each for each in api.requests if each.startswith("/api/v1/nodes?") and "gin-1" not in each]


@asynccontextmanager
async def paged(file: ConfigFile, paths: KubeletPaths) -> AsyncIterator[tuple[Roster, PluginPages]]:
    async with watching() as watches:
        roster = Roster(lambda plugin: PluginServer(plugin, paths), watches)
        pages = PluginPages(SystemClock(), version="0", proc=Path("/proc/self"))
        pages.roster = roster
        async with roster.serving([file]):
            yield roster, pages


def metric(pages: PluginPages) -> dict[str, float]:
    """Whether the newest config is in use, by the name of the config."""
    metrics = pages.pages().metrics()
    [found] = [each for each in metrics if each.name == "plugbay_config_last_reload_successful"]
    return {labels["config"]: float(str(value)) for labels, value in found.samples}


@pytest.mark.parametrize(
    ("label", "said"),
    [
        ("run", "label example.com/config names the config 'run', which does not exist (there are: rum, gin, bad)"),
        ("bad", "configs[2].plugins[0]: there is no nothing"),
    ],
)
async def test_a_label_that_names_nothing_of_use_leaves_the_config_and_is_told(
    sockets: Path, file: Path, label: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    paths = KubeletPaths(sockets / "k")
    async with nodes_api(sockets) as api, fake_kubelet(paths) as kubelet:
        api.label("n1", **{LABEL: "rum"})
        async with paged(config_file(file, api.node("n1")), paths) as (_, pages):
            before = await registered(kubelet, 2)
            assert (set(before), metric(pages)) == ({"rum", "tea"}, {"rum": 1.0})
            await until(lambda: api.watches)
            api.label("n1", **{LABEL: label})
            await until(lambda: said in caplog.text)
            [note] = pages.pages().notes()
            assert note.startswith(f"{file}: ")
            assert said in note
            assert metric(pages) == {"rum": 0.0}
            assert not any(each.ended.is_set() for each in before.values())
            api.label("n1", **{LABEL: "rum"})
            await until(lambda: not pages.pages().notes())
            assert metric(pages) == {"rum": 1.0}
            assert kubelet.unasked_registrations == 0
    assert caplog.text.count(said) == 1


async def test_a_cluster_that_does_not_answer_is_waited_for_and_later_missed(sockets: Path, file: Path) -> None:
    paths = KubeletPaths(sockets / "k")
    async with nodes_api(sockets) as api, fake_kubelet(paths) as kubelet:
        api.label("n1")
        api.refusal = 503
        async with paged(config_file(file, api.node("n1")), paths) as (_, pages):
            await until(lambda: "status 503: not now" in "".join(pages.pages().notes()))
            assert pages.pages().unready() == [f"{file}: no look for resources has succeeded yet"]
            assert metric(pages) == {"": 0.0}
            api.refusal = None
            before = await registered(kubelet, 2)
            await until(lambda: api.watches)
            assert (set(before), metric(pages), pages.pages().notes()) == ({"milk", "tea"}, {"": 1.0}, [])
            api.refusal = 500
            api.drop()
            await until(lambda: "status 500" in "".join(pages.pages().notes()))
            assert metric(pages) == {"": 0.0}
            api.refusal = None
            api.label("n1", **{LABEL: "rum"})
            assert set(await registered(kubelet, 1)) == {"rum"}
            await until(lambda: not pages.pages().notes())
            assert not before["tea"].ended.is_set()


async def test_a_file_may_begin_and_cease_to_want_labels(sockets: Path, file: Path) -> None:
    paths = KubeletPaths(sockets / "k")
    plain = "plugins: [{target: tea}]\n"
    file.write_text(plain)
    async with nodes_api(sockets) as api, fake_kubelet(paths) as kubelet:
        api.label("n1", **{LABEL: "rum"})
        async with serving([config_file(file, api.node("n1"))], paths=paths):
            before = await registered(kubelet, 1)
            assert not api.requests
            file.write_text(CONFIGS)
            assert set(await registered(kubelet, 1)) == {"rum"}
            await until(lambda: api.watches)
            file.write_text(f"{plain}- {{target: beer}}\n".replace("[{target: tea}]", "\n- {target: tea}"))
            assert set(await registered(kubelet, 1)) == {"beer"}
            await until(lambda: all(writer.is_closing() for _, writer in api.watches))
            asked = len(api.requests)
            file.write_text(plain.replace("tea", "milk"))
            assert set(await registered(kubelet, 1)) == {"milk"}
            await before["tea"].until_ended()
            assert len(api.requests) == asked


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"", "the answer breaks off"),
        (b"220 mail.example.com ESMTP\r\n\r\n", "it does not answer in HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}", "the answer breaks off"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "invalid literal"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 100_000, "the answer is not a node"),
        (b"HTTP/1.1 200 OK\r\n\r\n\xff", "the answer is not a node"),
        (b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 200 + b"\r\n", "more than 100 headers"),
        (b"HTTP/1.1 200 OK\r\nx: " + b"y" * 100_000, "a line of its answer is too long"),
        (b"HTTP/1.1 403 F\r\n\r\n{}", "status 403: without a reason; the service account of the plugin has to be"),
    ],
    ids=["nothing", "not-http", "short", "bad-chunk", "deep", "not-text", "many-headers", "long-header", "forbidden"],
)
async def test_whatever_is_answered_is_told_in_a_sentence(sockets: Path, answer: bytes, problem: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        api = NodesApi(sockets, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        with pytest.raises(ClusterUnusable, match=re.escape(problem)):
            await OwnNodeLabels(api.node("n1"), "p").read()


@pytest.mark.parametrize("event", [b'{"type": "MODIFIED"}\n', b'{"type": "ADDED", "object": []}\n', b"[]\n", b"{}\n"])
async def test_whatever_a_watch_says_is_told_in_a_sentence(sockets: Path, event: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + (event if b"watch=true" in request else b'{"metadata": {}}'))
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        api = NodesApi(sockets, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        labels = OwnNodeLabels(api.node("n1"), "p")
        async with background(labels.follow(lambda: None), name="follow"):
            await until(lambda: labels.problem)
        assert labels.problem.startswith("the labels of node n1 cannot be read")


async def test_a_process_outside_of_a_cluster_is_told(file: Path) -> None:
    with pytest.raises(ClusterUnusable, match="by labels of the node, and this process is not a pod of a cluster"):
        await config_file(file, ThisNode("n1")).load_once()


async def test_our_own_node_switches_its_config_with_the_rights_of_the_manifest(sockets: Path, file: Path) -> None:
    paths = KubeletPaths(sockets / "k")
    needs = combined(("example.com/tea",), parse_configs(CONFIGS, source="").needs)
    deployment = Deployment(name="teas", namespace="kube-system", image="plugbay:1", needs=needs, targets=())
    objects = list(yaml.safe_load_all(noted_yaml(manifest(deployment))))
    async with local_kubelet(api=True) as own, fake_kubelet(paths) as kubelet:
        cluster = cluster_of(own.kubeconfig, sockets)
        name = await asyncio.to_thread(only_node, cluster)
        account = await asyncio.to_thread(account_of, cluster, objects, sockets / "account")
        assert (await asyncio.to_thread(account.send, "GET", "api", "v1", "nodes")).status == 403, "others are not seen"
        async with serving([config_file(file, ThisNode(name, account))], paths=paths):
            before = await registered(kubelet, 2)
            assert set(before) == {"milk", "tea"}
            await asyncio.to_thread(label_node, cluster, name, {"example.com/config": "rum"})
            assert set(await registered(kubelet, 1)) == {"rum"}
            await asyncio.to_thread(label_node, cluster, name, {"example.com/config": None})
            assert set(await registered(kubelet, 1)) == {"milk"}
            assert not before["tea"].ended.is_set()
    with pytest.raises(ClusterUnusable, match="cannot be asked"):
        await OwnNodeLabels(ThisNode(name, cluster), "p").read()


async def test_the_page_shows_what_a_node_would_serve(tmp_path: Path) -> None:
    marked = [block for block in ALL if "::test_the_page_shows_what_a_node_would_serve" in block.before]
    config, command, output = (block.text for block in marked)
    (tmp_path / "plugins.yaml").write_text(config)
    variable, program, *words = command.split()
    assert program == "plugbay"
    name, _, value = variable.partition("=")
    done = await plugbay(tmp_path, *words, environ={name: value})
    assert (done.code, done.err.replace(f"{tmp_path}/", "") + done.out) == (0, output)


@pytest.mark.parametrize(
    ("text", "rows", "notes"),
    [
        ("configs: [{name: a, nodeLabels: {x: 'y'}, plugins: []}]", [], ["with the labels x=y it gets the config a"]),
        (
            "configs: [{name: a, nodeNames: [other], nodeLabels: {x: 'y'}, plugins: []},"
            " {name: b, nodeNames: [here], plugins: [{target: PLUGIN}]}]",
            ["a.example/tea"],
            [],
        ),
    ],
)
async def test_a_dry_run_outside_a_cluster_goes_by_the_name(
    tmp_path: Path, text: str, rows: list[str], notes: list[str]
) -> None:
    (tmp_path / "tea").mkdir()
    target = "directory, settings: {resource: a.example/tea, path: tea, env: TEA}"
    (tmp_path / "c.yaml").write_text(text.replace("PLUGIN", target))
    done = await plugbay(tmp_path, "serve", "--config=c.yaml", "--dry-run", environ={"NODE_NAME": "here"})
    assert [line.split()[0] for line in done.out.splitlines()[1:]] == rows
    assert [line.partition(": ")[2] for line in done.err.splitlines()[1:]] == notes
    done = await plugbay(tmp_path, "serve", "--config=c.yaml", "--dry-run", environ={"NODE_NAME": ""})
    assert (done.code, "NODE_NAME does not say which this is" in done.err) == (2, True)
