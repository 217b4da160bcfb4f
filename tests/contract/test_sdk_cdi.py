"""A plugin with a CDI kind, as kubelets and engines see it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from plugbay import CdiAnswer, ContainerEdits, Device, DeviceNode, DevicePlugin, Mount, Replicas
from plugbay.cdi.directories import save, scan
from plugbay.cdi.host import host_node
from plugbay.cdi.inject import inject
from plugbay.cdi.names import parse_qualified_name
from plugbay.cdi.registry import Registry
from plugbay.cdi.spec import Device as Entry
from plugbay.cdi.spec import DeviceNode as Node
from plugbay.cdi.spec import Edits, Spec
from plugbay.errors import InvalidCdiName, RpcFailed
from plugbay.kernel.watch import watch_paths
from plugbay.kubelet.checkpoint import encode
from plugbay.kubelet.checkpoint_data import CheckpointData, PodDevicesEntry
from plugbay.kubelet.paths import KubeletPaths
from plugbay.model.ids import DeviceId
from plugbay.sdk.cdi.entries import WITHOUT_ENV
from plugbay.sdk.runner import serving
from plugbay.testing.fake_kubelet import FakeKubelet, RegisteredPlugin, fake_kubelet

if TYPE_CHECKING:
    from tests.contract.conftest import Plugbay

KIND = "vendor.example/gopher"
RESOURCE = "vendor.example/gopher"
FILE = "vendor.example-gopher_plugbay.vendor.example_gopher.json"
DEADLINE_S = 20


def gopher(name: str, **more: object) -> Device:
    return Device(
        name,
        env={"GOPHERS": name},
        device_nodes=[DeviceNode(f"/dev/{name}", "/dev/null")],
        mounts=[Mount("/opt/gopher", "/etc", read_only=True)],
        **more,  # type: ignore[arg-type]  # whatever a device takes
    )


class Gophers(DevicePlugin):
    resource_name = RESOURCE
    cdi_kind: str | None = KIND

    def __init__(self, *devices: Device, answer: CdiAnswer = CdiAnswer.NAMES) -> None:
        self.cdi_answer = answer
        self.devices: Iterable[Device] = devices

    def discover(self) -> Iterable[Device]:
        return self.devices


class Machine:
    """A kubelet's root and a directory of specs."""

    def __init__(self, root: Path) -> None:
        self.paths = KubeletPaths(root / "kubelet")
        self.specs = root / "run" / "cdi"
        self.file = self.specs / FILE

    @asynccontextmanager
    async def served(self, *plugins: DevicePlugin) -> AsyncIterator[RegisteredPlugin]:
        """The first plugin's side of the kubelet, its first list read."""
        async with self.kubelet_with(*plugins) as kubelet:
            registered = await kubelet.next_registration()
            await registered.next_list()
            yield registered

    @asynccontextmanager
    async def kubelet_with(self, *plugins: DevicePlugin) -> AsyncIterator[FakeKubelet]:
        async with (
            fake_kubelet(self.paths) as kubelet,
            serving(plugins, paths=self.paths, cdi_directory=self.specs),
        ):
            yield kubelet

    def scan(self) -> Registry:
        return scan([self.specs])

    def names(self) -> list[str]:
        return sorted(name.name for name in self.scan().devices)

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait for what a plugin does to its files."""
        async with watch_paths([self.file, self.specs]) as changes, asyncio.timeout(DEADLINE_S):
            while not is_so():
                await anext(changes)

    def assign(self, *ids: str) -> None:
        """What the kubelet writes when pods have these devices."""
        entries = [PodDevicesEntry("uid1", "main", RESOURCE, {-1: list(ids)})] if ids else []
        self.paths.device_plugins.mkdir(parents=True, exist_ok=True)
        fresh = self.paths.checkpoint.with_suffix(".new")
        fresh.write_bytes(encode(CheckpointData(entries, {})))
        fresh.rename(self.paths.checkpoint)


@pytest.fixture
def machine(sockets: Path) -> Machine:
    return Machine(sockets)


@contextmanager
def next_error() -> Iterator[asyncio.Future[str]]:
    """The text of the next error that is logged."""
    text: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if not text.done():
                text.set_result(record.getMessage())

    handler = Handler(logging.ERROR)
    logging.getLogger("plugbay").addHandler(handler)
    try:
        yield text
    finally:
        logging.getLogger("plugbay").removeHandler(handler)


async def allocate(plugin: RegisteredPlugin, *names: str) -> ContainerEdits:
    response = await plugin.client.allocate([DeviceId(name) for name in names])
    assert response is not None
    return response.edits


def injected_env(machine: Machine, answer: ContainerEdits) -> list[str]:
    """The variables that a container has in the end: those of the answer, then what an engine injects."""
    plain = [f"{name}={value}" for name, value in answer.env.items()]
    edits = machine.scan().edits([parse_qualified_name(each) for each in answer.cdi_devices])
    oci = inject(edits, {"process": {"env": plain}}, partial(host_node, root=Path("/")))
    env: list[str] = oci["process"]["env"]
    return env


# --- what is in the file, and what Allocate says --------------------------------------------------------------------


async def test_spec_is_there_before_the_device_is_offered(machine: Machine) -> None:
    async with machine.kubelet_with(Gophers(gopher("g1"), gopher("g2"))) as kubelet:
        plugin = await kubelet.next_registration()
        assert machine.file.exists()
        assert await plugin.next_list() == ("g1", "g2")
        registry = machine.scan()
        assert registry.problems == {}
        [g1] = [each.device for name, each in registry.devices.items() if name.name == "g1"]
        assert g1.edits == Edits(
            env=("GOPHERS=g1",),
            device_nodes=(Node("/dev/g1", "/dev/null", permissions="rw"),),
            mounts=registry.devices[parse_qualified_name(f"{KIND}=g1")].device.edits.mounts,
        )
        assert registry.devices[parse_qualified_name(f"{KIND}=g1")].file.spec.version == "0.5.0"
        assert machine.file.stat().st_mode & 0o777 == 0o644
    assert not machine.file.exists()


async def test_one_device_is_given_by_its_name(machine: Machine) -> None:
    async with machine.served(Gophers(gopher("g1"), gopher("g2"))) as plugin:
        answer = await allocate(plugin, "g1")
        assert answer == ContainerEdits(cdi_devices=(f"{KIND}=g1",))
        assert injected_env(machine, answer) == ["GOPHERS=g1"]


async def test_variables_of_several_devices_are_joined(machine: Machine) -> None:
    """In CDI the last one's value would win."""
    async with machine.served(Gophers(gopher("g1"), gopher("g2"), Device("e", env={"GOPHERS": "e"}))) as plugin:
        answer = await allocate(plugin, "g1", "g2", "e")
        assert answer.env == {"GOPHERS": "e,g1,g2"}
        assert injected_env(machine, answer) == ["GOPHERS=e,g1,g2"]
        edits = machine.scan().edits([parse_qualified_name(each) for each in answer.cdi_devices])
        assert [node.path for node in edits.device_nodes] == ["/dev/g1", "/dev/g2"]


async def test_names_and_edits_at_once(machine: Machine) -> None:
    devices = gopher("g1"), gopher("g2")
    async with machine.served(Gophers(*devices, answer=CdiAnswer.NAMES | CdiAnswer.EDITS)) as plugin:
        answer = await allocate(plugin, "g1", "g2")
        assert answer.env == {"GOPHERS": "g1,g2"}
        assert answer.mounts == devices[0].edits.mounts
        assert answer.device_nodes == (*devices[0].edits.device_nodes, *devices[1].edits.device_nodes)
        assert len(answer.cdi_devices) == 2
        assert injected_env(machine, answer) == ["GOPHERS=g1,g2"]


async def test_annotations_for_old_kubelets_are_asked_for(machine: Machine) -> None:
    async with machine.served(Gophers(gopher("g1"), answer=CdiAnswer.ANNOTATIONS)) as plugin:
        answer = await allocate(plugin, "g1")
        assert not answer.cdi_devices
        [(key, value)] = answer.annotations.items()
        assert key.startswith("cdi.k8s.io/gopher_")
        assert value == f"{KIND}=g1"


async def test_what_allocate_says_goes_along(machine: Machine) -> None:
    class Tuned(Gophers):
        def allocate(self, devices: Sequence[Device]) -> ContainerEdits:
            return ContainerEdits(env={"SPEED": "fast", **({"GOPHERS": "best"} if len(devices) > 1 else {})})

    async with machine.served(Tuned(gopher("g1"), gopher("g2"))) as plugin:
        assert await allocate(plugin, "g1") == ContainerEdits(env={"SPEED": "fast"}, cdi_devices=(f"{KIND}=g1",))
        both = await allocate(plugin, "g1", "g2")
        assert sorted(injected_env(machine, both)) == ["GOPHERS=best", "SPEED=fast"]


async def test_replicas_share_an_entry(machine: Machine) -> None:
    async with machine.served(Gophers(gopher("g1", sharing=Replicas(2)))) as plugin:
        assert (await allocate(plugin, "g1::1")).cdi_devices == (f"{KIND}=g1",)
        assert machine.names() == ["g1", "g1:without-env"]


async def test_device_that_cdi_cannot_express_is_not_offered(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    odd = gopher("odd", annotations={"example.com/tune": "1"})
    plugin = Gophers(gopher("g1"), odd, Device("bare"))
    async with machine.kubelet_with(plugin) as kubelet:
        registered = await kubelet.next_registration()
        assert await registered.next_list() == ("g1",)
        plugin.devices = [gopher("g1"), gopher("g2"), odd]
        plugin.refresh()
        await registered.until_devices("g1", "g2")
    told = [each.message for each in caplog.records if each.levelno == logging.ERROR]
    assert told == [
        f"{RESOURCE}: not offered: device odd: a CDI spec cannot hold the annotation example.com/tune",
        f"{RESOURCE}: not offered: device bare: a CDI device needs variables, mounts or device nodes, and it has none",
    ]


async def test_devices_that_do_not_go_together_are_refused(machine: Machine) -> None:
    devices = [Device(name, mounts=[Mount("/opt/gopher", f"/{name}")]) for name in ("a", "b")]
    async with machine.served(Gophers(*devices)) as plugin:
        with pytest.raises(RpcFailed, match="/opt/gopher"):
            await allocate(plugin, "a", "b")


async def test_bad_kind_is_refused_at_once(machine: Machine) -> None:
    plugin = Gophers()
    plugin.cdi_kind = "gopher"
    with pytest.raises(InvalidCdiName, match='invalid CDI kind "gopher": it has to be vendor/class'):
        async with serving([plugin], paths=machine.paths, cdi_directory=machine.specs):
            pass


# --- the file through changes ---------------------------------------------------------------------------------------


async def test_file_follows_the_devices_and_is_written_only_when_it_changes(machine: Machine) -> None:
    plugin = Gophers(gopher("g1"))
    async with machine.served(plugin) as registered:
        before = machine.file.stat().st_ino
        await allocate(registered, "g1")
        plugin.devices = [gopher("g1", numa_nodes=[0])]
        plugin.refresh()
        await registered.until_devices("g1")
        assert machine.file.stat().st_ino == before
        machine.assign()
        plugin.devices = [gopher("g2")]
        plugin.refresh()
        await registered.until_devices("g2")
        assert "g2" in machine.names()
        assert "g1" in machine.names()  # Allocate was called for it, and nobody knows yet what became of that


async def test_device_that_is_gone_stays_while_somebody_has_it(machine: Machine) -> None:
    machine.assign("g1")
    plugin = Gophers(gopher("g1"), gopher("g2"))
    async with machine.served(plugin) as registered:
        plugin.devices = []
        plugin.refresh()
        await registered.until_devices()
        await machine.until(lambda: machine.names() == ["g1", "g1:without-env"])
        machine.assign()
        await machine.until(lambda: not machine.file.exists())


async def test_nothing_is_taken_out_while_nobody_can_tell(machine: Machine) -> None:
    machine.assign()
    machine.paths.checkpoint.write_text("{")
    plugin = Gophers(gopher("g1"))
    async with machine.served(plugin) as registered:
        plugin.devices = []
        plugin.refresh()
        await registered.until_devices()
    assert machine.names() == ["g1", "g1:without-env"]


async def test_assigned_devices_outlast_the_plugin(machine: Machine) -> None:
    """Their containers may start again before the plugin does, and the device may be gone when it does."""
    machine.assign("g1")
    async with machine.served(Gophers(gopher("g1"), gopher("g2"))):
        pass
    assert machine.names() == ["g1", "g1:without-env"]
    async with machine.served(Gophers(gopher("g2"))):
        await machine.until(lambda: machine.names() == ["g1", "g1:without-env", "g2", "g2:without-env"])
        machine.assign()
        await machine.until(lambda: machine.names() == ["g2", "g2:without-env"])


@pytest.mark.parametrize("left", ["nothing", "garbage"])
async def test_spec_is_whole_again_before_devices_are_offered_after_a_reboot(machine: Machine, left: str) -> None:
    """/run is empty then, or a crash has spoiled it; pods of before have what is found, and what is no more."""
    machine.assign("g1", "gone")
    if left == "garbage":
        machine.specs.mkdir(parents=True)
        machine.file.write_bytes(b"\xff{")

    class Others(Gophers):
        resource_name = "vendor.example/more"

    async with machine.kubelet_with(Gophers(gopher("g1"), gopher("g2")), Others(gopher("m1"))) as kubelet:
        for _ in range(2):
            registered = await kubelet.next_registration()
            offered = await registered.next_list()
            assert set(offered) <= set(machine.names())
        assert sorted({name.removesuffix(WITHOUT_ENV) for name in machine.names()}) == ["g1", "g2", "m1"]
        assert machine.scan().problems == {}
        assert len(list(machine.specs.iterdir())) == 2
    assert machine.names() == ["g1", f"g1{WITHOUT_ENV}"]  # its pod has it still


async def test_what_a_killed_process_was_writing_is_removed(machine: Machine) -> None:
    machine.specs.mkdir(parents=True)
    unfinished, foreign = machine.specs / "spec.plugbay.x1.tmp", machine.specs / "spec.x1.tmp"
    for path in (unfinished, foreign):
        path.touch()
    async with machine.served(Gophers(gopher("g1"))):
        assert sorted(machine.specs.iterdir()) == sorted([foreign, machine.file])


@pytest.mark.parametrize("harm", ["file", "directory", "content"])
async def test_file_that_somebody_spoils_is_made_again(machine: Machine, harm: str) -> None:
    async with machine.served(Gophers(gopher("g1"))):
        match harm:
            case "file":
                machine.file.unlink()
            case "directory":
                machine.file.unlink()
                machine.specs.rmdir()
            case _:
                machine.file.write_text("{}")
        await machine.until(lambda: machine.names() == ["g1", "g1:without-env"])


async def test_leftovers_of_ours_are_removed_when_nobody_needs_them(machine: Machine) -> None:
    """Of processes that were killed: files that nobody holds."""
    machine.assign("g1")
    spec = Spec("0.3.0", "vendor.example/other", devices=(Entry("d", edits=Edits(env=("A=1",))),))
    gone = save(spec, machine.specs, "vendor.example-other_plugbay.vendor.example_other")
    assigned = save(spec, machine.specs, f"x-y_plugbay.{RESOURCE.replace('/', '_')}")  # of another kind, once
    foreign = [save(spec, machine.specs, name) for name in ("vendor.example-other", "plugbay", "a_plugbay.b")]

    class Others(Gophers):
        resource_name = "vendor.example/more"

    async with machine.served(Others(gopher("g1"))):
        assert not gone.exists()
        assert assigned.exists()
        assert all(path.exists() for path in foreign)


async def test_files_of_plugins_that_live_are_left_alone(machine: Machine) -> None:
    class Others(Gophers):
        resource_name = "vendor.example/more"

    async with machine.served(Gophers(gopher("g1"))):
        async with serving([Others(gopher("m1"))], paths=machine.paths, cdi_directory=machine.specs):
            await machine.until(lambda: "m1" in machine.names())
            assert "g1" in machine.names()
        assert machine.names() == ["g1", "g1:without-env"]


async def test_second_process_takes_the_file_over(machine: Machine) -> None:
    """A rolling update: the old one neither fights for the file nor removes it."""
    async with fake_kubelet(machine.paths, clears_directory=False) as kubelet:
        async with serving([Gophers(gopher("g1"))], paths=machine.paths, cdi_directory=machine.specs):
            await kubelet.next_registration()
            up = AsyncExitStack()
            await up.enter_async_context(
                serving([Gophers(gopher("g2"))], paths=machine.paths, cdi_directory=machine.specs)
            )
            await machine.until(lambda: machine.names() == ["g2", "g2:without-env"])
        assert machine.names() == ["g2", "g2:without-env"]
        await up.aclose()
        assert not machine.file.exists()


async def test_unwritable_directory_keeps_devices_from_being_offered(machine: Machine) -> None:
    machine.specs.parent.mkdir()
    machine.specs.touch()
    with next_error() as error:
        async with machine.kubelet_with(Gophers(gopher("g1"))) as kubelet:
            async with asyncio.timeout(DEADLINE_S):
                assert f"{machine.specs}: cannot be listed: Not a directory" in await error
            assert kubelet.unasked_registrations == 0
            machine.specs.unlink()
            assert await (await kubelet.next_registration()).next_list() == ("g1",)


async def test_conflict_with_a_foreign_file_is_told_once(machine: Machine, caplog: pytest.LogCaptureFixture) -> None:
    spec = Spec("0.3.0", KIND, devices=(Entry("g1", edits=Edits(env=("A=1",))),))
    foreign = save(spec, machine.specs, "foreign")
    plugin = Gophers(gopher("g1"), gopher("g2"))
    async with machine.served(plugin) as registered:
        assert "g1" not in machine.names()
        plugin.devices = [gopher("g1"), gopher("g2"), gopher("g3")]
        plugin.refresh()
        await registered.until_devices("g1", "g2", "g3")
    told = [each.message for each in caplog.records if "conflicting device" in each.message]
    assert len(told) == 1
    assert str(foreign) in told[0]
    assert foreign.exists()


# --- as processes ---------------------------------------------------------------------------------------------------

PLUGIN = """
from plugbay import Device, plugin

@plugin("vendor.example/{name}", cdi_kind="vendor.example/gopher")
def gophers():
    yield Device("{name}", env={{"GOPHER": "{name}"}})
"""


async def test_devices_shows_what_would_be_offered(plugbay: Plugbay, tmp_path: Path) -> None:
    text = PLUGIN.format(name="one") + '    yield Device("bare")\n'
    (tmp_path / "one.py").write_text(text)
    done = await plugbay("devices", str(tmp_path / "one.py"))
    assert [row[1] for row in done.rows] == ["one"]
    assert "vendor.example/one: not offered: device bare: a CDI device needs variables, mounts or" in done.err
    (tmp_path / "two.py").write_text(text.replace(KIND, "gopher"))
    done = await plugbay("devices", str(tmp_path / "two.py"))
    assert (done.code, done.err) == (1, 'plugbay: error: invalid CDI kind "gopher": it has to be vendor/class\n')


async def test_processes_that_are_killed_leave_nothing_for_long(plugbay: Plugbay, tmp_path: Path) -> None:
    specs = tmp_path / "cdi"
    for name in ("one", "two"):
        (tmp_path / f"{name}.py").write_text(PLUGIN.format(name=name))
    serve = ("serve", "--cdi-directory", str(specs))
    streams = {"stderr": asyncio.subprocess.DEVNULL}
    paths = KubeletPaths(plugbay.root)
    async with fake_kubelet(paths) as kubelet:
        async with plugbay.start(*serve, str(tmp_path / "one.py"), **streams) as plugin:
            await kubelet.next_registration()
            plugin.kill()
            await plugin.wait()
        assert (await plugbay("cdi", "list", "--spec-dir", str(specs), "-o", "name")).out == f"{KIND}=one\n"
        async with plugbay.start(*serve, str(tmp_path / "two.py"), **streams) as plugin:
            await kubelet.next_registration()
            assert (await plugbay("cdi", "list", "--spec-dir", str(specs), "-o", "name")).out == f"{KIND}=two\n"
            plugin.terminate()
            async with asyncio.timeout(DEADLINE_S):
                assert await plugin.wait() == 0
    assert list(specs.iterdir()) == []
