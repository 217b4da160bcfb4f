"""``plugbay new``: what it writes works as it is."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
import yaml

from plugbay.sdk.process.node_configs import parse_configs
from tests.contract.conftest import Plugbay
from tests.pytest_runs import LOADING

FILES = ["README.md", "daemonset.yaml", "my_card_plugin.py", "plugins.yaml", "pytest.ini", "test_my_card_plugin.py"]
PROGRAM_S = 200
"""pytest and mypy have much to import, on a machine that has much to do."""
pytestmark = pytest.mark.timeout(PROGRAM_S + 60)
PARTS = [(), ("--release",), ("--cdi",), ("--release", "--cdi")]
with_no_part_or_all = pytest.mark.parametrize("parts", [PARTS[0], PARTS[-1]], ids=["plain", "all"])
with_any_parts = pytest.mark.parametrize("parts", PARTS, ids=lambda parts: "".join(parts).strip("-") or "plain")
DEVICE_PLUGINS = "/var/lib/kubelet/device-plugins"
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *LOADING)
READ_ONLY: dict[str, object] = {"readOnly": True}


async def made(plugbay: Plugbay, directory: Path, *options: str) -> None:
    done = await plugbay("new", "my-card", "--directory", str(directory), *options)
    assert done.code == 0, done
    assert sorted(done.out.splitlines()) == [f"{directory / name} created" for name in FILES]


async def output(*argv: str, cwd: Path) -> tuple[int | None, str]:
    pipes = {"stdout": asyncio.subprocess.PIPE, "stderr": asyncio.subprocess.STDOUT}
    process = await asyncio.create_subprocess_exec(*argv, cwd=cwd, **pipes)  # type: ignore[arg-type]  # typeshed's overloads
    try:
        async with asyncio.timeout(PROGRAM_S):
            out, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode, out.decode()


@with_no_part_or_all
async def test_its_own_test_passes(plugbay: Plugbay, tmp_path: Path, parts: tuple[str, ...]) -> None:
    await made(plugbay, tmp_path, *parts)
    code, out = await output(*PYTEST, cwd=tmp_path)
    assert (code, "3 passed" in out) == (0, True), out
    assert "arning" not in out  # with whatever plugins of pytest are installed


@pytest.mark.parametrize(
    ("parts", "line", "broken"),
    [
        pytest.param((), '"MY_CARD_DEVICES": node.name', '"MY_CARD_DEVICES": "x"', id="plain"),
        pytest.param(("--release",), "def release", "def let_go", id="release"),
        pytest.param(("--cdi",), "cdi_kind =", "kind =", id="cdi"),
    ],
)
async def test_its_own_test_can_fail(
    plugbay: Plugbay, tmp_path: Path, parts: tuple[str, ...], line: str, broken: str
) -> None:
    await made(plugbay, tmp_path, *parts)
    source = tmp_path / "my_card_plugin.py"
    source.write_text(source.read_text().replace(line, broken))
    code, out = await output(*PYTEST, cwd=tmp_path)
    assert (code, "1 failed, 2 passed" in out) == (1, True), out


@pytest.mark.parametrize("name", ["true", "path", "device", "json", "test", "a1-2--3"])
async def test_names_that_mean_something_elsewhere(plugbay: Plugbay, tmp_path: Path, name: str) -> None:
    assert (await plugbay("new", name, "--directory", str(tmp_path))).code == 0
    code, out = await output(*PYTEST, cwd=tmp_path)
    assert (code, "3 passed" in out) == (0, True), out


@pytest.fixture(scope="module")
def mypy(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """A command; what it finds out about us, which takes the most time, it does once."""
    pytest.importorskip("mypy")
    return (sys.executable, "-m", "mypy", "--strict", f"--cache-dir={tmp_path_factory.mktemp('mypy')}")


@with_no_part_or_all
async def test_what_it_writes_is_typed(
    plugbay: Plugbay, tmp_path: Path, parts: tuple[str, ...], mypy: tuple[str, ...]
) -> None:
    await made(plugbay, tmp_path, *parts)
    code, out = await output(*mypy, "my_card_plugin.py", "test_my_card_plugin.py", cwd=tmp_path)
    assert code == 0, out


@with_no_part_or_all
async def test_config_and_resource(plugbay: Plugbay, tmp_path: Path, parts: tuple[str, ...]) -> None:
    await made(plugbay, tmp_path, "--resource", "vendor.example/card", *parts)
    [(_, entry)] = parse_configs((tmp_path / "plugins.yaml").read_text(), source="plugins.yaml").entries()
    assert entry.target == "my_card_plugin.py:MyCardDevices"
    done = await plugbay("serve", "--dry-run", "--config", str(tmp_path / "plugins.yaml"))
    assert done.rows == [["vendor.example/card", "my_card_plugin.py:MyCardDevices"]]
    for name in FILES:
        text = (tmp_path / name).read_text()
        assert "$" not in text, "a word of the template is left"
        assert not [line for line in text.splitlines() if line.startswith("%")], "a mark of the template is left"


@with_any_parts
async def test_readme_begins_with_a_runtime_that_takes_its_devices(
    plugbay: Plugbay, tmp_path: Path, parts: tuple[str, ...]
) -> None:
    """The process runtime injects nothing by name, and engines take no link for a device of CDI."""
    await made(plugbay, tmp_path, *parts)
    lines = (tmp_path / "README.md").read_text().splitlines()
    by_name = "--cdi" in parts
    assert [line for line in lines if line.startswith("plugbay node up")] == [
        "plugbay node up --runtime oci -d" if by_name else "plugbay node up -d"
    ]
    [made_device] = [line for line in lines if line.endswith("/dev/my-card/one") or "/dev/my-card/one " in line]
    assert ("mknod" in made_device, "ln -s" in made_device) == (by_name, not by_name)


@with_any_parts
async def test_manifest_is_what_is_printed_for_the_plugin(
    plugbay: Plugbay, tmp_path: Path, parts: tuple[str, ...]
) -> None:
    """And the pod reaches nothing of its node but what it needs."""
    await made(plugbay, tmp_path, *parts)
    text = (tmp_path / "daemonset.yaml").read_text()
    config, daemon_set = yaml.safe_load_all(text)
    assert sorted(config["data"]) == ["my_card_plugin.py", "plugins.yaml"]
    assert {name: (tmp_path / name).read_text() for name in config["data"]} == config["data"]
    [container] = daemon_set["spec"]["template"]["spec"]["containers"]
    mounts = {each.pop("mountPath"): each for each in container["volumeMounts"] if each.pop("name")}
    wanted: dict[str, dict[str, object]] = {DEVICE_PLUGINS: {}, "/dev": READ_ONLY, "/plugin": READ_ONLY}
    if "--release" in parts:
        wanted["/var/lib/kubelet/pod-resources"] = wanted["/sys/fs/cgroup"] = READ_ONLY
    if "--cdi" in parts:
        wanted["/var/run/cdi"] = {}
    assert {
        path: {key: value for key, value in mount.items() if key != "name"} for path, mount in mounts.items()
    } == wanted
    image = f"--image={container['image']}"
    told = ("-m", "plugbay", "manifest", "--config=plugins.yaml", "--name=my-card-plugin", image)
    assert await output(sys.executable, *told, cwd=tmp_path) == (0, text)


async def test_operators_are_told_the_same_mounts(plugbay: Plugbay, tmp_path: Path) -> None:
    await made(plugbay, tmp_path, "--release")
    _, manifest = yaml.safe_load_all((tmp_path / "daemonset.yaml").read_text())
    [container] = manifest["spec"]["template"]["spec"]["containers"]
    page = (Path(__file__).parents[3] / "docs" / "operator.md").read_text()
    told = yaml.safe_load("volumeMounts:" + page.partition("```yaml\nvolumeMounts:")[2].partition("```")[0])
    of_node = [each for each in container["volumeMounts"] if each["name"] not in ("dev", "files")]
    assert told["volumeMounts"] == of_node


async def test_command_of_the_manifest_is_one_that_we_take(plugbay: Plugbay, tmp_path: Path) -> None:
    await made(plugbay, tmp_path)
    _, manifest = yaml.safe_load_all((tmp_path / "daemonset.yaml").read_text())
    [container] = manifest["spec"]["template"]["spec"]["containers"]
    program, *argv = container["command"]
    assert program == "plugbay"
    argv = [each.replace("/plugin/", f"{tmp_path}/") for each in argv]
    assert (await plugbay(*argv, "--dry-run")).code == 0


@pytest.mark.parametrize("name", ["Card", "1card", "card_1", "card-", "", "a/b", "..", "x" * 41])
async def test_bad_name_is_one_sentence(plugbay: Plugbay, tmp_path: Path, name: str) -> None:
    done = await plugbay("new", "--directory", str(tmp_path / "new"), "--", name)
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        f"plugbay: error: {name!r} cannot name a plugin: 1 to 40 lower-case letters, digits and - are wanted, a letter "
        "first, such as gopher\n"
    )
    assert not (tmp_path / "new").exists()


async def test_resource_that_is_no_kind_of_cdi_is_refused(plugbay: Plugbay, tmp_path: Path) -> None:
    done = await plugbay("new", "card", "--directory", str(tmp_path / "new"), "--resource", "a.example/9card", "--cdi")
    assert (done.code, done.out) == (2, "")
    assert 'invalid CDI kind "a.example/9card"' in done.err
    assert not (tmp_path / "new").exists()


async def test_bad_resource_is_refused(plugbay: Plugbay, tmp_path: Path) -> None:
    done = await plugbay("new", "card", "--directory", str(tmp_path / "new"), "--resource", "card")
    assert done.code == 2
    assert 'the ResourceName "card" is invalid' in done.err
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("there", FILES)
async def test_existing_files_are_never_touched(plugbay: Plugbay, tmp_path: Path, there: str) -> None:
    (tmp_path / there).write_text("mine")
    done = await plugbay("new", "my-card", "--directory", str(tmp_path))
    assert (done.code, done.out) == (1, "")
    assert done.err == f"plugbay: error: {tmp_path / there}: exists already; nothing was written\n"
    assert [path.name for path in tmp_path.iterdir()] == [there]
    assert (tmp_path / there).read_text() == "mine"


async def test_a_file_is_no_directory_to_write_into(plugbay: Plugbay, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = await plugbay("new", "my-card", "--directory", str(tmp_path / "file"))
    assert done == (1, "", f"plugbay: error: {tmp_path / 'file'}: is not a directory; nothing was written\n")
