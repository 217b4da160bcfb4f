"""The configs of a file for several nodes, and the one that a node gets. Pure.

::

    nodeLabel: example.com/plugbay.config     # a node with this label gets the config that it names
    plugins:                                  # for all nodes that get no other
    - {target: gophers.py}
    configs:
    - name: cards
      nodeNames: [card-*]                     # for nodes with such a name
      nodeLabels: {example.com/pool: cards}   # and these labels
      plugins:
      - {target: cards.py}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

import msgspec

from plugbay.errors import InvalidDocument
from plugbay.model.dns import is_name, is_subdomain
from plugbay.model.field_path import FieldPath
from plugbay.sdk.author.needs import Need, NodeName, NodeReader
from plugbay.sdk.process.config import Config, ConfigEntry, difference, read_as
from plugbay.values import dataclass

_NAME_CHARACTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-.*?")
_MOST_SHOWN: Final = 8


class NamedConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A config for some nodes.

    Attributes:
        name: as the label of a node says it.
        node_names: names of nodes, in which ``*`` and ``?`` stand for other characters; empty for all.
        node_labels: labels that a node has to have, with values as in ``node_names``; empty for all nodes.
    """

    name: str
    plugins: tuple[ConfigEntry, ...]
    node_names: tuple[str, ...] = ()
    node_labels: dict[str, str] = {}

    @property
    def has_rule(self) -> bool:
        """Whether it chooses nodes itself, instead of being named by their label."""
        return bool(self.node_names or self.node_labels)

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether its rule chooses this node."""
        if self.node_names and not any(fnmatchcase(name, pattern) for pattern in self.node_names):
            return False
        return self.has_rule and all(
            label in labels and fnmatchcase(labels[label], value) for label, value in self.node_labels.items()
        )


class _Text(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    plugins: tuple[ConfigEntry, ...] | msgspec.UnsetType = msgspec.UNSET
    configs: tuple[NamedConfig, ...] = ()
    node_label: str = ""


@dataclass(frozen=True, slots=True)
class ConfigsByNode:
    """The content of a config file.

    Attributes:
        default: for nodes that get no other config; None if the file has none.
        named: configs for some nodes.
        label: of a node, whose value is the name of its config; empty for none.
        source: the file.
    """

    default: Config | None
    named: tuple[NamedConfig, ...] = ()
    label: str = ""
    source: str = ""

    @property
    def wants_name(self) -> bool:
        """Whether it takes the name of the node to choose."""
        return bool(self.named)

    @property
    def wants_labels(self) -> bool:
        """Whether it takes the labels of the node to choose."""
        return bool(self.label) or any(each.node_labels for each in self.named)

    @property
    def needs(self) -> Sequence[Need]:
        """The needs of a process that chooses."""
        if self.wants_labels:
            return (NodeReader("labels of the node choose its config"),)
        return (NodeName("the name of the node chooses its config"),) if self.wants_name else ()

    def entries(self) -> Iterator[tuple[str, ConfigEntry]]:
        """The entries of all configs, each with its place in the file."""
        for index, entry in enumerate(() if self.default is None else self.default.plugins):
            yield f"plugins[{index}]", entry
        for at, each in enumerate(self.named):
            for index, entry in enumerate(each.plugins):
                yield f"configs[{at}].plugins[{index}]", entry


@dataclass(frozen=True, slots=True)
class Choice:
    """The config of a node.

    Attributes:
        name: empty for the one without a name.
        why: half a sentence; empty if there is nothing to choose.
        place: of its entries, in the file.
    """

    config: Config
    name: str = ""
    why: str = ""
    place: str = "plugins"


def parse_configs(text: str, *, source: str) -> ConfigsByNode:
    """Read YAML or JSON.

    Raises:
        InvalidDocument: one sentence about the first thing that is wrong with it.
    """
    found, document = read_as(_Text, text, source=source)

    def wrong(problem: str, *path: str | int) -> InvalidDocument:
        return document.error(problem, path)

    if found.plugins is msgspec.UNSET and not found.configs:
        raise wrong("wants the field plugins")
    if found.node_label and not _is_label(found.node_label):
        raise wrong(f"{found.node_label!r} is not the name of a label, such as example.com/plugbay.config", "nodeLabel")
    if found.node_label and not found.configs:
        raise wrong("there are no `configs` that it could name", "nodeLabel")
    names: dict[str, int] = {}
    for index, each in enumerate(found.configs):
        if problem := _problem(each, found.node_label):
            raise wrong(problem[0], "configs", index, *problem[1])
        if names.setdefault(each.name, index) != index:
            raise wrong(f"configs[{names[each.name]}] has the name {each.name!r} as well", "configs", index, "name")
    default = None if isinstance(found.plugins, msgspec.UnsetType) else Config(found.plugins)
    return ConfigsByNode(default, found.configs, found.node_label, source)


def _problem(config: NamedConfig, label: str) -> tuple[str, FieldPath] | None:
    """The first thing that is wrong with a config, and its place in it."""
    if not is_name(config.name):
        return f"{config.name!r} is not a name that a label can have as its value", ("name",)
    for index, pattern in enumerate(config.node_names):
        if not pattern or not _NAME_CHARACTERS.issuperset(pattern):
            return f"no node is called {pattern!r}: names have a-z, 0-9, - and ., patterns * and ?", (
                "nodeNames",
                index,
            )
    for key, value in config.node_labels.items():
        if not _is_label(key):
            return f"{key!r} is not the name of a label, such as example.com/pool", ("nodeLabels", key)
        if value and not is_name(value.replace("*", "x").replace("?", "x")):
            return f"{value!r} is not the value of a label", ("nodeLabels", key)
    if not config.has_rule and not label:
        return "nothing chooses it: it wants nodeNames or nodeLabels, or the file a nodeLabel", ()
    return None


def _is_label(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    return is_name(name) and (not slash or is_subdomain(prefix))


def choose(configs: ConfigsByNode, node: str, labels: Mapping[str, str]) -> Choice:
    """The config of a node: the one that its label names, else the one whose rule matches, else the default.

    Args:
        node: the name of the node.
        labels: of the node; empty if none are wanted.

    Raises:
        InvalidDocument: the node has no config, or more than one.
    """
    if not configs.named and configs.default is not None:
        return Choice(configs.default)

    def wrong(problem: str) -> InvalidDocument:
        return InvalidDocument(f"node {node}: {problem}", "configs", source=configs.source)

    if named := labels.get(configs.label, "") if configs.label else "":
        found = next((at for at, each in enumerate(configs.named) if each.name == named), None)
        if found is None:
            there = ", ".join(each.name for each in configs.named[:_MOST_SHOWN])
            raise wrong(f"label {configs.label} names the config {named!r}, which does not exist (there are: {there})")
        return _chosen(configs, found, f"label {configs.label} names it")
    matching = [at for at, each in enumerate(configs.named) if each.matches(node, labels)]
    if len(matching) > 1:
        both = " and ".join(configs.named[at].name for at in matching[:2])
        raise wrong(f"both {both} are for it; let one of them leave it out, or name one by a nodeLabel")
    if matching:
        return _chosen(configs, matching[0], "its rule matches")
    if configs.default is None:
        raise wrong("no config is for it, and there are no `plugins` for all other nodes; an empty list serves nothing")
    return Choice(configs.default, why="no config of its own is for it")


def choose_without_labels(configs: ConfigsByNode, node: str) -> Choice:
    """The config of a node that has no label that matters; an empty one if there is none for such a node.

    Raises:
        InvalidDocument: it has more than one.
    """
    is_for_none = configs.default is None and not any(each.matches(node, {}) for each in configs.named)
    return Choice(Config(())) if is_for_none else choose(configs, node, {})


def choices_of_labels(configs: ConfigsByNode, node: str) -> Iterator[str]:
    """Yield the choices that labels would make for a node, half a sentence for each."""
    for each in configs.named:
        is_open = not each.node_names or any(fnmatchcase(node, pattern) for pattern in each.node_names)
        if each.node_labels and is_open:
            labels = ",".join(f"{label}={value}" for label, value in sorted(each.node_labels.items()))
            yield f"with the labels {labels} it gets the config {each.name}"
    if configs.label:
        names = ", ".join(each.name for each in configs.named[:_MOST_SHOWN])
        yield f"with the label {configs.label} it gets the config that this names (there are: {names})"


def _chosen(configs: ConfigsByNode, at: int, why: str) -> Choice:
    named = configs.named[at]
    return Choice(Config(named.plugins), named.name, why, f"configs[{at}].plugins")


def differences(before: ConfigsByNode, after: ConfigsByNode) -> list[str]:
    """A line for each entry that differs, and for each config that comes, goes, or is for other nodes."""
    lines = difference(before.default or Config(()), after.default or Config(())).lines()
    if before.label != after.label:
        lines.append(f"changed: nodeLabel {before.label or 'none'} -> {after.label or 'none'}")
    old, new = ({each.name: each for each in configs.named} for configs in (before, after))
    lines += [f"removed: config {name}" for name in old if name not in new]
    for name, config in new.items():
        if name not in old:
            lines.append(f"added: config {name}")
            continue
        if (old[name].node_names, old[name].node_labels) != (config.node_names, config.node_labels):
            lines.append(f"changed: config {name}: it is for other nodes")
        changes = difference(Config(old[name].plugins), Config(config.plugins)).lines()
        lines += [f"config {name}: {line}" for line in changes]
    return lines
