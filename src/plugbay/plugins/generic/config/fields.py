"""The table of all fields of a config: the reader and the JSON Schema are made of it. Pure."""

from __future__ import annotations

from typing import Any, Final

from plugbay.model.durations import parse_duration
from plugbay.plugins.generic.config.compat import Compat
from plugbay.plugins.generic.config.host_paths import container_path_problem, host_path_problem
from plugbay.plugins.generic.config.nodes import Node, Scalar, ScalarKind
from plugbay.plugins.generic.config.problems import short
from plugbay.plugins.generic.config.records import ConfigField as Field
from plugbay.plugins.generic.config.records import RecordShape
from plugbay.plugins.generic.config.rules import PreferenceRule
from plugbay.plugins.generic.config.selector_fields import SELECTOR, selector_fields
from plugbay.plugins.generic.config.shapes import (
    WRONG,
    ChoiceShape,
    Definitions,
    FieldPath,
    FlagShape,
    ListShape,
    MappingShape,
    NumberShape,
    ShapeContext,
    TextShape,
    refuse,
)
from plugbay.plugins.generic.config.text_checks import (
    annotation_problem,
    container_template_problem,
    domain_problem,
    host_template_problem,
    interface_problem,
    kind_problem,
    template_problem,
    variable_problem,
)
from plugbay.plugins.generic.config.usb_ids import is_plain_number, parse_usb_id
from plugbay.values import dataclass

MOST_UNITS: Final = 100_000
"""The most units of one match: a list of more is larger than what kubelets take."""
_MOST_NODE: Final = 4095
_LONGEST_S: Final = 7 * 24 * 3600.0
_LETTERS: Final = "mrw"


@dataclass(frozen=True, slots=True)
class UsbIdShape:
    """The ID of a vendor or a product."""

    def read(self, node: Node, path: FieldPath, context: ShapeContext) -> object:
        """The number."""
        if not isinstance(node, Scalar):
            return refuse(node, path, context, 'a USB ID such as "10c4"')
        number = parse_usb_id(node, language=context.language, is_decimal=context.has_decimal_ids)
        if isinstance(number, str):
            context.findings.error(node.spot, path, number)
            return WRONG
        if context.is_file and not context.has_decimal_ids and is_plain_number(node):
            decimal = f"to squat's plugin it is the decimal number in a file, which is the ID {int(node.text):04x}"
            text = f'is taken for the hexadecimal ID {number:04x}; {decimal}: write "{number:04x}" in quotes'
            context.findings.warn(node.spot, path, text)
        return number

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        """A text, or what YAML takes such a text for."""
        return {"type": ["string", "integer"], "pattern": "^(0[xX])?[0-9a-fA-F]{1,4}$"}


@dataclass(frozen=True, slots=True)
class PermissionsShape:
    """Letters of what a container may do with a node."""

    def read(self, node: Node, path: FieldPath, context: ShapeContext) -> object:
        """The letters."""
        text = TextShape().read(node, path, context)
        if not isinstance(text, str):
            return WRONG
        if set(text) <= set(_LETTERS) and len(set(text)) == len(text):
            return text
        problem = f"{short(text)} is not a set of permissions: r (read), w (write) and m (mknod), each at most once"
        kept = "".join(dict.fromkeys(each for each in text.lower() if each in _LETTERS))
        if not kept:  # which would be all of them
            context.findings.error(node.spot, path, problem)
            return WRONG
        context.findings.forgivable(node.spot, path, problem, instead=f"it is taken for {short(kept)}")
        return kept

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        """A text of those letters."""
        return {"type": "string", "pattern": "^[rwm]{0,3}$"}


@dataclass(frozen=True, slots=True)
class DurationShape:
    """A time."""

    least_s: float

    def read(self, node: Node, path: FieldPath, context: ShapeContext) -> object:
        """Seconds; zero needs no unit."""
        is_zero = isinstance(node, Scalar) and node.kind is ScalarKind.INTEGER and node.text == "0"
        if isinstance(node, Scalar) and (node.kind is ScalarKind.TEXT or is_zero):
            try:
                seconds = parse_duration(node.text.strip())
            except ValueError:
                seconds = -1.0
            if self.least_s <= seconds <= _LONGEST_S:
                return seconds
        return refuse(node, path, context, f"a time with its unit, from {self.least_s:g}s to 168h, such as 30s or 5m")

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        """A text of numbers with units, and zero where that is allowed."""
        texts = {"type": "string", "pattern": r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$"}
        return texts if self.least_s else {"anyOf": [texts, {"enum": [0, "0"]}]}


@dataclass(frozen=True, slots=True)
class CommandShape:
    """A program and its arguments."""

    words: ListShape

    def read(self, node: Node, path: FieldPath, context: ShapeContext) -> object:
        """The words, as a tuple."""
        words = self.words.read(node, path, context)
        if isinstance(words, tuple) and words and not str(words[0]).strip():
            context.findings.error(node.spot, path, self.words.emptiness)
            return WRONG
        return words

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        """An array of words."""
        return self.words.schema(definitions)


_TEMPLATE: Final = TextShape(template_problem, takes_numbers=True)

PATH: Final = RecordShape(
    "path",
    "A path or a pattern of paths on the host. A text alone is the path.",
    lambda: (
        Field("path", TextShape(host_path_problem), "Path on the host; *, ?, [a-z] and [^a-z] match names in one "
              "directory, and a backslash takes away their meaning.", is_required=True),
        Field("mountPath", TextShape(container_path_problem), "Path in the container, by default that of the host; "
              "with a / at its end a directory into which the file goes under its own name."),
        Field("type", ChoiceShape({"Device": "a device node", "Mount": "a bind mount"}, fallback="Device"),
              "Device (default): a device node. Mount: a file or directory that is mounted."),
        Field("permissions", PermissionsShape(), "Of a device: r (read), w (write), m (mknod); mrw by default."),
        Field("readOnly", FlagShape(), "Whether a mount can only be read; false by default."),
        Field("limit", NumberShape(0, MOST_UNITS), "How many units of the group may have the same file of this path; "
              "1 by default."),
        Field("optional", FlagShape(), "Whether the group goes on without this path when nothing matches it; false "
              "by default."),
        Field("resolve", FlagShape(), "Whether a link is followed: the container gets link and target; false by "
              "default."),
        Field("anyFile", FlagShape(), "Whether a file that is not a device node may be a Device; false by default."),
    ),
    short="path",
    elsewhere={"hostpath": "write path", "containerpath": "write mountPath", "count": "it belongs into the group"},
)  # fmt: skip

USB: Final = RecordShape(
    "usb",
    "USB devices by their IDs.",
    lambda: (
        Field("vendor", UsbIdShape(), 'ID of the vendor in hexadecimal, in quotes: "10c4".'),
        Field("product", UsbIdShape(), 'ID of the product in hexadecimal, in quotes: "ea60".'),
        Field("serial", TextShape(takes_numbers=True), "Serial number, exactly as the device tells it; any by "
              "default."),
    ),
    elsewhere={"idvendor": "write vendor", "idproduct": "write product",
               "count": "it belongs into the group", "mountpath": "it belongs into nodes of the group"},
)  # fmt: skip

NODE: Final = RecordShape(
    "node",
    "Device nodes of the physical device that a container gets. A text alone is the subsystem.",
    lambda: (
        *selector_fields(),
        Field("mountPath", TextShape(container_template_problem), "Path in the container, a template; by default "
              "that of the host, and with a / at its end a directory."),
        Field("permissions", PermissionsShape(), "r (read), w (write), m (mknod); rw by default."),
        Field("optional", FlagShape(), "Whether a device without such a node is offered nevertheless; false by "
              "default."),
    ),
    short="subsystem",
)  # fmt: skip

MOUNT: Final = RecordShape(
    "mount",
    "A mount that a container gets with each unit; paths are templates.",
    lambda: (
        Field("hostPath", TextShape(host_template_problem), "Path on the host.", is_required=True),
        Field("containerPath", TextShape(container_template_problem), "Path in the container; that of the host by "
              "default.", aliases=("mountPath",)),
        Field("readOnly", FlagShape(), "Whether it can only be read; false by default."),
    ),
)  # fmt: skip

_EXEC: Final = Field(
    "exec",
    CommandShape(ListShape(TextShape(template_problem, takes_numbers=True), emptiness="names no program")),
    "Program and its arguments, which are templates; no shell reads them.",
)
_TIMEOUT: Final = Field("timeout", DurationShape(0.1), "Time after which the program is killed; 10s by default.")

HEALTH: Final = RecordShape(
    "health",
    "Reasons for which a unit is unhealthy, beside that its device is gone.",
    lambda: (
        Field("open", FlagShape(), "Whether each node has to open; false by default."),
        Field("driver", FlagShape(), "Whether a driver has to be bound; false by default."),
        _EXEC,
        Field("every", DurationShape(1.0), "Time between two runs of the program; 30s by default."),
        _TIMEOUT,
        Field("grace", DurationShape(0.0), "Time for which a device that is gone stays listed, as unhealthy; 60s by "
              "default."),
    ),
)  # fmt: skip

RELEASE: Final = RecordShape(
    "release",
    "A program that is run after a container has ended, before its devices are given again.",
    lambda: (Field(_EXEC.name, _EXEC.shape, _EXEC.help, is_required=True), _TIMEOUT),
)

ADDITIONS: Final = (
    Field("env", MappingShape(_TEMPLATE, variable_problem), "Variables of the container. Values are templates, and "
          "${index} in a name is the number of the device in its container."),
    Field("mounts", ListShape(MOUNT), "Mounts of the container."),
    Field("annotations", MappingShape(_TEMPLATE, annotation_problem), "Annotations that the container's runtime "
          "sees; values are templates."),
    Field("cdi", TextShape(kind_problem), "Kind of a CDI spec (vendor/class) by which units are given, instead of "
          "nodes in the answer."),
    Field("links", FlagShape(), "Whether links such as /dev/serial/by-id exist in the container, too; false by "
          "default."),
    Field("health", HEALTH, "When units are unhealthy."),
    Field("release", RELEASE, "What is done with a device after its use."),
    Field("numaNodes", ListShape(NumberShape(0, _MOST_NODE)), "NUMA nodes of the devices, instead of what sysfs "
          "says; an empty list for none."),
)  # fmt: skip
"""Fields of a group that may stand beside ``groups``, too: there they count for every group without its own."""

KINDS: Final = ("paths", "usb", "match", "interfaces", "tokens")
"""Fields of which a group has exactly one."""

_OF_GROUP: Final = (
    Field("paths", ListShape(PATH, emptiness="is empty, so that the group has no device", is_forgiven=True),
          "Paths whose files belong together: the first match of each is one unit, the second of each the next."),
    Field("usb", ListShape(USB, emptiness="is empty, so that the group has no device", is_forgiven=True),
          "USB devices: each match is a unit; with several rules, each complete set.", aliases=("usbs",)),
    Field("match", SELECTOR, "Devices by their properties: a unit for each physical device."),
    Field("interfaces", SELECTOR, "Network interfaces, which move into the pod."),
    Field("tokens", NumberShape(1, MOST_UNITS), "Number of units that are not files, such as licences."),
    Field("count", NumberShape(0, MOST_UNITS), "Units made of each match, so that several containers share it; 1 by "
          "default."),
    Field("onePerContainer", FlagShape(), "Whether a container gets at most one of the units of a match; false by "
          "default."),
    Field("bundle", FlagShape(), "With usb: whether all matches are one unit; false by default."),
    Field("nodes", ListShape(NODE, takes_one=True), "With usb and match: nodes that a container gets, such as tty. "
          "By default the raw USB node, and the nodes that matched."),
    Field("rawNode", FlagShape(), "With usb: whether a container gets the node in /dev/bus/usb; true unless there "
          "are nodes."),
    Field("each", FlagShape(), "With match: whether each device that matches is a unit by itself, instead of the "
          "physical device that it belongs to; false by default."),
    Field("interfaceName", TextShape(interface_problem), "With interfaces: name in the pod; that of the host by "
          "default."),
)  # fmt: skip

GROUP_FIELDS: Final = tuple(each.name for each in _OF_GROUP)
"""Fields that a group has, and an entry without groups."""

GROUP: Final = RecordShape(
    "group",
    "Devices that one way of choosing finds. All groups of a resource are one pool.",
    lambda: (*_OF_GROUP, *ADDITIONS),
    elsewhere={"replicas": "write count", "selector": "write match", "path": "write paths, a list"},
    alternatives=KINDS,
)

ENTRY: Final = RecordShape(
    "device",
    "A resource. It has groups, or the fields of its only group.",
    lambda: (
        Field("name", TextShape(), "Name of the resource behind the domain, such as serial; or a template such as "
              "{vendor}-{model}, which makes several resources. With a / it brings its own domain.", is_required=True),
        Field("groups", ListShape(GROUP, emptiness="is empty, so that the resource would have no device",
                                  is_forgiven=True), "Groups of devices; all of them are one pool."),
        Field("domain", TextShape(domain_problem), "Domain of this resource, instead of that of the file."),
        Field("prefer", ChoiceShape({each.value: "" for each in PreferenceRule}), "What the devices of one container "
              "have in common, if possible: numa (default), pcieRoot, physical, or none."),
        Field("shared", FlagShape(), "Whether its devices may be those of other resources, too; false by default."),
        *_OF_GROUP,
        *ADDITIONS,
    ),
    elsewhere={"replicas": "write count", "selector": "write match", "path": "write paths, a list",
               "resource": "write name", "nummaxdevices": "write count",
               "devicematch": "a file of smarter-device-manager is such a list alone, without devices: above it"},
    alternatives=("groups", *KINDS),
    wanted="a mapping such as {name: fuse, paths: [/dev/fuse]}",
)  # fmt: skip

DOMAIN: Final = Field("domain", TextShape(domain_problem), "The part in front of the / in the names of resources.")
_LEVELS: Final = ("all", "debug", "info", "warn", "error", "none")

FILE: Final = RecordShape(
    "config",
    "Config of plugbay's generic plugin; files of squat's generic-device-plugin are such configs, too.",
    lambda: (
        DOMAIN,
        Field("devices", ListShape(ENTRY, emptiness="is empty, and at least one device must be there"),
              "The resources.", aliases=("device",)),
        Field("listen", TextShape(), "Address of metrics and health, such as :8080."),
        Field("log-level", ChoiceShape(dict.fromkeys(_LEVELS, "")), "Level of the log."),
        Field("plugin-directory", TextShape(host_path_problem), "Directory of the kubelet's sockets."),
        Field("compat", ListShape(ChoiceShape({each.value: "" for each in Compat}), takes_one=True),
              "Where the old behaviour of squat's plugin is wanted; squat is all of them."),
        Field("$schema", TextShape(), "Schema of this file, for editors; it means nothing else."),
    ),
    elsewhere={"groups": "it belongs into a device", "name": "it belongs into a device",
               "paths": "it belongs into a device", "usb": "it belongs into a device",
               "apiversion": "this is a manifest of Kubernetes, and the config is the text in its data or args; "
                             "`plugbay migrate` takes whole manifests"},
    wanted="a mapping with devices: in front of the list of resources",
)  # fmt: skip
"""A whole file."""
