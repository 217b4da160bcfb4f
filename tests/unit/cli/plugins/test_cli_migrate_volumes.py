"""``plugbay migrate``: which files of the volumes a plugin reads, and where its kubelet is."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from plugbay.cli.main import run
from tests.unit.cli.plugins.migrating import IMAGE, command, migrated

MOUNTED = """
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: devices, namespace: a}
spec:
  template:
    spec:
      containers:
      - name: devices
        image: r.example/squat/generic-device-plugin:1
        args: ARGS
        workingDir: /work
        volumeMounts: [MOUNT]
      volumes:
      - VOLUME
---
apiVersion: v1
kind: ConfigMap
metadata: {name: pools}
data:
  config.yaml: 'devices: [{name: pool-c, groups: [{paths: [{path: /dev/c}]}]}]'
  pool-a.yaml: 'devices: [{name: pool-a, groups: [{paths: [{path: /dev/a}]}]}]'
  pool-b.yaml: 'devices: [{name: pool-b, groups: [{paths: [{path: /dev/b}]}]}]'
---
apiVersion: v1
kind: ConfigMap
metadata: {name: unmounted}
data: {pool-b.yaml: 'devices: [{name: other, groups: [{paths: [{path: /dev/o}]}]}]'}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: pools, namespace: b}
data: {pool-b.yaml: 'devices: [{name: elsewhere, groups: [{paths: [{path: /dev/o}]}]}]'}
"""
WHOLE = ("{name: x, mountPath: /cfg}", "{name: x, configMap: {name: pools}}")


@pytest.mark.parametrize(
    ("args", "mount", "volume", "served"),
    [
        ("[--config=/cfg/pool-b.yaml]", *WHOLE, "pool-b"),
        ("[--config, /cfg/../cfg/pool-a.yaml]", *WHOLE, "pool-a"),
        ("[]", "{name: x, mountPath: /etc/generic-device-plugin/}", WHOLE[1], "pool-c"),
        ("[]", "{name: x, mountPath: /work}", WHOLE[1], "pool-c"),
        (
            "[--config=/cfg/x/y.yaml]",
            WHOLE[0],
            "{name: x, configMap: {name: pools, items: [{key: pool-b.yaml, path: x/y.yaml}]}}",
            "pool-b",
        ),
        ("[--config=/cfg/pool-b.yaml]", WHOLE[0], "{name: x, configMap: {name: pools, items: []}}", "pool-b"),
        ("[--config=/cfg/pool-b.yaml]", WHOLE[0], "{name: x, configMap: {name: pools, items: null}}", "pool-b"),
        ("[--config=/c.yaml]", "{name: x, mountPath: /c.yaml, subPath: pool-a.yaml}", WHOLE[1], "pool-a"),
        (
            "[--config=/cfg/pool-a.yaml]",
            WHOLE[0],
            "{name: x, projected: {sources: [{configMap: {name: pools}}, {secret: {name: y}}]}}",
            "pool-a",
        ),
    ],
)
def test_config_file_of_squat_is_that_which_its_container_reads(
    args: str, mount: str, volume: str, served: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = MOUNTED.replace("ARGS", args).replace("MOUNT", mount).replace("VOLUME", volume)
    (tmp_path / "f").write_text(text)
    notes, [files, _], err = migrated(capsys, str(tmp_path / "f"), "--domain=a.b")
    entries = yaml.safe_load(files["data"]["devices.yaml"])["devices"]
    assert [each["name"] for each in entries] == [served]
    assert "no volume of the plugin has this ConfigMap" in err
    assert all(each not in "\n".join(notes) for each in ("name: other", "name: elsewhere"))
    if "items" not in volume and "subPath" not in mount:
        left = {"config.yaml", "pool-a.yaml", "pool-b.yaml"} - {served.replace("pool-c", "config") + ".yaml"}
        told = {each.partition(": data[")[2] for each in err.splitlines() if "does not read" in each}
        assert told == {f"{name}]: NOT TAKEN OVER: the plugin does not read this file" for name in left}


def test_config_file_of_squat_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = "[--config=/elsewhere/pool-b.yaml]"
    text = MOUNTED.replace("ARGS", args).replace("MOUNT", WHOLE[0]).replace("VOLUME", WHOLE[1])
    (tmp_path / "f").write_text(text)
    assert run(["migrate", str(tmp_path / "f"), *IMAGE]) != 0
    out, err = capsys.readouterr()
    sentence = "--config=/elsewhere/pool-b.yaml: give that file as well, or the ConfigMap that holds it"
    assert (out, err.splitlines()[-1]) == ("", f"plugbay: error: {sentence}")
    (tmp_path / "pool-b.yaml").write_text("devices: [{name: pool-b, groups: [{paths: [{path: /dev/b}]}]}]\n")
    (tmp_path / "pool-a.yaml").write_text("devices: [{name: pool-a, groups: [{paths: [{path: /dev/a}]}]}]\n")
    given = [str(tmp_path / each) for each in ("f", "pool-a.yaml", "pool-b.yaml")]
    _, [files, _], err = migrated(capsys, *given, "--domain=a.b")
    entries = yaml.safe_load(files["data"]["devices.yaml"])["devices"]
    assert [each["name"] for each in entries] == ["pool-b"]
    assert "pool-a.yaml:1: the whole: NOT TAKEN OVER: the plugin does not read this file" in err


@pytest.mark.parametrize("content", ["''", "'# nothing yet'", "'null'"])
@pytest.mark.parametrize(
    ("args", "mount"), [("[--config=/cfg/config.yaml]", WHOLE[0]), ("[]", "{name: x, mountPath: /work}")]
)
def test_config_file_of_squat_with_nothing_in_it_is_not_asked_for(
    args: str, mount: str, content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = MOUNTED.partition("---")[0].replace("ARGS", args).replace("MOUNT", mount).replace("VOLUME", WHOLE[1])
    config_map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: pools}\n"
    (tmp_path / "f").write_text(f"{text}---\n{config_map}data: {{config.yaml: {content}}}\n")
    assert run(["migrate", str(tmp_path / "f"), *IMAGE]) != 0
    out, err = capsys.readouterr()
    assert (out, err) == ("", "plugbay: error: nothing of it can be served by plugbay today, so nothing is printed\n")


@pytest.mark.parametrize(
    ("path", "mount"),
    [
        ("/var/lib/k0s/kubelet/device-plugins", "/var/lib/kubelet/device-plugins"),
        ("/var/lib/k0s/kubelet", "/var/lib/kubelet/"),
    ],
)
@pytest.mark.parametrize("image", ["squat/generic-device-plugin:1", "k8s-device-plugin:1"])
def test_kubelet_elsewhere_is_told(
    image: str, path: str, mount: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = MOUNTED.replace("VOLUME", f"{{name: k, hostPath: {{path: {path}}}}}").replace(
        "squat/generic-device-plugin:1", image
    )
    args = "['--device={name: fuse, groups: [{paths: [{path: /dev/fuse}]}]}']" if "squat" in image else "[]"
    text = text.replace("MOUNT", f"{{name: k, mountPath: {mount}}}").replace("ARGS", args)
    (tmp_path / "f").write_text(text)
    _, _, err = migrated(capsys, str(tmp_path / "f"))
    place = f"spec.template.spec.volumes[0].hostPath.path: {path}"
    assert f"{place}: NOT TAKEN OVER: the manifest is for the kubelet at /var/lib/kubelet: change the hostPath" in err
    (tmp_path / "f").write_text(text.replace("/var/lib/k0s", "/var/lib"))
    _, _, err = migrated(capsys, str(tmp_path / "f"))
    assert "volumes[0]" not in err


def test_configuration_file_of_nvidia_is_that_which_its_container_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = MOUNTED.replace("squat/generic-device-plugin:1", "k8s-device-plugin:1").replace("VOLUME", WHOLE[1])
    text = text.replace("MOUNT", WHOLE[0]).replace("'devices: [", "'version: v1 #")
    (tmp_path / "f").write_text(text.replace("ARGS", "[--config-file=/cfg/pool-b.yaml]"))
    _, objects, err = migrated(capsys, str(tmp_path / "f"))
    assert list(objects[0]["data"]) == ["pool-b.yaml"]
    assert command(objects) == ["nvidia", "--config-file=/plugin/pool-b.yaml"]
    assert err.count("the plugin does not read this file") == 2
