"""Pods as manifests, and waiting for them: commands against a whole node."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from plugbay.cli.kubectl.client import NodeClient, pods_path
from plugbay.errors import RequestRefused
from plugbay.node.config import control_socket
from plugbay.ops.http import serve_http
from plugbay.ops.listening import UnixAddress
from plugbay.ops.routing import Request, Response, Router, StreamResponse, json_response
from plugbay.printers import v1

if TYPE_CHECKING:
    from tests.contract.conftest import Plugbay

DEADLINE_S = 30

SLEEPER = "apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec: {containers: [{name: c, command: [sleep, '3600']}]}\n"
LINGERER = (
    "apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec:\n  terminationGracePeriodSeconds: 3600\n"
    "  containers: [{name: c, command: [sleep, '3600'], lifecycle: {preStop: {sleep: {seconds: 3600}}}}]\n"
)
"""A pod that is still there when a watch begins after its deletion."""


async def test_applying_twice_changes_nothing_and_labels_may_change(plugbay: Plugbay, tmp_path: Path) -> None:
    manifest = tmp_path / "pods.yaml"
    manifest.write_text(SLEEPER % "a" + "---\n" + SLEEPER % "b")
    apply = ("pod", "apply", "-f", str(tmp_path))
    async with plugbay.node_up():
        assert await plugbay(*apply) == (0, "pod/a created\npod/b created\n", "")
        await plugbay("pod", "wait", "--for=condition=Ready", "--all")
        assert await plugbay(*apply) == (0, "pod/a unchanged\npod/b unchanged\n", "")
        manifest.write_text(SLEEPER % "a, labels: {color: blue}" + "---\n" + SLEEPER % "b")
        assert await plugbay(*apply) == (0, "pod/a configured\npod/b unchanged\n", "")
        color = ("--for=jsonpath={.metadata.labels.color}=blue", "--timeout=0")
        assert (await plugbay("pod", "wait", *color, "a")).code == 0
        done = await plugbay("pod", "apply", "-f", "-", "-o", "name", given=SLEEPER % "c")
        assert done == (0, "pod/c\n", "")


async def test_what_cannot_change_is_refused_in_the_nodes_words_and_the_rest_is_done(plugbay: Plugbay) -> None:
    async with plugbay.node_up():
        await plugbay("pod", "apply", "-f", "-", given=SLEEPER % "a")
        changed = (SLEEPER % "a").replace("3600", "7200")
        done = await plugbay("pod", "apply", "-f", "-", given=changed + "---\n" + SLEEPER % "b")
        assert (done.code, done.out) == (1, "pod/b created\n")
        assert done.err.startswith("plugbay: error: ")
        assert "spec.containers[0].command" in done.err, done.err


@asynccontextmanager
async def relay(plugbay: Plugbay, root: Path, *, until: bytes) -> AsyncIterator[tuple[Plugbay, asyncio.Event]]:
    """A root at which ``plugbay``'s node answers too, and an event for when an answer begins with ``until``."""
    answered = asyncio.Event()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(65536):
            if chunk.startswith(until):
                answered.set()
            writer.write(chunk)
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_node, to_node = await asyncio.open_unix_connection(control_socket(plugbay.root))
        await asyncio.gather(pump(reader, to_node), pump(from_node, writer))

    root.mkdir()
    async with await asyncio.start_unix_server(serve, control_socket(root)):
        yield type(plugbay)(root), answered


async def test_pods_are_waited_for_by_condition_value_and_end(plugbay: Plugbay, sockets: Path) -> None:
    async with plugbay.node_up():
        await plugbay("pod", "run", "web", "--", "sleep", "3600")
        await plugbay("pod", "run", "job", "--restart", "Never", "--", "true")
        assert await plugbay("pod", "wait", "--for=condition=Ready", "web") == (0, "pod/web condition met\n", "")
        done = await plugbay("pod", "wait", "--for=jsonpath={.status.phase}=Succeeded", "job")
        assert done == (0, "pod/job condition met\n", "")
        done = await plugbay("pod", "wait", "--for=jsonpath={.status.phase}", "--all")
        assert sorted(done.out.splitlines()) == ["pod/job condition met", "pod/web condition met"]

        async with (
            relay(plugbay, sockets / "relay", until=b"HTTP/1.1 404 ") as (relayed, has_looked),
            relayed.start("pod", "wait", "--for=delete", "web", "gone", "--timeout=-1s") as waiting,
            asyncio.timeout(DEADLINE_S),
        ):
            await has_looked.wait()  # first for web, then for gone: a pod deleted before that is not worth a line
            await plugbay("pod", "delete", "web", "--force")
            out, _ = await waiting.communicate()
            assert waiting.returncode == 0
            assert out in (b"pod/web condition met\n", b"")  # it may have begun after the end


async def test_an_end_is_not_missed_between_the_look_and_the_watch(plugbay: Plugbay) -> None:
    looked = asyncio.Event()

    async def changes() -> AsyncIterator[bytes]:
        await looked.wait()
        for kind, uid in (("DELETED", "another"), ("ADDED", "later"), ("DELETED", "u1")):
            change = {"type": kind, "object": {"metadata": {"name": "web", "uid": uid}}}
            yield json.dumps(change).encode() + b"\n"

    async def get(request: Request) -> Response:
        looked.set()
        return json_response({"metadata": {"name": "web", "uid": "u1"}})

    async def watch(request: Request) -> StreamResponse:
        return StreamResponse(changes())

    router = Router()
    router.add("GET", "/api/v1/namespaces/default/pods", watch)
    router.add("GET", "/api/v1/namespaces/default/pods/web", get)
    async with serve_http(router, UnixAddress(plugbay.root / "plugbay.sock")):
        done = await plugbay("pod", "wait", "--for=delete", "web")
    assert done == (0, "pod/web condition met\n", "")


async def test_a_wait_that_is_too_long_or_for_nobody_fails(plugbay: Plugbay) -> None:
    async with plugbay.node_up():
        wait = ("pod", "wait", "--for=condition=Ready=False")
        assert await plugbay(*wait, "--all") == (1, "", "plugbay: error: no matching resources found\n")
        assert await plugbay("pod", "wait", "--for=delete", "nope") == (0, "", "")
        await plugbay("pod", "run", "web", "--", "sleep", "3600")
        await plugbay.until_running("web")
        late = "plugbay: error: timed out waiting for the condition on pods/web: "
        ready = f"{late}Ready is True; the pod is Running (1/1 ready)\n"
        assert await plugbay(*wait, "web", "--timeout=0") == (1, "", ready)
        running = f"{late}the pod is Running (1/1 ready)\n"
        assert await plugbay("pod", "wait", "--for=delete", "pod/web", "--timeout=100ms") == (1, "", running)
        missing = 'plugbay: error: pods "nope" not found\n'
        assert await plugbay(*wait, "nope", "web", "--timeout=100ms") == (1, "", missing + ready)
        met = await plugbay("pod", "wait", "--for=condition=Ready", "web", "--timeout=9000h")  # poll(2) counts 24 days
        assert met == (0, "pod/web condition met\n", "")


async def test_a_wait_that_is_too_long_says_what_stands_in_the_way(plugbay: Plugbay) -> None:
    async with plugbay.node_up():
        await plugbay("pod", "run", "web", "--resource", "example.com/gopher=1", "--", "sleep", "3600")
        async with plugbay.start("events", "--for", "pod/web", "-w") as events:
            await plugbay.line_with(events, "FailedScheduling")
        done = await plugbay("pod", "wait", "--for=condition=Ready", "web", "--timeout=100ms")
        assert (done.code, done.out) == (1, "")
        assert "the pod is Pending (0/1 ready): " in done.err
        assert "1 Insufficient example.com/gopher" in done.err


async def test_names_that_are_printed_can_be_fed_back(plugbay: Plugbay) -> None:
    async with plugbay.node_up():
        await plugbay("pod", "apply", "-f", "-", given="---\n".join(SLEEPER % name for name in ("a", "b")))
        names = (await plugbay("pod", "get", "-o", "name")).out.split()
        assert names == ["pod/a", "pod/b"]
        assert (await plugbay("pod", "wait", "--for=condition=Ready", *names)).code == 0
        assert [row[0] for row in (await plugbay("pod", "get", *names)).rows] == ["a", "b"]
        assert (await plugbay("pod", "exec", "pod/a", "--", "true")).code == 0
        assert (await plugbay("pod", "logs", "pods/a")).code == 0
        done = await plugbay("pod", "delete", "--now", "--ignore-not-found", *names)
        assert done == (0, 'pod "a" deleted\npod "b" deleted\n', "")
        assert (await plugbay("pod", "get", "-o", "name")).out == ""
        node = (await plugbay("node", "get", "-o", "name")).out.strip()
        assert node == "node/n1"
        assert (await plugbay("node", "describe", node)).code == 0


async def test_pods_are_deleted_as_their_manifests_name_them(plugbay: Plugbay, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(SLEEPER % "a" + "---\n" + SLEEPER % "b")
    (tmp_path / "c.yaml").write_text(SLEEPER % "c, namespace: lab")
    async with plugbay.node_up():
        assert (await plugbay("pod", "run", "-f", str(tmp_path))).out == "pod/a created\npod/b created\npod/c created\n"
        await plugbay.until_running("a")
        await plugbay("pod", "delete", "b", "--force")
        assert await plugbay("pod", "delete", "-f", str(tmp_path), "--force") == (
            1,
            'pod "a" force deleted\npod "c" force deleted\n',
            'plugbay: error: pods "b" not found\n',
        )
        assert await plugbay("pod", "get", "-A") == (0, "", "No resources found.\n")


async def test_pods_are_selected_by_their_labels(plugbay: Plugbay) -> None:
    async with plugbay.node_up():
        manifests = [SLEEPER % f"{name}, labels: {{color: {color}}}" for name, color in (("a", "red"), ("b", "blue"))]
        await plugbay("pod", "apply", "-f", "-", given="---\n".join(manifests))
        done = await plugbay("pod", "wait", "--for=condition=Ready", "-l", "color in (red)")
        assert done == (0, "pod/a condition met\n", "")
        assert (await plugbay("pod", "get", "-o", "name", "-l", "color!=red")).out == "pod/b\n"
        assert (await plugbay("pod", "get", "-l", "!color")).err == "No resources found in default namespace.\n"
        async with plugbay.start("pod", "get", "-w", "-o", "name", "-l", "color=green") as watch:
            await plugbay("pod", "apply", "-f", "-", given=manifests[1].replace("blue", "green"))
            assert await plugbay.line_with(watch, "pod/") == "pod/b\n"
        assert (await plugbay("pod", "describe", "-l", "color=green")).out.split()[:2] == ["Name:", "b"]
        assert (await plugbay("pod", "get", "-o", "jsonpath={.items[*].metadata.name}")).out == "a b"
        assert (await plugbay("pod", "get", "a", "-o", "jsonpath={.metadata.labels.color}!")).out == "red!"
        assert (await plugbay("pod", "delete", "-l", "color=red", "--now")).out == 'pod "a" deleted\n'
        assert (await plugbay("pod", "get", "-o", "name")).out == "pod/b\n"
        with pytest.raises(RequestRefused) as refused:
            await asyncio.to_thread(NodeClient(plugbay.root).get, pods_path(None), {"labelSelector": "=color"})
        assert (refused.value.code, refused.value.reason) == (400, "BadRequest")


async def test_watched_yaml_is_one_document_after_the_other(plugbay: Plugbay) -> None:
    async with plugbay.node_up():
        await plugbay("pod", "run", "-f", "-", given=SLEEPER % "a" + "---\n" + LINGERER % "b")
        await plugbay("pod", "wait", "--for=condition=Ready", "--all")
        async with plugbay.start("pod", "get", "-w", "-o", "yaml") as watch:
            first = await _lines_until(watch, "name: b")
            await plugbay("pod", "delete", "b", "--wait=false")
            more = await _lines_until(watch, "deletionTimestamp")
        documents = list(yaml.safe_load_all((first + more).rpartition("---\n")[0]))
        assert [(each["kind"], each["metadata"]["name"]) for each in documents] == [("Pod", "a"), ("Pod", "b")]
        async with plugbay.start("pod", "get", "a", "-w", "-o", "name") as watch:
            assert await _lines_until(watch, "pod/") == "pod/a\n"


async def _lines_until(process: asyncio.subprocess.Process, text: str) -> str:
    assert process.stdout is not None
    lines: list[str] = []
    async with asyncio.timeout(DEADLINE_S):
        while not lines or text not in lines[-1]:
            lines.append((await process.stdout.readline()).decode())
            assert lines[-1], f"the output ended without {text!r}"
    return "".join(lines)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--force", "--grace-period", "5"), "--force kills at once; it cannot be said together with --grace-period=5"),
        (("--now", "--force"), "--now is a grace period of its own; say it without --grace-period and --force"),
        (
            ("--now", "--grace-period=0"),
            "--now is a grace period of its own; say it without --grace-period and --force",
        ),
    ],
)
async def test_delete_refuses_what_contradicts_itself(plugbay: Plugbay, options: tuple[str, ...], problem: str) -> None:
    done = await plugbay("pod", "delete", "web", *options)
    assert (done.code, done.out) == (2, "")
    assert problem in done.err


STUBBORN = "trap '' TERM; echo up; while true; do sleep 0.1; done"


async def test_delete_takes_the_usual_form_of_force(plugbay: Plugbay) -> None:
    async with plugbay.node_up():
        await plugbay("pod", "run", "web", "--", "sh", "-c", STUBBORN)
        await plugbay.until_running("web")
        done = await plugbay("pod", "delete", "web", "--grace-period", "0", "--force")
        assert done == (0, 'pod "web" force deleted\n', "")


async def test_delete_without_grace_or_force_gives_a_second(plugbay: Plugbay) -> None:
    async with plugbay.node_up():
        await plugbay("pod", "run", "web", "--", "sh", "-c", STUBBORN)
        await plugbay.until_running("web")
        with NodeClient(plugbay.root).watch(pods_path("default")) as events:  # a second may pass before a look
            assert await plugbay("pod", "delete", "web", "--grace-period=0", "--wait=false") == (
                0,
                'pod "web" deleted\n',
                "",
            )
            graces = (v1.at(event.object, "metadata", "deletionGracePeriodSeconds") for event in events)
            async with asyncio.timeout(DEADLINE_S):
                assert await asyncio.to_thread(next, filter(None, graces)) == 1


async def test_delete_passes_the_grace_period_on(plugbay: Plugbay) -> None:
    async with plugbay.node_up():
        await plugbay("pod", "run", "web", "--", "sh", "-c", STUBBORN)
        await plugbay.until_running("web")
        async with plugbay.start("pod", "logs", "-f", "web") as logs:
            await plugbay.line_with(logs, "up")
        assert (await plugbay("pod", "delete", "web", "--grace-period=77", "--wait=false")).code == 0
        shown = await plugbay("pod", "get", "web", "-o", "json")
        assert json.loads(shown.out)["metadata"]["deletionGracePeriodSeconds"] == 77
        assert (await plugbay("pod", "delete", "web", "--force")).code == 0


async def test_logs_of_the_run_before(plugbay: Plugbay) -> None:
    async with plugbay.node_up():
        script = "echo run; test -e $0 && exec sleep 1000; touch $0; exit 1"
        await plugbay("pod", "run", "web", "--restart=OnFailure", "--", "sh", "-c", script, str(plugbay.root / "flag"))
        while (await plugbay("pod", "logs", "web", "--previous")).code:
            refused = await plugbay("pod", "logs", "web", "--previous")
            assert refused.code == 0 or "previous terminated container" in refused.err
        assert await plugbay("pod", "logs", "web", "-f", "--previous") == (0, "run\n", "")
        assert (await plugbay("pod", "delete", "web", "--force")).code == 0


async def test_whoever_watches_is_told_what_a_command_waits_for(plugbay: Plugbay) -> None:
    async with plugbay.node_up():
        await plugbay("pod", "run", "-f", "-", given=LINGERER % "slow")
        await plugbay("pod", "wait", "--for=condition=Ready", "slow")
        for command, told in (
            (("pod", "wait", "--for=delete", "slow", "--timeout=5m"), b"waiting for pod/slow\r\n"),
            (("pod", "delete", "slow"), b"waiting for the end of pod/slow (it has 3600 s)\r\n"),
            (("node", "drain", "n1"), b"waiting for the end of pod/slow\r\n"),
        ):
            ours, its = os.openpty()
            try:
                async with plugbay.start(*command, stderr=its), asyncio.timeout(DEADLINE_S):
                    assert await asyncio.to_thread(os.read, ours, 4096) == told
            finally:
                os.close(ours)
                os.close(its)
        await plugbay("pod", "delete", "slow", "--force")
