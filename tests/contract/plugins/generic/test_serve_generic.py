"""``plugbay serve generic`` as a process: its flags, its pages, its reload, and its end at bad moments."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from plugbay.cli.arguments.targets.generic import from_options
from plugbay.cli.main import make_parser
from plugbay.errors import AllocateFailed, UsageError
from plugbay.kubelet.paths import KubeletPaths
from plugbay.model.edits import DeviceNode
from plugbay.model.ids import PodUid
from plugbay.ops.http_client import UnixHttpClient
from plugbay.testing.fakes.kubelet import FakeKubelet, RegisteredPlugin, fake_kubelet
from plugbay.version import VERSION
from tests.contract.conftest import DEADLINE_S, Plugbay
from tests.contract.rigs.generic_node import unhealthy, until
from tests.contract.rigs.manager import pod
from tests.contract.rigs.release import gated

TTYS = "domain: example.com\ndevices: [{name: tty, groups: [{paths: [{path: '/dev/ttyUSB*', anyFile: true}]}]}]\n"

TTY = '{resource="example.com/tty"}'


class Machine:
    """A machine of files, the config of its devices, and the plugin's pages."""

    def __init__(self, plugbay: Plugbay) -> None:
        self.plugbay = plugbay
        self.root = plugbay.root / "machine"
        (self.root / "dev").mkdir(parents=True)
        (self.root / "sys").mkdir()
        self.config = plugbay.root / "devices.yaml"
        self.config.write_text(TTYS)
        self.pages = plugbay.root / "pages.sock"
        self.log = plugbay.root / "log"

    def add(self, name: str) -> None:
        (self.root / "dev" / name).touch()

    @asynccontextmanager
    async def serving(self, *options: str, **variables: str) -> AsyncIterator[asyncio.subprocess.Process]:
        words = ("--config", str(self.config), "--machine-root", str(self.root), *options)
        environ = {**os.environ, **variables}
        with self.log.open("ab") as log:
            async with self.plugbay.start("serve", "generic", *words, env=environ, stderr=log) as process:
                yield process

    async def page(self, path: str) -> tuple[int, str]:
        """The status and the text of a page, once there is one."""
        await until(self._takes_connections)
        client = UnixHttpClient(self.pages, timeout_s=DEADLINE_S)
        answer = await asyncio.to_thread(client.request, "GET", path)
        return answer.status, answer.body.decode()

    def _takes_connections(self) -> bool:
        """Whether pages are served: their socket has its name a moment before that."""
        with socket.socket(socket.AF_UNIX) as client:
            return client.connect_ex(str(self.pages)) == 0

    async def until_page(self, path: str, status: int, part: str) -> str:
        async with asyncio.timeout(DEADLINE_S):
            while (found := await self.page(path))[0] != status or part not in found[1]:  # noqa: ASYNC110 - as a probe
                await asyncio.sleep(0.01)
        return found[1]


async def listed(kubelet: FakeKubelet, count: int) -> RegisteredPlugin:
    plugin = await kubelet.next_registration()
    await until(lambda: len(plugin.devices) == count)
    return plugin


async def test_pages_tell_the_truth(plugbay: Plugbay) -> None:
    machine = Machine(plugbay)
    machine.add("ttyUSB0")
    paths = KubeletPaths(plugbay.root)
    async with machine.serving("--listen", f"unix:{machine.pages}", "--compat-metrics"):
        await machine.until_page("/health", 503, "example.com/tty: ")
        assert await machine.page("/livez") == (200, "ok")
        async with fake_kubelet(paths) as kubelet:
            plugin = await listed(kubelet, 1)
            await plugin.client.allocate(list(plugin.devices))
            await machine.until_page("/health", 200, "ok")
            await machine.until_page(
                "/metrics", 200, 'generic_device_plugin_allocations_total{resource="example.com/tty"} 1'
            )
            metrics = (await machine.page("/metrics"))[1]
            assert f"generic_device_plugin_devices{TTY} 1\n" in metrics
            assert f"generic_device_plugin_restarts_total{TTY} 0\n" in metrics
            assert "plugbay_generic_look_duration_seconds_count" in metrics
            await kubelet.restart()
            await listed(kubelet, 1)
            await machine.until_page(
                "/metrics", 200, 'generic_device_plugin_restarts_total{resource="example.com/tty"} 1'
            )
        await machine.until_page("/health", 503, "example.com/tty: ")


async def test_a_kubelet_is_told_what_is_preferred(plugbay: Plugbay) -> None:
    machine = Machine(plugbay)
    machine.config.write_text(TTYS.replace("[{paths", "[{count: 2, paths"))
    machine.add("ttyUSB0")
    machine.add("ttyUSB1")
    async with fake_kubelet(KubeletPaths(plugbay.root)) as kubelet, machine.serving():
        plugin = await listed(kubelet, 4)
        offered = sorted(plugin.devices)
        chosen = await plugin.client.preferred_allocation(offered, [offered[0]], 2)
        answer = await plugin.client.allocate(list(chosen))
        assert answer is not None
        assert offered[0] in chosen
        assert {Path(each.host_path).name for each in answer.edits.device_nodes} == {"ttyUSB0", "ttyUSB1"}, (
            "a share of each"
        )


async def test_a_file_of_smarter_device_manager_is_served_as_it_is(plugbay: Plugbay) -> None:
    config = plugbay.root / "conf.yaml"
    config.write_text("- devicematch: ^null$\n  nummaxdevices: 2\n")
    async with (
        fake_kubelet(KubeletPaths(plugbay.root)) as kubelet,
        plugbay.start("serve", "generic", "--config", str(config)),
    ):
        plugin = await listed(kubelet, 2)
        answer = await plugin.client.allocate([min(plugin.devices)])
        assert answer is not None
        assert plugin.registration.resource_name == "smarter-devices/null"
        assert answer.edits.device_nodes == (DeviceNode("/dev/null", container_path="/dev/null", permissions="rw"),)


async def test_squats_variables_stand_for_flags(plugbay: Plugbay) -> None:
    machine = Machine(plugbay)
    machine.config.write_text(TTYS.partition("\n")[2])
    variables = {"DOMAIN": "squat.example", "LISTEN": f"unix:{machine.pages}", "LOG_LEVEL": "warn"}
    async with fake_kubelet(KubeletPaths(plugbay.root)) as kubelet, machine.serving(**variables):
        plugin = await kubelet.next_registration()
        assert plugin.registration.resource_name == "squat.example/tty"
        await machine.until_page("/readyz", 200, "ok")
        assert "generic_device_plugin" not in (await machine.page("/metrics"))[1], "nothing asked for them"
    assert "INFO" not in machine.log.read_text()


@pytest.mark.parametrize(
    ("word", "level"),
    [
        ("all", "debug"),
        ("debug", "debug"),
        ("info", "info"),
        ("warn", "warning"),
        ("error", "error"),
        ("none", "error"),
    ],
)
def test_the_level_of_the_log_has_squats_words_too(word: str, level: str) -> None:
    command = ["serve", "generic", "--device", "{name: licence, domain: a.b, tokens: 1}", f"--log-level={word}"]
    assert make_parser().parse_args(command).log_level == level


def test_a_level_that_is_unknown_is_told_with_all_words(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        make_parser().parse_args(["serve", "generic", "--log-level", "bad"])
    assert "debug, info, warning, error, all, warn" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        make_parser().parse_args(["serve", "directory", "--log-level", "warn"])


@pytest.mark.parametrize(("options", "variable"), [(["--version"], ""), ([], "true")], ids=["flag", "variable"])
async def test_the_version_is_told_as_squats_plugin_does(plugbay: Plugbay, options: list[str], variable: str) -> None:
    machine = Machine(plugbay)
    command = ("serve", "generic", "--config", str(machine.config), *options)
    environ = {**os.environ, "VERSION": variable}
    async with plugbay.start(*command, env=environ, stdout=asyncio.subprocess.PIPE) as process:
        out, _ = await process.communicate()
    assert (process.returncode, out.decode()) == (0, f"plugbay {VERSION}\n")


def test_metrics_of_squats_plugin_are_where_it_has_them() -> None:
    command = ["serve", "generic", "--device", "{name: licence, domain: a.b, tokens: 1}", "--compat-metrics"]
    args = make_parser().parse_args(command)
    from_options(args)
    assert args.metrics == ":8080"


@pytest.mark.parametrize(
    ("domain", "words"),
    [("", "--domain is empty; write the part in front of the /"), ("A.b", "--domain 'A.b' is not a")],
)
def test_a_domain_that_no_resource_can_have_is_refused(domain: str, words: str) -> None:
    args = make_parser().parse_args(["serve", "generic", "--preset", "fuse", "--domain", domain])
    with pytest.raises(UsageError, match=re.escape(words)):
        from_options(args)


async def test_the_file_names_the_level_of_the_log_where_nothing_else_does(plugbay: Plugbay) -> None:
    machine = Machine(plugbay)
    machine.config.write_text(f"log-level: error\n{TTYS}")
    async with fake_kubelet(KubeletPaths(plugbay.root)) as kubelet:
        async with machine.serving():
            await kubelet.next_registration()
        assert "INFO" not in machine.log.read_text()
        async with machine.serving("--log-level", "info"):
            await kubelet.next_registration()
    assert "INFO" in machine.log.read_text()


async def test_a_level_that_is_none_is_told(plugbay: Plugbay) -> None:
    machine = Machine(plugbay)
    async with machine.serving(LOG_LEVEL="bad") as process:
        assert await process.wait() == 2
    sentence = "the log has no level 'bad'; give --log-level or its variable one of debug, info, warning, error"
    assert machine.log.read_text() == f"plugbay: error: {sentence}\n"


async def test_the_plugin_directory_says_where_the_kubelet_is(plugbay: Plugbay) -> None:
    machine = Machine(plugbay)
    paths = KubeletPaths(plugbay.root / "k")
    plugbay = Plugbay(plugbay.root)
    plugbay._argv = plugbay._argv[:3]  # without --root
    machine.plugbay = plugbay
    async with fake_kubelet(paths) as kubelet:
        async with machine.serving("--plugin-directory", str(paths.device_plugins)):
            await kubelet.next_registration()
        async with machine.serving("--plugin-directory", str(paths.root)) as process:
            assert await process.wait() == 2
    assert (
        f"--plugin-directory {paths.root}: a kubelet has its plugins in DIR/device-plugins" in machine.log.read_text()
    )


async def test_a_broken_file_is_told_and_sighup_reads_it_again(plugbay: Plugbay) -> None:
    machine = Machine(plugbay)
    machine.add("ttyUSB0")
    async with (
        fake_kubelet(KubeletPaths(plugbay.root)) as kubelet,
        machine.serving("--metrics", f"unix:{machine.pages}") as process,
    ):
        plugin = await listed(kubelet, 1)
        machine.config.write_text(TTYS.replace("groups", "grups"))
        ready = await machine.until_page("/readyz", 200, "grups")
        assert ready.startswith(f"ok\n{machine.config}:2:")
        metric = f'plugbay_config_last_reload_successful{{source="{machine.config}",config=""}}'
        await machine.until_page("/metrics", 200, f"{metric} 0")
        machine.add("ttyUSB1")
        await until(lambda: len(plugin.devices) == 2)
        machine.config.write_text(TTYS)
        await machine.until_page("/metrics", 200, f"{metric} 1")
        process.send_signal(signal.SIGHUP)
        again = await listed(kubelet, 2)
        assert again.registration.resource_name == "example.com/tty"
        process.terminate()
        assert await process.wait() == 0
    log = machine.log.read_text()
    assert "configuration rejected, keeping the previous one" in log
    assert "missing where the plugin runs" not in log, "the nodes are below --machine-root"


async def test_a_broken_file_at_the_start_is_the_end(plugbay: Plugbay) -> None:
    machine = Machine(plugbay)
    machine.config.write_text("devices: [{name: 3}]\n")
    done = await plugbay("serve", "generic", "--config", str(machine.config))
    assert done.code == 1
    assert f"{machine.config}:1:" in done.err
    assert "Traceback" not in done.err


async def test_a_plugin_that_was_killed_goes_on_where_it_was(plugbay: Plugbay) -> None:
    """Killed while devices come and go, again and again; the last one knows all that is there."""
    machine = Machine(plugbay)
    machine.add("ttyUSB0")
    async with fake_kubelet(KubeletPaths(plugbay.root)) as kubelet:
        for number in range(1, 4):
            async with machine.serving() as process:
                plugin = await listed(kubelet, number)
                machine.add(f"ttyUSB{number}")
                process.kill()
                await process.wait()
                await plugin.until_ended()
        async with machine.serving() as process:
            plugin = await listed(kubelet, 4)
            assert not unhealthy(plugin)
            (machine.root / "dev/ttyUSB2").unlink()
            await until(lambda: len(unhealthy(plugin)) == 1)
            process.terminate()
            assert await process.wait() == 0
    assert not list(KubeletPaths(plugbay.root).device_plugins.glob("example*.sock"))


async def test_it_can_be_a_target_in_a_file_of_targets(plugbay: Plugbay) -> None:
    machine = Machine(plugbay)
    targets = plugbay.root / "plugins.yaml"
    targets.write_text(
        "plugins:\n"
        "- target: generic\n"
        "  settings: {config: devices.yaml, domain: one.example}\n"
        "- target: generic\n"
        "  settings:\n"
        "    domain: two.example\n"
        "    devices: [{name: null, groups: [{paths: [{path: /dev/null}]}]}]\n".replace("null,", "nil,")
    )
    assert machine.config.parent == targets.parent
    done = await plugbay("serve", "--config", str(targets), "--dry-run")
    assert done.rows == [["one.example/tty", "generic"], ["two.example/nil", "generic"]]
    devices = await plugbay("devices", "--config", str(targets), "-o", "json")
    assert '"hostPath": "/dev/null"' in devices.out


async def test_a_mistaken_setting_of_a_target_is_one_sentence(plugbay: Plugbay) -> None:
    targets = plugbay.root / "plugins.yaml"
    targets.write_text("plugins: [{target: generic, settings: {confg: x}}]\n")
    done = await plugbay("serve", "--config", str(targets), "--dry-run")
    assert done.code == 2
    assert f"{targets}: plugins[0]: cannot load a plugin from generic: settings.confg: unknown field" in done.err


async def test_a_release_command_dies_with_its_plugin_and_is_run_by_the_next(plugbay: Plugbay) -> None:
    machine = Machine(plugbay)
    machine.add("ttyUSB0")
    told, works = plugbay.root / "told", plugbay.root / "works"
    script = f"echo $PLUGBAY_ASSIGNMENT $$ >> {told}; if test ! -e {works}; then exec sleep 600; fi"
    entry = {
        "name": "gopher",
        "groups": [{"paths": [{"path": "/dev/ttyUSB*", "anyFile": True}], "release": {"exec": ["sh", "-c", script]}}],
    }
    machine.config.write_text(json.dumps({"domain": "example.com", "devices": [entry]}))
    async with gated(plugbay.root) as b:
        async with machine.serving() as process:
            await b.counts(1, 1)
            await b.manager.admit(pod("p"))
            await b.release("p")
            await until(lambda: told.exists() and told.read_text().endswith("\n"))
            key, command = told.read_text().split()
            process.kill()
            await process.wait()
            await until(lambda: not Path(f"/proc/{command}").exists())
        works.touch()
        async with machine.serving():
            await until(lambda: len(told.read_text().split()) == 4)
            assert told.read_text().split()[2] == key
            await b.counts(1, 1)


async def test_a_health_command_dies_with_its_plugin(plugbay: Plugbay) -> None:
    machine = Machine(plugbay)
    machine.add("ttyUSB0")
    told, works = plugbay.root / "told", plugbay.root / "works"
    script = f"echo $$ >> {told}; if test ! -e {works}; then exec sleep 600; fi"
    machine.config.write_text(json.dumps(rules({"health": {"exec": ["sh", "-c", script], "every": "1s"}})))
    async with fake_kubelet(KubeletPaths(plugbay.root)) as kubelet:
        async with machine.serving() as process:
            await kubelet.next_registration()
            await until(lambda: told.exists() and told.read_text().endswith("\n"))
            command = told.read_text().strip()
            process.kill()
            await process.wait()
            await until(lambda: not Path(f"/proc/{command}").exists())
        works.touch()
        async with machine.serving():
            plugin = await listed(kubelet, 1)
            await until(lambda: len(told.read_text().split()) > 1 and not unhealthy(plugin))


async def test_a_device_whose_allocation_was_cut_off_by_a_kill_is_given_again(plugbay: Plugbay) -> None:
    machine = Machine(plugbay)
    machine.add("ttyUSB0")
    released = plugbay.root / "released"
    machine.config.write_text(json.dumps(rules({"release": {"exec": ["sh", "-c", f"echo >> {released}"]}})))
    async with gated(plugbay.root) as b:
        async with machine.serving() as process:
            await b.counts(1, 1)
            process.send_signal(signal.SIGSTOP)
            cut_off = asyncio.ensure_future(b.manager.admit(pod("p")))
            for _ in range(100):  # turns of the loop, in which the call is sent
                await asyncio.sleep(0)
            process.kill()
            with pytest.raises(AllocateFailed):
                await cut_off
        async with machine.serving():
            await b.counts(1, 1)
            await b.manager.admit(pod("q"))
            await b.release("q")
            await b.manager.until_deallocated(PodUid("q"))
    assert released.exists()


def rules(group: dict[str, object]) -> dict[str, object]:
    """A config with one group."""
    paths = [{"path": "/dev/ttyUSB*", "anyFile": True}]
    return {
        "domain": "example.com",
        "devices": [{"name": "gopher", "groups": [{"paths": paths, **group}], "prefer": "none"}],
    }
