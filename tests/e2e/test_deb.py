"""The Debian package on a copy of this machine: built, installed, its unit run as systemd confines it, and removed."""

from __future__ import annotations

import asyncio
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from plugbay.kubelet.paths import KubeletPaths
from plugbay.testing.fakes.kubelet import fake_kubelet
from tests.contract.sdk.test_service_manager import Listener
from tests.e2e.overlay import OverlaidMachine, overlaid_machine, why_not

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        platform.freedesktop_os_release().get("VERSION_CODENAME") not in ("bookworm", "trixie"),
        reason="no package is made for this machine's distribution",
    ),
]

REPOSITORY: Final = Path(__file__).parents[2]
VERSION: Final = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
CONFIG: Final = "/etc/plugbay/plugins.yaml"
CONFFILES: Final = {CONFIG, "/etc/default/plugbay"}
EDITED: Final = (
    "plugins:\n- target: directory\n  settings: {resource: example.com/gopher, path: /etc/gophers, env: G}\n"
)
COMPLETIONS: Final = {
    "bash": "/usr/share/bash-completion/completions/plugbay",
    "zsh": "/usr/share/zsh/vendor-completions/_plugbay",
    "fish": "/usr/share/fish/vendor_completions.d/plugbay.fish",
}
MOST_EXPOSED: Final = 2.5
DEADLINE_S: Final = 60


def build(to: Path, wheels: Path, **environ: str) -> Path:
    quick = {"DPKG_DEB_COMPRESSOR_TYPE": "gzip", "DPKG_DEB_COMPRESSOR_LEVEL": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "tools.deb", "--out", str(to), "--wheels", str(wheels)],
        cwd=REPOSITORY,
        env={**os.environ, **quick, **environ},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return Path(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def deb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("deb")
    return build(base, base / "wheels")


@pytest.fixture
def machine(sockets: Path, tmp_path: Path) -> Iterator[OverlaidMachine]:
    if problem := why_not():
        pytest.skip(problem)
    (tmp_path / "machine").mkdir()
    with overlaid_machine(tmp_path / "machine", sockets) as opened:
        yield opened


def install(machine: OverlaidMachine, package: Path) -> None:
    to = f"{machine.root}/tmp/{package.name}"
    subprocess.run([*machine.namespace, "cp", str(package), to], check=True)
    machine.run("dpkg", "--install", "--force-confold", f"/tmp/{package.name}")


def files(machine: OverlaidMachine) -> set[str]:
    """The files that came with the package, or with its use; dpkg's and man's own notes, and users, left out."""
    of_others = re.compile(r"/var/(lib/dpkg|log|cache/man)/|/etc/(passwd|shadow|group|gshadow)-?$|/etc/\.pwd\.lock$")
    return {path for path in machine.changed() if not of_others.match(path)}


def listed(machine: OverlaidMachine) -> set[str]:
    """The files of the package, as dpkg knows them."""
    return set(machine.run("dpkg", "--listfiles", "plugbay").splitlines()) & files(machine)


def without_compiled(paths: set[str]) -> set[str]:
    return {path for path in paths if "/__pycache__/" not in path}


def test_the_same_sources_give_the_same_bytes(deb: Path, tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        again = build(tmp_path, deb.parent / "wheels", TZ="Asia/Tokyo", PYTHONHASHSEED="7", LC_ALL="C")
    finally:
        os.umask(before)
    assert again.name == deb.name
    assert again.read_bytes() == deb.read_bytes()


async def test_the_unit_serves_a_kubelet_confined_as_it_says(
    deb: Path, machine: OverlaidMachine, sockets: Path, tmp_path: Path
) -> None:
    await asyncio.to_thread(install, machine, deb)
    run = machine.run
    assert run("plugbay", "version") == f"plugbay {VERSION}\n"
    units = "/usr/lib/systemd/system"
    for unit in ("plugbay.service", "plugbay@.service"):
        verdict = json.loads(run("systemd-analyze", "security", "--offline=true", "--json=short", f"{units}/{unit}"))
        assert exposure(run("systemd-analyze", "security", "--offline=true", f"{units}/{unit}")) < MOST_EXPOSED, verdict
    assert run("systemd-analyze", "verify", "plugbay.service", "plugbay@cameras.service", "plugbay-node.service") == ""
    for shell, completion in COMPLETIONS.items():
        assert completion in listed(machine)
        assert "plugbay" in run("cat", completion)
        if shutil.which(shell):
            run(shell, "-n", completion)

    run("mkdir", "/etc/gophers")
    machine.put("/etc/gophers/g1", "")
    machine.put(CONFIG, EDITED)
    settings = read_unit(run("cat", f"{units}/plugbay.service"))
    assert settings["CapabilityBoundingSet"] == [""]
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    listener = Listener(str(sockets / "notify"))
    (bundle / "config.json").write_text(json.dumps(confined(machine, settings, allowed(machine, settings))))
    run("mkdir", "-p", *(words[-1] for words in map(str.split, settings["ExecStartPre"])))
    async with fake_kubelet(KubeletPaths(sockets)) as kubelet:
        serving = await asyncio.create_subprocess_exec(
            *(*machine.namespace, "runc", "--root", str(tmp_path / "runc")),
            *("run", "--bundle", str(bundle), f"plugbay-deb-{os.getpid()}"),
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            plugin = await kubelet.next_registration()
            assert plugin.registration.resource_name == "example.com/gopher"
            await plugin.until_devices("g1")
            await listener.until("READY=1")
        finally:
            if serving.returncode is None:
                serving.terminate()
            _, log = await asyncio.wait_for(serving.communicate(), DEADLINE_S)
            listener.close()
            sys.stderr.write(log.decode())
    assert (serving.returncode, b"Traceback" in log) == (0, False)
    run("dpkg", "--purge", "plugbay")
    assert files(machine) == {"/etc/gophers/g1"}
    for gone in ("/etc/plugbay", "/usr/lib/plugbay"):
        run("test", "-e", gone, fails=True)


def exposure(page: str) -> float:
    found = re.search(r"Overall exposure level for \S+: ([0-9.]+)", page)
    assert found, page
    return float(found[1])


def read_unit(text: str) -> dict[str, list[str]]:
    """The settings of a unit, each with its values in order."""
    settings: dict[str, list[str]] = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            settings.setdefault(name, []).append(value)
    return settings


def allowed(machine: OverlaidMachine, settings: dict[str, list[str]]) -> list[str]:
    """The system calls that the unit's filters let pass."""
    calls: set[str] = set()
    for words in settings["SystemCallFilter"]:
        of_filter = {call for word in words.lstrip("~").split() for call in calls_of(machine, word)}
        calls = calls - of_filter if words.startswith("~") else calls | of_filter
    return sorted(calls)


def calls_of(machine: OverlaidMachine, group: str) -> set[str]:
    lines = machine.run("systemd-analyze", "syscall-filter", group).splitlines()[1:]
    words = {line.strip() for line in lines if line.strip() and not line.strip().startswith("#")}
    below = [calls_of(machine, word) for word in words if word.startswith("@")]
    return {word for word in words if not word.startswith("@")}.union(*below)


def confined(machine: OverlaidMachine, settings: dict[str, list[str]], calls: list[str]) -> dict[str, Any]:
    """An OCI spec of what systemd does with the unit: files for reading, no capabilities, few system calls."""
    (start,) = settings["ExecStart"]
    words = [word for word in shlex.split(start) if word != "$PLUGBAY_SERVE_OPTIONS"]
    places = [place.lstrip("-") for line in settings["ReadWritePaths"] for place in line.split()]
    assert settings["ProtectSystem"] == ["strict"]
    writable = [
        {"destination": place, "type": "none", "source": f"{machine.root}{place}", "options": ["rbind", "rw"]}
        for place in places
        if place != "/var/lib/kubelet/plugins_registry"  # which this kubelet does not have
    ]
    notify = f"{machine.root}/var/lib/kubelet/notify"
    return {
        "ociVersion": "1.0.2",
        "root": {"path": str(machine.root), "readonly": True},
        "process": {
            "user": {"uid": 0, "gid": 0, "umask": int(settings["UMask"][0], 8)},
            "args": words,
            "cwd": "/",
            "env": ["PATH=/usr/bin:/bin", "NOTIFY_SOCKET=/var/lib/kubelet/notify"],
            "noNewPrivileges": settings["NoNewPrivileges"] == ["yes"],
            "capabilities": {each: [] for each in ("bounding", "effective", "permitted", "inheritable", "ambient")},
        },
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"},
            {"destination": "/root", "type": "tmpfs", "source": "tmpfs", "options": ["ro", "mode=000"]},
            *writable,
            {"destination": "/var/lib/kubelet/notify", "type": "none", "source": notify, "options": ["bind", "rw"]},
        ],
        "linux": {
            "namespaces": [{"type": "mount"}, {"type": "pid"}, {"type": "ipc"}],
            "resources": {"devices": [{"allow": False, "access": "rwm"}]},
            "seccomp": {
                "defaultAction": "SCMP_ACT_ERRNO",
                "syscalls": [{"names": calls, "action": "SCMP_ACT_ALLOW"}],
            },
        },
    }


def test_upgraded_downgraded_removed_and_purged(deb: Path, machine: OverlaidMachine, tmp_path: Path) -> None:
    earlier = repacked(deb, tmp_path / "earlier", "0.0.9-1")
    install(machine, earlier)
    first = files(machine)
    assert without_compiled(first) == listed(machine)  # nothing but what dpkg knows of
    assert [path for path in first if path.endswith("/of_before.py")]
    machine.put(CONFIG, EDITED)
    machine.put("/etc/plugbay/cameras.yaml", "plugins: []\n")

    install(machine, deb)
    assert machine.run("cat", CONFIG) == EDITED
    assert without_compiled(files(machine)) == listed(machine) | {"/etc/plugbay/cameras.yaml"}
    assert not [path for path in files(machine) if "of_before" in path]
    assert machine.run("plugbay", "--version") == f"plugbay {VERSION}\n"

    install(machine, earlier)
    assert files(machine) == first | {"/etc/plugbay/cameras.yaml"}
    assert machine.run("plugbay", "serve", "--dry-run", "--config", CONFIG).startswith("RESOURCE")

    machine.run("dpkg", "--remove", "plugbay")
    assert files(machine) == CONFFILES | {"/etc/plugbay/cameras.yaml"}
    machine.run("dpkg", "--purge", "plugbay")
    assert files(machine) == {"/etc/plugbay/cameras.yaml"}


def repacked(deb: Path, tree: Path, version: str) -> Path:
    """The package as if it were of another version, with a module that the present one does not have."""
    subprocess.run(["dpkg-deb", "--raw-extract", str(deb), str(tree)], check=True)
    control = tree / "DEBIAN/control"
    control.write_text(re.sub("^Version: .*$", f"Version: {version}", control.read_text(), flags=re.MULTILINE))
    (source,) = tree.glob("usr/lib/plugbay/lib/python3.*/site-packages/plugbay")
    (source / "of_before.py").write_text('"""A module of an earlier version."""\n')
    made = tree.with_suffix(".deb")
    subprocess.run(["dpkg-deb", "-Zgzip", "-z1", "--build", str(tree), str(made)], check=True, capture_output=True)
    return made
