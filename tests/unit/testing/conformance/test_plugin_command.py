"""A plugin learns where its kubelet is: from its command line, its environment, or by finding it at the usual place."""

from __future__ import annotations

from plugbay.testing.conformance.subject.command import PluginCommand


def test_plugin_that_is_not_told_finds_the_kubelet_at_the_usual_place() -> None:
    command = PluginCommand(("./plugin", "-v"))
    assert command.is_enclosed
    assert command.words_for("/tmp/r")[1:] == (
        "-m",
        "plugbay.kernel.enclosed",
        "/tmp/r",
        "/var/lib/kubelet",
        "./plugin",
        "-v",
    )
    assert command.environment_for("/tmp/r") == {"PLUGBAY_ROOT": "/var/lib/kubelet"}


def test_plugin_is_told_by_its_command_line() -> None:
    command = PluginCommand(("./plugin", "--dir={plugins}", "--socket", "{socket}", "{root}/x", "{other}"))
    assert not command.is_enclosed
    assert command.words_for("/tmp/r") == (
        "./plugin",
        "--dir=/tmp/r/device-plugins",
        "--socket",
        "/tmp/r/device-plugins/kubelet.sock",
        "/tmp/r/x",
        "{other}",
    )


def test_plugin_is_told_by_its_environment() -> None:
    command = PluginCommand(("./plugin",), {"KUBELET": "{root}", "X": "1"})
    assert command.words_for("/tmp/r") == ("./plugin",)
    assert command.environment_for("/tmp/r") == {"KUBELET": "/tmp/r", "X": "1"}


def test_plugin_that_is_told_can_find_it_at_the_usual_place_as_well() -> None:
    command = PluginCommand(("./plugin", "{root}"), always_enclosed=True)
    assert command.words_for("/tmp/r")[-3:] == ("/var/lib/kubelet", "./plugin", "/tmp/r")
