"""``plugbay manifest``: the command in the pod, the files that go along, and errors that print nothing to apply."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from plugbay.cli.main import make_parser, run

IMAGE = ("--image", "registry.example.com/plugbay:1")
CARDS = """
from plugbay import Device, plugin
@plugin("x.example/card")
def cards():
    return [Device("a")]
"""
KUBELET = "/var/lib/kubelet/device-plugins"
Manifest = Callable[..., list[Any]]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", ["", *sys.path])
    return tmp_path


@pytest.fixture
def manifest(capsys: pytest.CaptureFixture[str]) -> Manifest:
    def printed(*argv: str) -> list[Any]:
        assert run(["manifest", *argv, *IMAGE]) == 0
        first = capsys.readouterr().out
        assert run(["manifest", *argv, *IMAGE]) == 0
        assert capsys.readouterr().out == first, "the same for the same targets"
        return list(yaml.safe_load_all(first))

    return printed


def words(objects: list[Any]) -> list[str]:
    [container] = objects[-1]["spec"]["template"]["spec"]["containers"]
    command: list[str] = container["command"]
    make_parser().parse_args(command[1:])  # which the pod's program does
    return command[2:-2]


def test_options_of_a_ready_made_target(here: Path, manifest: Manifest) -> None:
    made = manifest("directory", "--resource", "x.example/gopher", "--path", "gophers", "--env=GOPHER", "--name=g")
    [daemon_set] = made
    assert daemon_set["metadata"]["name"] == "g"
    assert words(made) == ["directory", "--resource=x.example/gopher", f"--path={here}/gophers", "--env=GOPHER"]
    made = manifest("nvidia", "--mig-strategy", "mixed", "--pass-device-specs", "--namespace=gpu")
    assert words(made) == ["nvidia", "--mig-strategy=mixed", "--pass-device-specs=true"]
    assert made[0]["metadata"]["namespace"] == "gpu"


def test_nvidia_needs_no_driver_where_the_manifest_is_made(manifest: Manifest) -> None:
    [made] = manifest("nvidia", "--device-list-strategy=cdi-cri")
    mounted = made["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]
    assert sorted(each["mountPath"] for each in mounted) == [
        "/driver-root",
        "/var/lib/kubelet/device-plugins",
        "/var/run/cdi",
    ]


def test_configuration_files_of_nvidia_go_along(here: Path, manifest: Manifest) -> None:
    (here / "configs").mkdir()
    (here / "configs" / "mig").write_text("flags: {migStrategy: mixed}\n")
    (here / "configs" / "plain").write_text("version: v1\n")
    one = manifest("nvidia", "--config-file=configs/mig", "--device-id-strategy=index")
    assert one[0]["data"] == {"mig": "flags: {migStrategy: mixed}\n"}
    assert words(one) == ["nvidia", "--device-id-strategy=index", "--config-file=/plugin/mig"]
    several = manifest("nvidia", "--config-file-srcdir=configs", "--default-config=plain")
    assert list(several[-2]["data"]) == ["mig", "plain"]
    assert words(several) == ["nvidia", "--config-file-srcdir=/plugin", "--default-config=plain"]


def test_rules_of_the_generic_plugin_go_along_with_the_rights_that_they_need(here: Path, manifest: Manifest) -> None:
    (here / "devices.yaml").write_text(
        "domain: x.example\ndevices:\n- {name: fuse, paths: [/dev/fuse], cdi: x.example/fuse}\n"
    )
    config, daemon_set = manifest("generic", "--config", "devices.yaml")
    assert list(config["data"]) == ["devices.yaml"]
    [container] = daemon_set["spec"]["template"]["spec"]["containers"]
    assert words([daemon_set]) == ["generic", "--config=/plugin/devices.yaml"]
    is_read_only = {each["mountPath"]: each.get("readOnly", False) for each in container["volumeMounts"]}
    assert (is_read_only["/dev"], is_read_only["/var/run/cdi"]) == (True, False)
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def mounts(objects: list[Any]) -> dict[str, str]:
    """The directories of the host by their places in the container."""
    pod = objects[-1]["spec"]["template"]["spec"]
    paths = {each["name"]: each["hostPath"]["path"] for each in pod["volumes"] if "hostPath" in each}
    return {
        each["mountPath"]: paths[each["name"]] for each in pod["containers"][0]["volumeMounts"] if each["name"] in paths
    }


def test_generic_plugin_sees_the_files_of_the_machine_elsewhere_where_the_container_has_its_own(
    here: Path, manifest: Manifest
) -> None:
    (here / "c.yaml").write_text(HIDING)
    made = manifest("generic", "--config", "c.yaml")
    assert words(made) == ["generic", "--config=/plugin/c.yaml", "--machine-root=/host"]
    wanted = {f"/host{each}": each for each in ("/dev", "/sys", "/usr/lib")}
    assert mounts(made) == wanted | {KUBELET: KUBELET}
    (here / "c.yaml").write_text(f"{HIDING}  health: {{exec: [/plugins/probe]}}\n  cdi: x.example/mali\n")
    made = manifest("generic", "--config", "c.yaml")
    assert mounts(made) == wanted | {KUBELET: KUBELET, "/dev": "/dev", "/var/run/cdi": "/var/run/cdi"}, "commands"
    (here / "c.yaml").write_text(DEVICES)
    made = manifest("generic", "--config", "c.yaml", "--machine-root=/machine")
    assert mounts(made) == {KUBELET: KUBELET, "/machine/dev": "/dev", "/machine/sys": "/sys"}
    (here / "d.yaml").write_text(HIDING)
    (here / "t.yaml").write_text(setting("{config: d.yaml, machine-root: /m}"))
    assert mounts(manifest("--config=t.yaml"))["/m/usr/lib"] == "/usr/lib"


def test_file_that_the_generic_plugin_finds_by_itself_goes_along(here: Path, manifest: Manifest) -> None:
    (here / "config.yaml").write_text(DEVICES)
    made = manifest("generic")
    assert (words(made), made[0]["data"]) == (["generic", "--config=/plugin/config.yaml"], {"config.yaml": DEVICES})


def test_files_of_ready_made_targets_in_a_config_file_go_along(here: Path, manifest: Manifest) -> None:
    files = {
        "targets.yaml": "plugins:\n"
        "- {target: generic, settings: {config: devices.yaml}}\n"
        "- {target: nvidia, settings: {config-file: mig.yaml, device-list-strategy: cdi-cri}}\n",
        "devices.yaml": "domain: x.example\ndevices:\n- {name: fuse, paths: [/dev/fuse]}\n",
        "mig.yaml": "flags: {migStrategy: mixed}\n",
    }
    (here / "beside").mkdir()
    for name, text in files.items():
        (here / "beside" / name).write_text(text)
    config, daemon_set = manifest("--config", "beside/targets.yaml")
    assert config["data"] == {name.replace("targets", "plugins"): text for name, text in files.items()}
    [container] = daemon_set["spec"]["template"]["spec"]["containers"]
    assert "NVIDIA_MIG_MONITOR_DEVICES" in [each["name"] for each in container["env"]], "the file says so"
    assert {"/dev", "/driver-root"} <= {each["mountPath"] for each in container["volumeMounts"]}


def test_files_of_all_nodes_go_along(here: Path, manifest: Manifest) -> None:
    (here / "cards.py").write_text(CARDS)
    (here / "others.py").write_text(CARDS.replace("card", "other"))
    (here / "plugins.yaml").write_text(
        "plugins: [{target: cards.py}]\n"
        "configs: [{name: a, nodeNames: [x-*], plugins: [{target: others.py}, {target: cards.py}]}]\n"
    )
    objects = manifest("--config=plugins.yaml")
    assert set(objects[0]["data"]) == {"plugins.yaml", "cards.py", "others.py"}


def test_code_goes_along(here: Path, manifest: Manifest) -> None:
    (here / "cards.py").write_text(f"import manifest_parts\n{CARDS}")
    (here / "manifest_parts.py").write_text("# parts\n")
    made = manifest("cards.py:cards")
    assert words(made) == ["/plugin/cards.py:cards"]
    assert made[0]["data"] == {name: (here / name).read_text() for name in ("cards.py", "manifest_parts.py")}


def test_config_file_goes_along(here: Path, manifest: Manifest) -> None:
    (here / "more.py").write_text(CARDS)
    config = "plugins:\n- target: more.py\n- {target: directory, settings: {resource: a.b/c, path: /etc/c, env: C}}\n"
    (here / "c.yml").write_text(config)
    made = manifest("--config", "c.yml", "--node-selector=a.b/c=d,e=", "--node-selector", "f=g")
    assert words(made) == ["--config=/plugin/plugins.yaml"]
    assert made[0]["data"] == {"plugins.yaml": config, "more.py": CARDS}
    assert made[1]["spec"]["template"]["spec"]["nodeSelector"] == {"a.b/c": "d", "e": "", "f": "g"}


def write_config(target: str) -> str:
    return f"plugins: [{{target: {target}}}]\n"


def setting(settings: str, *, target: str = "generic") -> str:
    return f"plugins: [{{target: {target}, settings: {settings}}}]\n"


DEVICES = "domain: x.example\ndevices:\n- {name: fuse, paths: [/dev/fuse]}\n"
HIDING = """domain: x.example
devices:
- name: mali
  paths: [/dev/mali0, {path: /usr/lib/libmali.so, type: Mount}]
"""
GOPHERS = ("directory", "--resource=x.example/gopher", "--path=/etc/gophers", "--env=GOPHER")


@pytest.mark.parametrize(
    ("files", "argv", "problem"),
    [
        ({}, ("none.py",), "none.py: no such file"),
        ({"broken.py": "import not_there_at_all"}, ("broken.py",), "No module named 'not_there_at_all'"),
        ({"empty.py": "print('said')"}, ("empty.py",), "it defines no plugin"),
        ({}, (*GOPHERS, f"--name={'x' * 64}"), "and not 64"),
        ({}, (*GOPHERS, "--namespace=Kube"), "--namespace Kube: a namespace has 1 to 63"),
        ({}, ("directory", f"--resource=x.example/{'x' * 60}", "--path=/g", "--env=G"), "give a --name"),
        ({}, (*GOPHERS, "--node-selector=a"), "'a' is not a label such as disk=ssd"),
        ({}, (*GOPHERS, "--node-selector=a=1,a=2"), "nothing has two values for a"),
        (
            {},
            ("directory", "--resource=x.example/gopher", "--path=/plugin", "--env=G"),
            "/plugin holds the plugin's files",
        ),
        ({"c.yaml": "version: v2\n"}, ("nvidia", "--config-file=c.yaml"), "unknown version: v2"),
        ({}, ("nvidia", "--config-file=c.yaml"), "no such file"),
        ({}, ("nvidia", "--kubelet-socket=/k/device-plugins/kubelet.sock"), "--kubelet-socket: the manifest is for"),
        ({"d/x.py": CARDS, "c.yaml": write_config("d/x.py")}, ("--config=c.yaml",), "a ConfigMap has no directories"),
        (
            {"c.yaml": "plugins: [{target: directory, settings: {resource: a.b/c, path: c, env: C}}]\n"},
            ("--config=c.yaml",),
            "/plugin/c (a.b/c watches /plugin/c) cannot be mounted",
        ),
        (
            {"d/same.py": CARDS, "e/same.py": CARDS.replace("card", "other")},
            ("d/same.py", "e/same.py"),
            "have the same name in the ConfigMap",
        ),
        ({"one.py": CARDS}, ("one.py", "one.py:cards"), "two plugins serve x.example/card; a kubelet takes only one"),
        (
            {"one.py": CARDS, "two.py": CARDS, "c.yaml": write_config("two.py")},
            ("one.py", "--config=c.yaml"),
            "two plugins serve x.example/card; a kubelet takes only one",
        ),
        (
            {"config.yaml": DEVICES, "c.yaml": setting("{}")},
            ("--config=c.yaml",),
            "plugins[0]: `generic` needs --config FILE, --device ENTRY or --preset NAME",
        ),
        ({}, ("nvidia", "--machine-root=/host"), "--machine-root: the pods have the machine's files at /"),
        (
            {"c.yaml": setting("{config: d.yaml}"), "d.yaml": HIDING},
            ("--config=c.yaml",),
            "x.example/mali looks whether /usr/lib/libmali.so exists, and with /usr/lib of the host the container "
            "would not see its own: have the machine's files elsewhere, by --machine-root=/host or the setting "
            "machine-root: /host",
        ),
        ({"c.yaml": setting("{preset: [fuse], machine-root: host}")}, ("--config=c.yaml",), "unknown field"),
        (
            {"c.yaml": setting("{presets: [fuse], machine-root: host}")},
            ("--config=c.yaml",),
            "machine-root host: a path from the root is wanted",
        ),
        (
            {},
            ("directory", "--resource=x.example/gopher", "--path=/usr/lib", "--env=G"),
            "/usr/lib (x.example/gopher watches /usr/lib) cannot be mounted: it hides what the container itself",
        ),
        ({"c.yaml": setting("{config: d.yaml}")}, ("--config=c.yaml",), "d.yaml: cannot be read: No such file"),
        (
            {"d/d.yaml": DEVICES, "c.yaml": setting("{config: d/d.yaml}")},
            ("--config=c.yaml",),
            "settings.config d/d.yaml: the pod has only files beside the config file; put it there",
        ),
        (
            {"d/d.yaml": "version: v1\n", "c.yaml": setting("{config-file-srcdir: d}", target="nvidia")},
            ("--config=c.yaml",),
            "settings.config-file-srcdir d: a ConfigMap has no directories",
        ),
        ({"a b.py": CARDS}, ("a b.py",), "has a name of letters, digits, -, _ and ., no .. first"),
        (
            {"pack.py": f"import manifest_package\n{CARDS}", "manifest_package/__init__.py": ""},
            ("pack.py",),
            "the plugin imports the package manifest_package from here, which a ConfigMap cannot hold",
        ),
    ],
)
def test_nothing_is_printed_that_could_be_applied(
    here: Path, capsys: pytest.CaptureFixture[str], files: dict[str, str], argv: tuple[str, ...], problem: str
) -> None:
    for name, text in files.items():
        (here / name).parent.mkdir(exist_ok=True)
        (here / name).write_text(text)
    assert run(["manifest", *argv, *IMAGE]) != 0
    out, err = capsys.readouterr()
    assert out == ""
    assert problem in err
    assert len(err.removeprefix("said\n").splitlines()) == 1


def test_image_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run(["manifest", *GOPHERS])
    out, err = capsys.readouterr()
    assert (out, "--image" in err) == ("", True)
    assert run(["--root", "/x", "manifest", *GOPHERS, *IMAGE]) != 0
    assert "--root: the manifest is for the kubelet at /var/lib/kubelet" in capsys.readouterr().err
