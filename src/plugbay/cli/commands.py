"""The table of all commands, in the order in which help shows them.

A command is declared beside what it does, in the module that its line names. Only the command that is run, or whose
help is shown, has its module imported.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from plugbay.cli.arguments.parser import CommandParser


class Command(NamedTuple):
    """One command.

    Attributes:
        help: what it does, for the list of commands.
        place: ``module:function``; the function declares the command's arguments and what runs it.
        aliases: words that users type instead; no help shows them.
    """

    help: str
    place: str
    aliases: tuple[str, ...] = ()

    def declare(self, parser: CommandParser) -> None:
        """Import the command's module and let it fill ``parser``."""
        module, _, function = self.place.partition(":")
        getattr(import_module(module), function)(parser)


class Group(NamedTuple):
    """A word that other commands come after; alone it shows its help."""

    help: str
    description: str
    examples: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()


COMMANDS: Final[dict[str, Command | Group]] = {
    "serve": Command("serve device plugins to a kubelet, or to `plugbay node up`", "plugbay.cli.plugins.serve:declare"),
    "devices": Command(
        "show the devices that plugins would offer now", "plugbay.cli.plugins.devices:declare", ("device",)
    ),
    "check": Command(
        "find faults in a plugin's file or config that would show only on a node", "plugbay.cli.plugins.check:declare"
    ),
    "presets": Command("print configs of the generic plugin to start from", "plugbay.cli.plugins.presets:declare"),
    "schema": Command("print the JSON Schema of a config, for editors", "plugbay.cli.plugins.schema:declare"),
    "new": Command(
        "begin a plugin: code, config, test and manifest that work as they are", "plugbay.cli.plugins.new:declare"
    ),
    "manifest": Command(
        "print the DaemonSet of plugins, with the least rights that do", "plugbay.cli.plugins.manifest:declare"
    ),
    "migrate": Command(
        "print a manifest for what another device plugin was set to", "plugbay.cli.plugins.migrate:declare"
    ),
    "cleanup": Command("remove what plugins have left on a node", "plugbay.cli.plugins.cleanup:declare"),
    "node": Group(
        "run this machine's node, and look at it",
        "Run this machine's node, look at it, empty it.",
        aliases=("nodes", "no"),
    ),
    "node up": Command(
        "run the node in the foreground until SIGTERM or Ctrl-C, or with -d in the background",
        "plugbay.cli.node.up:declare",
    ),
    "node down": Command("stop the node in order, and wait until it has ended", "plugbay.cli.node.down:declare_down"),
    "node status": Command("tell whether a node runs, and as which process", "plugbay.cli.node.down:declare_status"),
    "node enclose": Command(
        "run a program to which the node is the kubelet at /var/lib/kubelet", "plugbay.cli.node.enclose:declare"
    ),
    "node get": Command("list the node and its resources", "plugbay.cli.node.get:declare_get", ("ls", "list")),
    "node describe": Command(
        "show all about the node: devices, plugins, events", "plugbay.cli.node.get:declare_describe", ("inspect",)
    ),
    "node devices": Command(
        "list the node's devices, with their health and the containers that hold them",
        "plugbay.cli.node.devices:declare",
    ),
    "node wait": Command(
        "wait until the node has so many devices, or a value in a field", "plugbay.cli.node.wait:declare"
    ),
    "node kubeconfig": Command(
        "show the kubeconfig with which kubectl and other clients reach the node", "plugbay.cli.node.kubeconfig:declare"
    ),
    "node cordon": Command("take no new pods", "plugbay.cli.node.drain:declare_cordon"),
    "node drain": Command("stop all pods, and take no new ones", "plugbay.cli.node.drain:declare_drain"),
    "node uncordon": Command("take pods again, after cordon or drain", "plugbay.cli.node.drain:declare_uncordon"),
    "pod": Group(
        "run pods and look after them",
        "Run pods on this machine's node and look after them, as kubectl does on a cluster.",
        aliases=("pods", "po"),
    ),
    "pod run": Command(
        "create pods from a manifest, or one from a command line", "plugbay.cli.pod.run:declare", ("create",)
    ),
    "pod apply": Command("create or change pods to be as their manifests say", "plugbay.cli.pod.apply:declare"),
    "pod get": Command("list pods", "plugbay.cli.pod.get:declare_get", ("ls", "list", "ps")),
    "pod describe": Command(
        "show all about pods: devices, states, events", "plugbay.cli.pod.get:declare_describe", ("inspect",)
    ),
    "pod wait": Command("wait until pods are ready, gone, or have a value in a field", "plugbay.cli.pod.wait:declare"),
    "pod exec": Command("run a command in a container, with its environment", "plugbay.cli.pod.streams:declare_exec"),
    "pod logs": Command("show what a container printed", "plugbay.cli.pod.streams:declare_logs", ("log",)),
    "pod delete": Command("stop pods and forget them", "plugbay.cli.pod.delete:declare", ("rm", "remove", "del")),
    "kubectl": Command("run kubectl on the node", "plugbay.cli.node.kubeconfig:declare_kubectl"),
    "events": Command("show what happened, oldest first", "plugbay.cli.node.events:declare", ("event", "ev")),
    "who": Command("show which pod holds which device, on any node", "plugbay.cli.see.who:declare"),
    "top": Command("watch devices and what holds them, live in a terminal", "plugbay.cli.see.top:declare"),
    "doctor": Command(
        "find what is wrong with devices on this node, or why a pod is stuck, and say what to do",
        "plugbay.cli.see.doctor:declare",
    ),
    "export": Command(
        "serve metrics of all devices of a node and of what holds them", "plugbay.cli.see.export:declare"
    ),
    "podresources": Command(
        "show which containers hold which devices, on any kubelet", "plugbay.cli.see.kubelet.podresources:declare"
    ),
    "checkpoint": Group(
        "look into a kubelet's kubelet_internal_checkpoint",
        "Look into kubelet_internal_checkpoint, the file in which a kubelet's device manager remembers "
        "which container holds which devices. No kubelet is asked.",
        examples=(
            "plugbay checkpoint show /var/lib/kubelet/device-plugins/kubelet_internal_checkpoint",
            "plugbay checkpoint diff before after",
        ),
    ),
    "checkpoint show": Command(
        "show which container holds which devices, and what the plugins answered",
        "plugbay.cli.see.kubelet.checkpoint:declare_show",
    ),
    "checkpoint verify": Command(
        "tell whether a kubelet would load the file", "plugbay.cli.see.kubelet.checkpoint:declare_verify"
    ),
    "checkpoint convert": Command(
        "write a file of any kubelet in today's format, sorted", "plugbay.cli.see.kubelet.checkpoint:declare_convert"
    ),
    "checkpoint diff": Command(
        "compare two files by pod, container and resource", "plugbay.cli.see.kubelet.checkpoint:declare_diff"
    ),
    "cdi": Group(
        "list, check, inject and generate CDI specs",
        "Work with specs of the Container Device Interface: files that tell container engines what a "
        "container gets with a device that it is given by name.",
        examples=("plugbay cdi list", "plugbay cdi validate"),
    ),
    "cdi list": Command("list the devices that spec files define", "plugbay.cli.cdi.specs:declare_list", ("ls", "get")),
    "cdi show": Command("show what a container gets with devices", "plugbay.cli.cdi.specs:declare_show"),
    "cdi validate": Command("tell whether engines would use spec files", "plugbay.cli.cdi.specs:declare_validate"),
    "cdi inject": Command("apply devices to an OCI runtime spec", "plugbay.cli.cdi.specs:declare_inject"),
    "cdi generate": Command("make a spec of the devices that a plugin finds", "plugbay.cli.cdi.generate:declare"),
    "cni": Group(
        "attach containers to CNI networks, and check their configuration",
        "Attach containers to networks as a container engine does it: by the Container Network Interface, "
        "versions 0.1.0 to 1.1.0.",
        examples=(
            "plugbay cni validate",
            "plugbay cni add c1 --netns web --make-netns --port 8080:80",
            "plugbay cni del c1 --remove-netns",
        ),
    ),
    "cni add": Command("attach a container to a network, and print the result", "plugbay.cli.cni.attach:declare_add"),
    "cni del": Command("detach a container from a network", "plugbay.cli.cni.attach:declare_del"),
    "cni check": Command(
        "tell whether a container still has what it was given", "plugbay.cli.cni.attach:declare_check"
    ),
    "cni gc": Command("remove what a network holds for containers that are gone", "plugbay.cli.cni.attach:declare_gc"),
    "cni status": Command(
        "tell whether networks are ready to add containers", "plugbay.cli.cni.readiness:declare_status"
    ),
    "cni version": Command(
        "show which versions of the specification plugins take", "plugbay.cli.cni.readiness:declare_version"
    ),
    "cni validate": Command("explain what is wrong with network configurations", "plugbay.cli.cni.validate:declare"),
    "nvidia": Group(
        "look at the NVIDIA GPUs of this machine",
        "Look at the NVIDIA GPUs of this machine. `plugbay serve nvidia` offers them to a kubelet.",
        examples=("plugbay nvidia labels", "plugbay nvidia mps"),
    ),
    "nvidia labels": Command(
        "print the labels of gpu-feature-discovery, or write them for Node Feature Discovery",
        "plugbay.cli.plugins.nvidia_labels:declare",
    ),
    "nvidia mps": Command("run the MPS daemons of this node", "plugbay.cli.plugins.nvidia_mps:declare"),
    "conform": Command(
        "judge a device plugin, in any language, by what kubelets need", "plugbay.cli.testing.conform:declare"
    ),
    "trace": Command(
        "show what passes between a device plugin and its kubelet, and keep it",
        "plugbay.cli.testing.trace:declare",
    ),
    "record": Command(
        "keep what plugins and their kubelet say, as a file for a bug report", "plugbay.cli.testing.record:declare"
    ),
    "replay": Command("play a recording again, and tell what differs", "plugbay.cli.testing.replay:declare"),
    "chaos": Command(
        "disturb a device plugin at random, and shorten what breaks it", "plugbay.cli.testing.chaos:declare"
    ),
    "completion": Command("let a shell complete commands, options and names", "plugbay.cli.shell.completion:declare"),
    "version": Command("show the version", "plugbay.cli.shell.version:declare"),
    "help": Command("show the help of a command", "plugbay.cli.shell.help:declare"),
}
