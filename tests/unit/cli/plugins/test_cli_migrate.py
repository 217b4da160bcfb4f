"""``plugbay migrate``: what becomes of other plugins' settings, each with its line, and the manifest of that."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from plugbay.cli.main import run
from plugbay.documents.texts import read_documents
from plugbay.plugins.generic.config.reading import read_config
from plugbay.plugins.generic.config.rules import Usb
from plugbay.plugins.generic.selecting.selection import RuleSelection
from plugbay.plugins.generic.selecting.tree import FileKind
from plugbay.sdk.deploying.migrating.settings import ForeignSettings
from plugbay.sdk.deploying.migrating.squat import migrate_squat
from tests.unit.cli.plugins.migrating import IMAGE, command, migrated
from tests.unit.plugins.generic.selecting.machines import Bench
from tests.unit.plugins.generic.selecting.trees import TreeOfData

GOLDEN = Path(__file__).parents[3] / "golden" / "migrate"
SAMPLES = sorted(each.stem for each in GOLDEN.glob("*.yaml"))


@pytest.mark.parametrize("sample", SAMPLES)
def test_every_setting_of_a_sample_is_told_with_its_line(
    sample: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Update the golden files after a review by ``plugbay migrate FILE ... | grep '^# FILE' > FILE.notes``."""
    monkeypatch.chdir(GOLDEN)
    notes, _, err = migrated(capsys, f"{sample}.yaml")
    assert [each for each in notes if ".yaml:" in each] == Path(f"{sample}.notes").read_text().splitlines()
    assert err.splitlines() == [each for each in notes if "NOT TAKEN OVER" in each]


def test_entries_of_squat_are_those_of_the_generic_plugin(capsys: pytest.CaptureFixture[str]) -> None:
    _, [files, daemon_set], _ = migrated(capsys, str(GOLDEN / "squat-daemonset.yaml"))
    text = files["data"]["devices.yaml"]
    assert yaml.safe_load(text) == {
        "domain": "squat.ai",
        "compat": ["sharedPaths", "usbBundles"],
        "devices": [
            {
                "name": "serial",
                "groups": [
                    {"paths": [{"path": "/dev/ttyUSB*", "mountPath": "/dev/serial/"}]},
                    {"paths": [{"path": "/dev/ttyACM*"}]},
                    {"usb": [{"vendor": "0x10c4", "product": "0xea60"}]},
                ],
            },
            {"name": "fuse", "groups": [{"paths": [{"path": "/dev/fuse"}], "count": 10}]},
        ],
    }
    [serial, fuse] = read_config(text, source="devices.yaml").entries
    assert isinstance(serial.groups[2].what, Usb)
    assert (serial.domain, serial.groups[2].what.rules[0].vendor, fuse.groups[0].count) == ("squat.ai", 0x10C4, 10)
    pod = daemon_set["spec"]["template"]["spec"]
    assert command([daemon_set]) == ["generic", "--config=/plugin/devices.yaml"]
    assert "/dev" in [each["mountPath"] for each in pod["containers"][0]["volumeMounts"]]
    assert pod["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert [each["effect"] for each in pod["tolerations"]] == ["NoExecute", "NoSchedule"]


DEV = TreeOfData({"/dev/ttyUSB0": FileKind.CHARACTER, "/dev/serial/by-id/stick": "../../ttyUSB0"})


def selected(files: Any, bench: Bench) -> dict[str, list[tuple[str, ...]]]:
    """The nodes of the units of each resource of a ConfigMap, on a machine that has the files of `DEV` as well."""
    config = read_config(files["data"]["devices.yaml"], source="devices.yaml")
    units = RuleSelection(config, bench.machine(), DEV).look().units
    return {name: [tuple(node.host_path for node in unit.nodes) for unit in those] for name, those in units.items()}


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("paths: [{path: /dev/ttyUSB0}]", "paths: [{path: /dev/ttyUSB0}]"),
        ("paths: [{path: '/dev/ttyUSB*'}]", "paths: [{path: /dev/ttyUSB0}]"),
        ("paths: [{path: '/dev/serial/by-id/*'}]", "paths: [{path: /dev/ttyUSB0}]"),
        ("usb: [{vendor: '10c4', product: ea60}]", "usb: [{vendor: '10c4', product: ea60}]"),
    ],
)
def test_entries_of_squat_with_the_same_file_both_have_it(
    one: str, two: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "c.yaml").write_text(
        f"devices: [{{name: one, groups: [{{{one}}}]}}, {{name: two, groups: [{{{two}}}]}}]\n"
    )
    _, [files, _], _ = migrated(capsys, str(tmp_path / "c.yaml"), "--domain", "a.b")
    bench = Bench(tmp_path / "machine")
    bench.stick(1, "ttyUSB0", serial="A1")
    found = selected(files, bench)
    assert [len(found[name]) for name in ("a.b/one", "a.b/two")] == [1, 1]


def test_all_matches_of_usb_rules_are_one_device_as_with_squat(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "c.yaml").write_text(
        "devices: [{name: stick, groups: [{usb: [{vendor: '10c4', product: ea60}], count: 2}]}]\n"
    )
    notes, [files, _], _ = migrated(capsys, str(tmp_path / "c.yaml"), "--domain", "a.b")
    bench = Bench(tmp_path / "machine")
    for port in (1, 2):
        bench.stick(port, f"ttyUSB{port}")
    assert selected(files, bench) == {"a.b/stick": [("/dev/bus/usb/001/002", "/dev/bus/usb/001/003")] * 2}
    assert "groups[0].usb: taken over: all matches are one device, by compat: [usbBundles]" in "\n".join(notes)


def test_file_in_a_directory_that_the_container_needs_itself(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    paths = "[{path: /dev/mali0}, {path: /usr/lib/libmali.so, type: Mount}]"
    (tmp_path / "c.yaml").write_text(f"devices: [{{name: mali, groups: [{{paths: {paths}}}]}}]\n")
    _, objects, _ = migrated(capsys, str(tmp_path / "c.yaml"), "--domain", "a.b")
    assert command(objects) == ["generic", "--config=/plugin/devices.yaml", "--machine-root=/host"]
    mounted = objects[-1]["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]
    assert "/host/usr/lib" in [each["mountPath"] for each in mounted]


def test_values_of_the_chart_become_flags_files_and_a_place(capsys: pytest.CaptureFixture[str]) -> None:
    _, objects, _ = migrated(capsys, str(GOLDEN / "nvidia-values.yaml"))
    files = next(each for each in objects if each["kind"] == "ConfigMap")
    assert list(files["data"]) == ["default", "shared"]
    [daemon_set] = [each for each in objects if each["kind"] == "DaemonSet"]
    assert set(command([daemon_set])) == {
        "nvidia",
        "--mig-strategy=mixed",
        "--fail-on-init-error=false",
        "--pass-device-specs=true",
        "--device-list-strategy=envvar,cdi-cri",
        "--driver-root=/run/nvidia/driver",
        "--config-file-srcdir=/plugin",
        "--default-config=default",
        "--fallback-strategies=named,single",
        "--mps-root=/run/mps",
    }
    pod = daemon_set["spec"]["template"]["spec"]
    assert (pod["runtimeClassName"], pod["nodeSelector"]) == ("nvidia", {"example.com/gpus": "true"})
    assert "tolerations" not in pod
    assert (
        len(pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]) == 3
    )


def test_a_rendered_chart_needs_no_sidecar(capsys: pytest.CaptureFixture[str]) -> None:
    _, objects, _ = migrated(capsys, str(GOLDEN / "nvidia-daemonset.yaml"))
    [daemon_set] = [each for each in objects if each["kind"] == "DaemonSet"]
    assert daemon_set["metadata"]["namespace"] == "gpu"
    assert set(command([daemon_set])) == {
        "nvidia",
        "--pass-device-specs=false",
        "--config-file-srcdir=/plugin",
        "--default-config=all",
        "--fallback-strategies=named,single",
    }
    [container] = daemon_set["spec"]["template"]["spec"]["containers"]
    assert {"name": "DP_DISABLE_HEALTHCHECKS", "value": "31"} in container["env"]


@pytest.mark.parametrize("sample", ["nvidia-daemonset", "squat-daemonset"])
def test_a_variable_whose_name_is_no_text_is_told(
    sample: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    documents = list(yaml.safe_load_all((GOLDEN / f"{sample}.yaml").read_text()))
    pod = next(each["spec"]["template"]["spec"] for each in documents if each["kind"] == "DaemonSet")
    for container in (*pod.get("initContainers", []), *pod["containers"]):
        container.setdefault("env", []).append({"name": {"a": ["b"]}, "value": "c"})
    (tmp_path / "f.yaml").write_text(yaml.safe_dump_all(documents))
    notes, _, _ = migrated(capsys, str(tmp_path / "f.yaml"))
    assert [each for each in notes if ".env" in each and ": NOT TAKEN OVER: " in each]


def test_flags_alone_are_enough(capsys: pytest.CaptureFixture[str]) -> None:
    notes, objects, err = migrated(capsys, "--from", "nvidia", "--", "--mig-strategy", "mixed", "--no-such")
    assert command(objects) == ["nvidia", "--mig-strategy=mixed"]
    assert err == "flag: --no-such: NOT TAKEN OVER: the plugin has no such flag\n"
    device = "{name: fuse, groups: [{paths: [{path: /dev/fuse}]}]}"
    notes, objects, err = migrated(capsys, "--from", "squat", "--", "--device", device, "--domain=x.example")
    made = yaml.safe_load(objects[0]["data"]["devices.yaml"])
    assert (made["domain"], [each["name"] for each in made["devices"]]) == ("x.example", ["fuse"])
    assert "flag --device:1: groups[0].paths[0].path: /dev/fuse: taken over: the same" in notes
    assert not err


def test_a_list_that_is_given_twice_is_longer_and_a_word_that_is_given_twice_another_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lists = ("--device-list-strategy=envvar", "--device-list-strategy", "cdi-cri")
    _, objects, _ = migrated(capsys, "--from", "nvidia", "--", *lists, "--mig-strategy=none", "--mig-strategy=mixed")
    assert command(objects) == ["nvidia", "--device-list-strategy=envvar,cdi-cri", "--mig-strategy=mixed"]


def test_values_that_any_chart_may_have_are_nvidias_if_an_option_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "values").write_text("runtimeClassName: nvidia\nnodeSelector: {gpu: a}\nwhat: 1\n")
    _, objects, err = migrated(capsys, "--from", "nvidia", str(tmp_path / "values"))
    pod = objects[-1]["spec"]["template"]["spec"]
    assert (pod["runtimeClassName"], pod["nodeSelector"]) == ("nvidia", {"gpu": "a"})
    assert [each.split(": ")[1] for each in err.splitlines()] == ["what"]


@pytest.mark.parametrize("values", ["null\n", "{}\n", "", "# nothing\n"])
def test_values_that_are_none_are_the_defaults_of_the_chart(
    values: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``helm get values -o yaml`` prints ``null`` for a release without values of its user."""
    (tmp_path / "values").write_text(values)
    _, objects, err = migrated(capsys, "--from", "nvidia", str(tmp_path / "values"))
    pod = objects[-1]["spec"]["template"]["spec"]
    assert (command(objects), err) == (["nvidia"], "")
    assert [each["key"] for each in pod["tolerations"]] == ["CriticalAddonsOnly", "nvidia.com/gpu"]
    assert "affinity" in pod
    assert run(["migrate", str(tmp_path / "values"), *IMAGE]) != 0
    assert "say --from squat or --from nvidia" in capsys.readouterr().err


def test_empty_variables_are_what_they_are_to_nvidias_plugin(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    env = "[{name: FAIL_ON_INIT_ERROR, value: ''}, {name: GDS_ENABLED}, {name: IMEX_CHANNEL_IDS, value: ''}]"
    text = DAEMON_SET.replace("IMAGE", "r.example/k8s-device-plugin:1").replace("ARGS", "[]").replace("ENV", env)
    (tmp_path / "f").write_text(text)
    _, objects, err = migrated(capsys, str(tmp_path / "f"))
    assert (command(objects), err) == (["nvidia", "--fail-on-init-error=false", "--gds-enabled=false"], "")


def test_null_takes_a_default_of_the_chart_away_and_what_is_empty_needs_no_care(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "values").write_text(
        "migStrategy: none\naffinity: null\ntolerations: null\nnodeSelector: {}\nfullnameOverride: ''\n"
        "nfd: {nameOverride: x}\nimagePullSecrets: []\npodAnnotations: {}\n"
    )
    _, objects, err = migrated(capsys, str(tmp_path / "values"))
    pod = objects[-1]["spec"]["template"]["spec"]
    assert (err, "affinity" in pod, "tolerations" in pod) == ("", False, False)


@pytest.mark.parametrize(
    ("values", "is_left"),
    [
        ("nfd: {enabled: true}", True),
        ("gfd: {enabled: true}\nnfd: {nameOverride: x}", True),
        ("nfd: {enabled: false, master: {}}", False),
        ("gfd: {enabled: true}\nnfd: {enabled: false}", False),
    ],
)
def test_feature_discovery_counts_where_the_chart_would_install_it(
    values: str, *, is_left: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Source: chart nvidia-device-plugin 0.20, ``Chart.yaml``: the condition is ``nfd.enabled,gfd.enabled``."""
    (tmp_path / "values").write_text(f"migStrategy: none\n{values}\n")
    notes, _, err = migrated(capsys, str(tmp_path / "values"))
    [note] = [each for each in notes if ": nfd" in each]
    assert ("NOT TAKEN OVER" in note, note in err) == (is_left, is_left)


DAEMON_SET = """
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: devices, annotations: {meta.helm.sh/release-name: r, meta.helm.sh/release-namespace: n}}
spec:
  template:
    spec:
      hostNetwork: false
      containers:
      - name: devices
        image: IMAGE
        args: ARGS
        env: ENV
        envFrom: []
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: devices}
"""


def test_flag_of_squat_that_only_tells_its_version_needs_no_care(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = "[--version, --device, '{name: fuse, groups: [{paths: [{path: /dev/fuse}]}]}']"
    text = DAEMON_SET.replace("IMAGE", "r.example/squat/generic-device-plugin:1").replace("ARGS", args)
    (tmp_path / "f").write_text(text.replace("ENV", "[{name: VERSION, value: 'true'}]"))
    notes, _, err = migrated(capsys, str(tmp_path / "f"), "--domain=a.b")
    assert err == ""
    assert any("args[0]: --version: done otherwise: " in each for each in notes)


def test_variables_of_squat_are_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    env = (
        "[{name: DOMAIN, value: b.io}, {name: LOG_LEVEL, value: all}, {name: TZ, value: UTC},"
        " {name: LISTEN, valueFrom: {fieldRef: {fieldPath: x}}}]"
    )
    args = "[--domain, a.io, --device, '{name: fuse, groups: [{paths: [{path: /dev/fuse}]}]}']"
    text = DAEMON_SET.replace("IMAGE", "r.example/squat/generic-device-plugin:1").replace("ARGS", args)
    (tmp_path / "f").write_text(text.replace("ENV", env))
    notes, objects, err = migrated(capsys, str(tmp_path / "f"))
    assert yaml.safe_load(objects[0]["data"]["devices.yaml"])["domain"] == "a.io"
    told = {each.partition(": ")[2] for each in notes}
    env_of = "spec.template.spec.containers[0].env"
    assert {
        f"{env_of}[0]: done otherwise: of no effect: --domain=a.io counts",
        f"{env_of}[1]: done otherwise: the log has plugbay's levels; see --log-level",
        f"{env_of}[2]: NOT TAKEN OVER: squat's plugin has no variable TZ",
        f"{env_of}[3]: NOT TAKEN OVER: the value of LISTEN is not known here",
        "the whole: done otherwise: the manifest brings the rights that the plugin needs",
    } <= told
    assert [each.split(": ")[1] for each in err.splitlines()] == [f"{env_of}[2]", f"{env_of}[3]"]


def test_daemon_set_of_nvidia_without_settings_needs_no_care(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = DAEMON_SET.replace("IMAGE", "r.example/k8s-device-plugin:1").replace("ARGS", "[]").replace("ENV", "[]")
    (tmp_path / "f").write_text(text)
    _, objects, err = migrated(capsys, str(tmp_path / "f"))
    assert (command(objects), err) == (["nvidia"], "")
    (tmp_path / "f").write_text(text.replace("hostNetwork: false", "hostNetwork: true"))
    _, _, err = migrated(capsys, str(tmp_path / "f"))
    assert "spec.template.spec.hostNetwork: true: NOT TAKEN OVER: a plugin of ours has no use for it" in err


def test_objects_in_a_list_of_kubectl_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    objects = list(yaml.safe_load_all((GOLDEN / "nvidia-daemonset.yaml").read_text()))
    objects[-1]["metadata"] |= {"uid": "u", "generation": 3}
    (tmp_path / "list").write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": objects}))
    notes, made, err = migrated(capsys, str(tmp_path / "list"))
    assert "--default-config=all" in command(made)
    assert len(err.splitlines()) == len(Path(GOLDEN / "nvidia-daemonset.notes").read_text().split("NOT TAKEN")) - 1
    assert any("metadata.generation: 3: done otherwise: the API server's" in each for each in notes)


def test_values_for_our_chart(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["migrate", str(GOLDEN / "nvidia-values.yaml"), *IMAGE, "-o", "values", "--name=gpus"]) == 0
    values = yaml.safe_load(capsys.readouterr().out)
    assert values["image"] == {"repository": "registry.example.com/plugbay", "tag": "1"}
    assert "--mig-strategy=mixed" in values["plugins"]["gpus"]["targets"]


@pytest.mark.parametrize("line_break", ["\n", "\r", "\x85", "\u2028", "\u2029"])
@pytest.mark.parametrize("output", ["yaml", "values"])
def test_no_text_of_the_files_becomes_an_object(
    line_break: str, output: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    live = f"x{line_break}---{line_break}apiVersion: v1{line_break}kind: Namespace{line_break}metadata: {{name: n}} # "
    fuse = {"name": "fuse", "groups": [{"paths": [{"path": "/dev/fuse", live: 1}], live: live}]}
    file = tmp_path / f"f{live.replace('/', '')}.yaml"
    file.write_text(json.dumps({"devices": [fuse], "domain": "a.b", live: [{live: live}]}))
    assert run(["migrate", str(file), *IMAGE, "-o", output]) == 0
    out, err = capsys.readouterr()
    kinds = [each.get("kind") for each in yaml.safe_load_all(out)]
    assert kinds == (["ConfigMap", "DaemonSet"] if output == "yaml" else [None])
    assert all(line.startswith("#") for line in out.split("\n")[:6])
    assert len(err.splitlines()) == out.count("NOT TAKEN OVER")


@pytest.mark.parametrize(
    ("text", "argv", "sentence"),
    [
        ("a: 1\n", (), "it does not show of which plugin this is: say --from squat or --from nvidia"),
        ("devices: [{name: zz, groups: [{usb: [{vendor: '1'}]}]}]\n", (), "nothing of it can be served"),
        (
            "devices: [{name: zz, groups: [{paths: [{path: '/dev/['}]}]}]\n",
            (),
            "devices.yaml:6:13: ",
        ),
        ("devices: []\n---\nmigStrategy: none\n", (), "the files are for squat and nvidia: say --from"),
        ("devices: [{name: zz, groups: [{paths: [{path: /x}]}]}]\n", ("--domain=A b",), "--domain A b: a domain has"),
        (f"devices: [{{name: {'z' * 64}, groups: [{{paths: [{{path: /x}}]}}]}}]\n", (), "nothing of it can be served"),
        (
            "gdsEnabled: false\nmigStrategy: half\n",
            (),
            "error: f.yaml:2: migStrategy: unknown MIG strategy: half (allowed: none, single, mixed)",
        ),
        (
            "migStrategy: none\nfailOnInitError: maybe\n",
            (),
            'error: f.yaml:2: failOnInitError: invalid boolean value "maybe" for -fail-on-init-error: parse error',
        ),
        (
            "config: {map: {x: 'sharing: {mps: {resources: [{name: gpu, replicas: 2}]}}'}}\nmigStrategy: mixed\n",
            (),
            "error: f.yaml:2: migStrategy: using --mig-strategy=mixed is not supported with MPS",
        ),
        ("", ("--from=squat",), "nothing of it can be served"),
        ("migStrategy: none\n---\nmigStrategy: none\n", (), "f.yaml:3: a second plugin; migrate each by itself"),
        ("migStrategy: [\n", (), "not valid YAML"),
        ("version: v1\nflags: {migStrategy: 3}\n", (), "config.yaml"),
        (
            "kind: Pod\napiVersion: v1\n",
            ("--from=nvidia",),
            "nothing in the files is for NVIDIA's plugin, so nothing is",
        ),
        ("[]\n", ("--from=nvidia",), "nothing in the files is for NVIDIA's plugin, so nothing is printed"),
        ("migStrategy: none\n", ("--name=A_B",), "--name A_B: a name has 1 to 63"),
        ("config: {map: {..: x}}\nmigStrategy: none\n", (), "'..' is not the name of a file in a ConfigMap"),
        ("config: {map: {a b: x}}\nmigStrategy: none\n", (), "'a b' is not the name of a file in a ConfigMap"),
    ],
)
def test_bad_input_is_one_sentence_and_nothing_to_apply(
    text: str,
    argv: tuple[str, ...],
    sentence: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("f.yaml").write_text(text)
    assert run(["migrate", "f.yaml", *IMAGE, *argv]) != 0
    out, err = capsys.readouterr()
    assert not out
    assert sentence in err.splitlines()[-1]
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("given", "in_file", "in_flag"),
    [
        ('"1209"', "0x1209", "0x1209"),
        ("1209", "0x04b9", "0x1209"),
        ("8086", "0x1f96", "0x8086"),
        ('"0407"', "0x0407", "0x0407"),
        ("0407", "0x0107", "0x0263"),
        ("0x1209", "0x1209", "0x4617"),
        ("0bda", "0x0bda", "0x0bda"),
        ('"1e10"', "0x1e10", "0x1e10"),
        ("1e10", "0xe400", ""),
        ("70000", "0x1170", ""),
        ("-1", "", ""),
        ("65536", "", ""),
    ],
)
def test_usb_ids_are_those_that_squat_reads(given: str, in_file: str, in_flag: str) -> None:
    """Source: as observed of squat/generic-device-plugin 0.2."""
    entry = f'{{name: stick, groups: [{{usb: [{{vendor: {given}, product: "0001", serial: "A 1"}}]}}]}}'
    [document] = read_documents(f"devices: [{entry}]", source="f")
    of_file = migrate_squat([ForeignSettings(document, "f")], (), "a.example")
    of_flag = migrate_squat([], (f"--device={entry}",), "a.example")
    for migration, vendor in ((of_file, in_file), (of_flag, in_flag)):
        if not vendor:
            assert "its vendor is not a USB ID of one to four hexadecimal digits" in str(migration.left[0])
            assert not migration.files
            continue
        [rule] = yaml.safe_load(migration.files["devices.yaml"])["devices"][0]["groups"][0]["usb"]
        assert rule == {"vendor": vendor, "product": "0x0001", "serial": "A 1"}
        [usb] = read_config(migration.files["devices.yaml"], source="f").entries[0].groups
        assert isinstance(usb.what, Usb)
        assert usb.what.rules[0].vendor == int(vendor, 16)
        [note] = [each.text for each in migration.notes if ".vendor" in each.setting]
        assert note == f"as {vendor}" + ", as squat's plugin reads it without quotes" * (
            given[0] not in '"' and given != "0bda"
        )
