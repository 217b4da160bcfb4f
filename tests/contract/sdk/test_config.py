"""What a config file says is served, and follows the file."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from plugbay.cli.arguments.targets.loading import config_file
from plugbay.errors import DuplicateResource, InvalidDocument, PluginLoadError
from plugbay.kubelet.paths import KubeletPaths
from plugbay.ops.workers import Returned, Worker
from plugbay.plugins.directory.plugin import DirectoryPlugin
from plugbay.sdk.author.plugin import health_checks
from plugbay.sdk.process.config import ConfigEntry
from plugbay.sdk.process.config_file import ConfigFile
from plugbay.sdk.process.node_labels import ThisNode
from plugbay.sdk.process.runner import serving
from plugbay.sdk.process.sources import Member, known_plugins
from plugbay.testing.fakes.kubelet import FakeKubelet, RegisteredPlugin, fake_kubelet
from tests.contract.conftest import DEADLINE_S, Plugbay
from tests.contract.rigs.logs import Errors, errors

__all__ = ["errors"]

CARDS = """
from plugbay import Device, DevicePlugin, health, resources

class Cards(DevicePlugin):
    def __init__(self, slot=0):
        self.resource_name = f"example.com/slot-{slot}"
        self.slot = slot

    def discover(self):
        return [Device(f"c{self.slot}")]

    @health(isolate=True)
    def check(self, device):
        return True
"""


@pytest.fixture
def paths(sockets: Path) -> KubeletPaths:
    return KubeletPaths(sockets)


@pytest.fixture
def file(sockets: Path) -> Path:
    (sockets / "cards.py").write_text(CARDS)
    return sockets / "plugins.yaml"


def directories(root: Path, **names: str) -> str:
    """A config with a directory for each resource; the directories are made, with a file of their own name."""
    lines = ["plugins:"]
    for resource, directory in names.items():
        (root / directory).mkdir(exist_ok=True)
        (root / directory / directory).touch()
        settings = f"{{resource: example.com/{resource}, path: {directory}, env: D}}"
        lines += ["- target: directory", f"  settings: {settings}"]
    return "\n".join(lines)


def write_over(file: Path, text: str) -> None:
    """As an editor does."""
    new = file.with_suffix(".new")
    new.write_text(text)
    new.rename(file)


async def registered(kubelet: FakeKubelet, count: int) -> dict[str, RegisteredPlugin]:
    """The next registrations, by the type in their resource names, each with its first list."""
    plugins = [await kubelet.next_registration() for _ in range(count)]
    for plugin in plugins:
        await plugin.next_list()
    return {plugin.registration.resource_name.removeprefix("example.com/"): plugin for plugin in plugins}


def devices(plugins: Mapping[str, RegisteredPlugin]) -> dict[str, list[str]]:
    return {name: list(plugin.devices) for name, plugin in plugins.items()}


async def test_change_adds_removes_and_restarts_just_what_differs(
    paths: KubeletPaths, file: Path, sockets: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="plugbay.sdk.process.config_file")
    file.write_text(directories(sockets, tea="green", rum="dark", gin="dry"))
    async with fake_kubelet(paths) as kubelet, serving([config_file(file)], paths=paths):
        before = await registered(kubelet, 3)
        write_over(file, directories(sockets, beer="stout", gin="wet", tea="green"))
        after = await registered(kubelet, 2)
        assert devices(after) == {"gin": ["wet"], "beer": ["stout"]}
        await before["rum"].until_ended()
        (sockets / "green" / "more").touch()
        await before["tea"].until_devices("green", "more")  # on its first stream
        assert kubelet.unasked_registrations == 0
    assert [record.getMessage() for record in caplog.records if record.name == "plugbay.sdk.process.config_file"] == [
        f"{file}: removed: directory resource=example.com/rum path=dark env=D",
        f"{file}: changed: directory example.com/gin: path dry -> wet",
        f"{file}: added: directory resource=example.com/beer path=stout env=D",
    ]


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        pytest.param("plugins: [", "{file}:1: not valid YAML", id="syntax"),
        pytest.param(
            "plugins:\n- target: gone.py\n", "cannot load a plugin from {root}/gone.py: no such file", id="gone"
        ),
        pytest.param(
            "plugins:\n- target: directory\n  settings: {resource: a/b, env: D}\n",
            "{file}: plugins[0]: cannot load a plugin from directory: settings: wants the field path",
            id="settings",
        ),
        pytest.param(
            "plugins:\n- target: cards.py:Cards\n  settings: {slots: 1}\n",
            "{file}: plugins[0]: cannot load a plugin from {root}/cards.py:Cards: TypeError",
            id="argument",
        ),
        pytest.param(
            "plugins:\n- target: cards.py:Cards\n- target: cards.py\n",
            "{file}: plugins: two plugins serve example.com/slot-0; a kubelet takes only one",
            id="twice",
        ),
    ],
)
async def test_bad_file_is_refused_at_start_and_changes_nothing_later(
    paths: KubeletPaths, file: Path, sockets: Path, bad: str, sentence: str, errors: Errors
) -> None:
    expected = sentence.format(file=file, root=sockets)
    file.write_text(bad)
    with pytest.raises(InvalidDocument) as caught:
        config_file(file)
    assert expected in str(caught.value)

    file.write_text(directories(sockets, tea="green"))
    async with fake_kubelet(paths) as kubelet, serving([config_file(file)], paths=paths):
        before = await registered(kubelet, 1)
        write_over(file, bad)
        said = await errors.next()
        assert said.startswith("configuration rejected, keeping the previous one: ")
        assert expected in said
        write_over(file, directories(sockets, tea="green", rum="dark"))
        assert devices(await registered(kubelet, 1)) == {"rum": ["dark"]}
        assert not before["tea"].ended.is_set()
    assert errors.more == 0


async def test_same_problem_is_told_once(paths: KubeletPaths, file: Path, errors: Errors) -> None:
    loop = asyncio.get_running_loop()
    loads: asyncio.Queue[str] = asyncio.Queue()

    def load(entry: ConfigEntry) -> Sequence[Member]:
        loop.call_soon_threadsafe(loads.put_nowait, entry.target)
        raise PluginLoadError(entry.target, "broken")

    file.write_text("plugins: []")
    async with serving([ConfigFile(file, load, ThisNode())], paths=paths):
        for target in ("one", "one", "other"):
            write_over(file, f"plugins: [{{target: {target}}}]")
            async with asyncio.timeout(DEADLINE_S):
                assert await loads.get() == target
        assert "one" in await errors.next()
        assert "other" in await errors.next()
    assert errors.more == 0


async def test_resource_of_another_target_is_refused_and_that_one_goes_on(
    paths: KubeletPaths, file: Path, sockets: Path, errors: Errors
) -> None:
    (sockets / "fixed").mkdir()
    fixed = DirectoryPlugin("example.com/tea", sockets / "fixed", env="T")
    file.write_text(directories(sockets, tea="green"))
    with pytest.raises(DuplicateResource, match=r"two plugins serve example\.com/tea"):
        async with serving([fixed, config_file(file)], paths=paths):
            pass

    file.write_text("plugins: []")
    async with fake_kubelet(paths) as kubelet, serving([fixed, config_file(file)], paths=paths):
        before = await registered(kubelet, 1)
        write_over(file, directories(sockets, tea="green", rum="dark"))
        assert (await registered(kubelet, 1)).keys() == {"rum"}
        assert await errors.next() == (
            "example.com/tea: not served: two plugins serve example.com/tea; a kubelet takes only one"
        )
        write_over(file, directories(sockets, tea="green"))  # no news
        assert not before["tea"].ended.is_set()
    assert errors.more == 0


async def test_config_map_is_followed(paths: KubeletPaths, sockets: Path) -> None:
    """The kubelet swaps a link to a directory of versions: ``plugins.yaml -> ..data/plugins.yaml``."""
    volume = sockets / "volume"
    for version, directory in (("..1", "green"), ("..2", "black")):
        (volume / version).mkdir(parents=True)
        (volume / version / "plugins.yaml").write_text(directories(volume, tea=directory))
    (volume / "..data").symlink_to("..1")
    (volume / "plugins.yaml").symlink_to("..data/plugins.yaml")
    async with fake_kubelet(paths) as kubelet, serving([config_file(volume / "plugins.yaml")], paths=paths):
        assert devices(await registered(kubelet, 1)) == {"tea": ["green"]}
        (volume / "..data_tmp").symlink_to("..2")
        (volume / "..data_tmp").rename(volume / "..data")
        assert devices(await registered(kubelet, 1)) == {"tea": ["black"]}


async def test_file_in_place_and_links_are_followed(paths: KubeletPaths, file: Path, sockets: Path) -> None:
    file.write_text(directories(sockets, tea="green"))
    async with fake_kubelet(paths) as kubelet, serving([config_file(file)], paths=paths):
        await registered(kubelet, 1)
        with file.open("w") as opened:  # empty for a while
            opened.write(directories(sockets, tea="green", rum="dark"))
        assert devices(await registered(kubelet, 1)) == {"rum": ["dark"]}
        file.unlink()
        write_over(file, directories(sockets, tea="green", rum="dark", gin="dry"))
        assert devices(await registered(kubelet, 1)) == {"gin": ["dry"]}


async def test_classes_of_two_files_of_one_name_are_checked_in_processes_of_their_own(
    paths: KubeletPaths, file: Path, sockets: Path
) -> None:
    (sockets / "other").mkdir()
    (sockets / "other" / "cards.py").write_text(CARDS.replace("return True", "return False"))
    file.write_text(
        "plugins:\n- target: cards.py:Cards\n- {target: other/cards.py:Cards, settings: {slot: 1}}\n"
        "- {target: 'cards.py:Cards', settings: {slot: 2}}\n"
    )
    verdicts = []
    for plugin in known_plugins([config_file(file)]):
        [check] = health_checks(plugin)
        async with Worker(check.function) as worker:
            verdicts.append(await worker.call(None, timeout_s=DEADLINE_S))
    assert verdicts == [Returned(True), Returned(False), Returned(True)]


MODES = """
from pathlib import Path
from plugbay import Device, DevicePlugin, resources

class Mode(DevicePlugin):
    def __init__(self, path):
        self.resource_name = f"example.com/{path.name}"

    def discover(self):
        return [Device("m")]

@resources(watch=Path(__file__).with_name("modes"))
def modes(root):
    return [Mode(path) for path in root.iterdir()]
"""


async def test_source_in_a_config_comes_and_goes_with_its_entry(paths: KubeletPaths, file: Path, sockets: Path) -> None:
    (sockets / "modes.py").write_text(MODES)
    (sockets / "modes").mkdir()
    (sockets / "modes" / "whole").touch()
    alone = directories(sockets, tea="green")
    file.write_text(f"{alone}\n- target: modes.py\n")
    async with fake_kubelet(paths) as kubelet, serving([config_file(file)], paths=paths):
        before = await registered(kubelet, 2)
        (sockets / "modes" / "half").touch()
        before |= await registered(kubelet, 1)
        write_over(file, alone)
        await before["whole"].until_ended()
        await before["half"].until_ended()
        write_over(file, f"{alone}\n- target: modes.py\n")
        assert (await registered(kubelet, 2)).keys() == {"whole", "half"}
        assert not before["tea"].ended.is_set()


async def test_fifty_resources_change_and_one_keeps_its_stream(paths: KubeletPaths, file: Path, sockets: Path) -> None:
    fifty = {f"r{number}": "green" for number in range(50)}
    file.write_text(directories(sockets, **fifty))
    async with fake_kubelet(paths) as kubelet, serving([config_file(file)], paths=paths):
        before = await registered(kubelet, 50)
        write_over(file, directories(sockets, **(dict.fromkeys(fifty, "black") | {"r7": "green"})))
        after = await registered(kubelet, 49)
        assert set(map(tuple, devices(after).values())) == {("black",)}
        assert after.keys() == before.keys() - {"r7"}
        assert not before["r7"].ended.is_set()


async def test_command_follows_its_file_and_reads_it_on_sighup(
    plugbay: Plugbay, paths: KubeletPaths, file: Path, sockets: Path
) -> None:
    file.write_text(directories(sockets, tea="green"))
    pipe = asyncio.subprocess.PIPE
    async with fake_kubelet(paths) as kubelet, plugbay.start("serve", "--config", str(file), stderr=pipe) as process:
        await registered(kubelet, 1)
        write_over(file, directories(sockets, tea="green", rum="dark"))
        await registered(kubelet, 1)
        process.send_signal(signal.SIGHUP)
        assert (await registered(kubelet, 2)).keys() == {"tea", "rum"}
        process.terminate()
        async with asyncio.timeout(DEADLINE_S):
            _, log = await process.communicate()
    assert process.returncode == 0
    assert f"{file}: added: directory resource=example.com/rum path=dark env=D" in log.decode()
    assert "Traceback" not in log.decode()


async def test_dry_run_shows_what_would_be_served(plugbay: Plugbay, file: Path, sockets: Path) -> None:
    (sockets / "modes.py").write_text(MODES)
    (sockets / "modes").mkdir()
    (sockets / "modes" / "whole").touch()
    file.write_text(directories(sockets, tea="green") + "\n- target: modes.py\n")
    done = await plugbay("serve", "--config", str(file), "--dry-run", str(sockets / "cards.py"))
    assert (done.code, done.err) == (0, "")
    assert done.rows == [
        ["example.com/slot-0", str(sockets / "cards.py")],
        ["example.com/tea", "directory"],
        ["example.com/whole", "modes.py"],
    ]
    listed = await plugbay("devices", "--config", str(file))
    assert [row[:2] for row in listed.rows] == [["example.com/tea", "green"], ["example.com/whole", "m"]]
    assert not os.path.exists(sockets / "device-plugins")


async def test_dry_run_compares_files_and_says_so_by_its_exit_code(plugbay: Plugbay, file: Path, sockets: Path) -> None:
    old = sockets / "old.yaml"
    file.write_text(directories(sockets, tea="green", rum="dark"))
    old.write_text(directories(sockets, rum="dark", tea="black"))
    command = ("serve", "--config", str(file), "--dry-run", "--against", str(old))
    assert await plugbay(*command) == (1, "changed: directory example.com/tea: path black -> green\n", "")
    old.write_text(directories(sockets, rum="dark", tea="green"))
    assert await plugbay(*command) == (0, "", "")
    file.write_text("plugins: 3")
    assert await plugbay(*command) == (2, "", f"plugbay: error: {file}:1: plugins: wants a list, found a number\n")
