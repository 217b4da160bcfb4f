"""Plugins as processes of their own: the examples, and what ``plugbay serve`` says when it cannot serve."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from plugbay.kubelet.paths import KubeletPaths
from plugbay.model.ids import DeviceId
from plugbay.testing.fakes.kubelet import fake_kubelet

EXAMPLES = Path(__file__).parents[3] / "examples"
DEADLINE_S = 20
PLUGBAY = ("-m", "plugbay", "--root")
WITHOUT_ROOTS_WAYS = ("setpriv", "--bounding-set=-dac_override,-dac_read_search") if os.geteuid() == 0 else ()
"""Before a command: the modes of files are for it too."""
RUNNING = """
import sys
from plugbay import Device, DevicePlugin, run

class Mine(DevicePlugin):
    resource_name = "example.com/mine"

    def discover(self):
        return [Device("m")]

run(Mine(), argv=["--root", sys.argv[1]])
"""


@pytest.fixture
def paths(sockets: Path) -> KubeletPaths:
    return KubeletPaths(sockets)


def python(*arguments: str) -> AbstractAsyncContextManager[asyncio.subprocess.Process]:
    return program(sys.executable, *arguments)


@asynccontextmanager
async def program(*argv: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *argv, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def end(process: asyncio.subprocess.Process, number: signal.Signals = signal.SIGTERM) -> str:
    """Ask the process to stop; what it logged, after it ended well."""
    process.send_signal(number)
    _, log = await asyncio.wait_for(process.communicate(), DEADLINE_S)
    assert process.returncode == 0, log.decode()
    assert b"Traceback" not in log
    return log.decode()


async def test_example_class_serves_links_of_a_directory(paths: KubeletPaths) -> None:
    links = paths.root / "by-path"
    target = paths.root / "target.py"
    target.write_text(
        f"import sys\nsys.path.insert(0, {str(EXAMPLES)!r})\nfrom pathlib import Path\n"
        f"from serial_ports import SerialPorts\nports = SerialPorts(Path({str(links)!r}))\n"
    )
    links.mkdir()
    for name in ("usb-1", "usb-2"):
        (paths.root / f"tty-{name}").touch()
        (links / name).symlink_to(paths.root / f"tty-{name}")
    (links / "usb-3").symlink_to(paths.root / "gone")
    async with (
        fake_kubelet(paths) as kubelet,
        python("-m", "plugbay", "--root", str(paths.root), "serve", str(target)) as process,
    ):
        plugin = await kubelet.next_registration()
        await plugin.until_devices("usb-1", "usb-2", "usb-3")
        assert [device.health for device in plugin.devices.values()] == ["Healthy", "Healthy", "Unhealthy"]
        answer = await plugin.client.allocate([DeviceId("usb-2"), DeviceId("usb-1")])
        assert answer is not None
        assert answer.edits.env == {"SERIAL_PORTS": f"{paths.root}/tty-usb-1,{paths.root}/tty-usb-2"}
        chosen = await plugin.client.preferred_allocation(
            [DeviceId("usb-1"), DeviceId("usb-2")], [DeviceId("usb-2")], 1
        )
        assert chosen == ("usb-2",)
        await end(process)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT])
async def test_example_function_is_served_under_its_own_name(number: signal.Signals, paths: KubeletPaths) -> None:
    async with (
        fake_kubelet(paths) as kubelet,
        python("-m", "plugbay", "--root", str(paths.root), "serve", str(EXAMPLES / "gophers.py")) as process,
    ):
        plugin = await kubelet.next_registration()
        assert plugin.registration.resource_name == "example.com/gopher"
        await end(process, number)


async def test_file_may_serve_its_plugins_itself(paths: KubeletPaths) -> None:
    async with fake_kubelet(paths) as kubelet, python("-c", RUNNING, str(paths.root)) as process:
        await (await kubelet.next_registration()).until_devices("m")
        await end(process)
    assert [entry.name for entry in paths.device_plugins.iterdir()] == []


async def test_process_loads_nothing_that_it_does_not_use(paths: KubeletPaths) -> None:
    unused = ("libssl", "libcrypto", "_ssl.", "_hashlib.", "_pickle.", "_random.", "_bz2.", "_lzma.")
    async with fake_kubelet(paths) as kubelet, python("-c", RUNNING, str(paths.root)) as process:
        await (await kubelet.next_registration()).until_devices("m")
        maps = await asyncio.to_thread(Path(f"/proc/{process.pid}/maps").read_text)
        await end(process)
    loaded = {Path(line.split()[-1]).name for line in maps.splitlines()}
    assert [name for name in loaded if name.startswith(unused)] == []


async def test_author_may_use_tls(paths: KubeletPaths) -> None:
    author = RUNNING.replace("import sys", "import sys, ssl, urllib.request").replace(
        'Device("m")', 'Device(f"m{len(ssl.create_default_context().get_ciphers()) > 0}")'
    )
    async with fake_kubelet(paths) as kubelet, python("-c", author, str(paths.root)) as process:
        await (await kubelet.next_registration()).until_devices("mTrue")
        await end(process)


ITSELF = RUNNING.replace('argv=["--root", sys.argv[1]]', "").replace(", )", ")")


async def test_file_that_serves_itself_takes_the_options_of_serve(paths: KubeletPaths) -> None:
    file, config = paths.root / "mine.py", paths.root / "plugins.yaml"
    file.write_text(ITSELF.replace("class Mine", "class Other(DevicePlugin):\n    pass\n\nclass Mine"))
    config.write_text("plugins:\n- {target: directory, settings: {resource: example.com/d, path: d, env: D}}\n")
    for options, resource in [((), "example.com/mine"), (("--config", str(config)), "example.com/d")]:
        async with (
            fake_kubelet(paths) as kubelet,
            python(str(file), "--root", str(paths.root), "--log-format", "json", *options) as process,
        ):
            assert (await kubelet.next_registration()).registration.resource_name == resource
            lines = [json.loads(line) for line in (await end(process)).splitlines()]
        assert lines[0]["message"] == f"serving the kubelet at {paths.root}: --root says so"


@pytest.mark.parametrize(
    ("options", "code", "sentence"),
    [
        pytest.param(
            ("--rout", "both"), 2, 'mine.py: error: unknown option --rout; did you mean "--route"?', id="usage"
        ),
        pytest.param(("--root", "{file}"), 1, "plugbay: error: {file}: is not a directory", id="root"),
        pytest.param(("more",), 2, 'mine.py: error: unexpected argument "more"', id="argument"),
    ],
)
async def test_file_that_cannot_serve_itself_says_why(
    paths: KubeletPaths, options: tuple[str, ...], code: int, sentence: str
) -> None:
    file = paths.root / "mine.py"
    file.write_text(ITSELF)
    async with python(str(file), *(option.format(file=file) for option in options)) as process:
        _, said = await asyncio.wait_for(process.communicate(), DEADLINE_S)
    assert process.returncode == code
    assert said.decode().splitlines()[0] == sentence.format(file=file)


async def test_dry_run_of_a_file_that_serves_itself(paths: KubeletPaths) -> None:
    file = paths.root / "mine.py"
    file.write_text(ITSELF)
    async with python(str(file), "--dry-run") as process:
        out, _ = await asyncio.wait_for(process.communicate(), DEADLINE_S)
    assert [line.split() for line in out.decode().splitlines()[1:]] == [["example.com/mine", "mine.py"]]


async def test_plugin_started_before_the_kubelet_says_what_it_waits_for(paths: KubeletPaths) -> None:
    async with python("-c", RUNNING, str(paths.root)) as process:
        assert process.stderr is not None
        while "waiting for" not in (line := (await asyncio.wait_for(process.stderr.readline(), DEADLINE_S)).decode()):
            assert line
        assert str(paths.device_plugins) in line
        async with fake_kubelet(paths) as kubelet:
            await (await kubelet.next_registration()).until_devices("m")
            await end(process)


DIRECTORY = ("directory", "--resource", "example.com/gopher", "--env", "Gopher")


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        pytest.param((*DIRECTORY[:-2], "--path", "/x"), 2, "`serve directory` needs --env", id="missing-option"),
        pytest.param(("p.py", "--env", "E"), 2, "only `serve directory` takes --env", id="option-of-another"),
        pytest.param((*DIRECTORY, "--path", "{file}"), 1, "{file}: is not a directory", id="path-is-a-file"),
        pytest.param(
            ("directory", "--resource", "gopher", "--path", "/x", "--env", "E"),
            1,
            'the ResourceName "gopher" is invalid',
            id="resource-name",
        ),
        pytest.param(
            ("--root", "{file}", *DIRECTORY, "--path", "/x"), 1, "{file}: is not a directory", id="root-is-a-file"
        ),
        pytest.param(
            ("--root", "{root}/" + "x" * 100, *DIRECTORY, "--path", "/x"), 1, "unix sockets end at 107", id="too-long"
        ),
        pytest.param(("nothing.py",), 1, "cannot load a plugin from nothing.py: no such file", id="no-such-file"),
        pytest.param(
            ("gophers",),
            1,
            "a target is directory, generic, nvidia, scratch, FILE.py, FILE.py:object or",
            id="no-target",
        ),
        pytest.param(
            ("nothing.py", "--log-level", "info", "p.py"), 1, "from nothing.py: no such file", id="between-options"
        ),
        pytest.param(
            (*DIRECTORY, "--path", "/x", "p.py"),
            2,
            'unexpected argument "p.py"; `serve directory` is one target, and several go into a config file',
            id="after-a-target-with-options",
        ),
        pytest.param(
            ("p.py", "directory"),
            2,
            "`serve directory` is one target, with options of its own",
            id="target-among-files",
        ),
        pytest.param(("--env", "E", *DIRECTORY[:-2], "--path", "{file}"), 1, "{file}: is not a", id="options-first"),
        pytest.param(("--resource", "R", "p.py"), 2, "only `serve directory` and `serve scratch` take", id="of-two"),
        pytest.param((*DIRECTORY, "--count=3"), 2, "only `serve scratch` takes --count", id="option-of-scratch"),
        pytest.param((*DIRECTORY, "--evn", "E"), 2, 'unknown option --evn; did you mean "--env"?', id="mistyped"),
        pytest.param(("p.py", "--bogus", "q.py"), 2, "unknown option --bogus", id="unknown-option"),
        pytest.param(("p.py", "--against", "old.yaml"), 2, "--against goes with --dry-run", id="against"),
        pytest.param(("--config", "{root}/gone"), 1, "{root}/gone: cannot be read: No such file", id="no-config"),
        pytest.param(("--config", "{file}"), 1, "{file}: is empty; it has to say `plugins:`", id="empty-config"),
        pytest.param((), 2, "`serve` needs a TARGET or --config FILE", id="nothing"),
    ],
)
async def test_what_cannot_be_served_is_one_sentence(
    paths: KubeletPaths, arguments: tuple[str, ...], code: int, sentence: str
) -> None:
    names = {"file": str(paths.root / "file"), "root": str(paths.root)}
    (paths.root / "file").touch()
    given = [argument.format(**names) for argument in arguments]
    async with python("-m", "plugbay", "--root", str(paths.root), "serve", *given) as process:
        _, said = await asyncio.wait_for(process.communicate(), DEADLINE_S)
    assert process.returncode == code
    first, *_ = said.decode().splitlines()
    assert first.startswith("plugbay: error: ")
    assert sentence.format(**names) in first
    assert "Traceback" not in said.decode()
    assert [entry.name for entry in paths.root.iterdir()] == ["file"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may look everywhere")
async def test_a_directory_that_is_closed_to_us_is_one_sentence(paths: KubeletPaths) -> None:
    closed = paths.root / "closed"
    closed.mkdir(mode=0)
    arguments = ("--root", str(paths.root), "serve", *DIRECTORY, "--path", str(closed / "gophers"))
    async with python("-m", "plugbay", *arguments) as process:
        _, said = await asyncio.wait_for(process.communicate(), DEADLINE_S)
    assert process.returncode == 1
    assert said.decode() == f"plugbay: error: {closed}/gophers: closed to this user\n"


async def test_directory_that_is_closed_for_a_while_is_one_line(paths: KubeletPaths) -> None:
    (paths.root / "g1").touch()
    arguments = (*DIRECTORY, "--path", str(paths.root), "--log-level", "error")
    async with (
        fake_kubelet(paths) as kubelet,
        program(*WITHOUT_ROOTS_WAYS, sys.executable, *PLUGBAY, str(paths.root), "serve", *arguments) as process,
    ):
        await (await kubelet.next_registration()).until_devices("g1")
        paths.device_plugins.chmod(0)
        try:
            assert process.stderr is not None
            line = (await asyncio.wait_for(process.stderr.readline(), DEADLINE_S)).decode()
            assert f"{paths.device_plugins}" in line
            await asyncio.sleep(0.5)  # the first delays pass, and nothing more is said
        finally:
            paths.device_plugins.chmod(0o755)
        await (await kubelet.next_registration()).until_devices("g1")
        assert await end(process) == ""


STUCK = """
import asyncio
import sys
from plugbay import Device, DevicePlugin, run
from plugbay.sdk.process import runner

runner.END_S = float(sys.argv[2])

class Stuck(DevicePlugin):
    resource_name = "example.com/stuck"

    async def discover(self):
        try:
            yield [Device("a")]
            await asyncio.Event().wait()
        finally:
            print("ending", flush=True)
            await asyncio.Event().wait()

run(Stuck(), argv=["--root", sys.argv[1]])
"""


async def test_hook_that_never_ends_holds_up_the_end_for_a_while_only(paths: KubeletPaths) -> None:
    async with fake_kubelet(paths) as kubelet, python("-c", STUCK, str(paths.root), "3") as process:
        await kubelet.next_registration()
        process.terminate()
        out, log = await asyncio.wait_for(process.communicate(), DEADLINE_S)
    assert (process.returncode, out) == (1, b"ending\n")
    assert "example.com/stuck has not ended 3 s after" in log.decode()


async def test_second_signal_ends_what_a_hook_holds_up(paths: KubeletPaths) -> None:
    async with fake_kubelet(paths) as kubelet, python("-c", STUCK, str(paths.root), "600") as process:
        await kubelet.next_registration()
        process.terminate()
        assert process.stdout is not None
        assert await asyncio.wait_for(process.stdout.readline(), DEADLINE_S) == b"ending\n"
        process.terminate()
        _, log = await asyncio.wait_for(process.communicate(), DEADLINE_S)
    assert (process.returncode, b"Traceback" in log) == (128 + signal.SIGTERM, False)
