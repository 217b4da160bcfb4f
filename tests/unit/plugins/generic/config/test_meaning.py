"""Fields of ours: what they mean, and what they say only together."""

from __future__ import annotations

import pytest

from plugbay.errors import InvalidGenericConfig
from plugbay.plugins.generic.config.reading import ReadOptions, examine_config, parse_device_flag, read_config
from plugbay.plugins.generic.config.rules import (
    AllOf,
    AnyOf,
    CommandRule,
    Entry,
    Gifts,
    HealthRule,
    Interfaces,
    Match,
    MountRule,
    NodeRule,
    Not,
    Paths,
    PreferenceRule,
    Selector,
    Tokens,
    Usb,
    UsbRule,
    Where,
)
from plugbay.plugins.generic.config.selector_fields import PROPERTIES
from plugbay.plugins.generic.config.text_checks import FACTS
from plugbay.plugins.generic.machine.properties import PROPERTY_NAMES


def only(entry: str) -> Entry:
    (read,) = read_config(f"domain: a.b\ndevices:\n- {entry}\n", source="f").entries
    return read


def problem(entry: str) -> str:
    (found,) = examine_config(f"domain: a.b\ndevices:\n- {entry}\n", source="f").errors
    return found.sentence


def selector(text: str) -> Selector:
    what = only(f"{{name: x, match: {text}}}").groups[0].what
    assert isinstance(what, Match)
    return what.selector


def test_properties_are_those_that_devices_have() -> None:
    assert set(PROPERTIES) == set(PROPERTY_NAMES)


def test_a_resource_is_a_line() -> None:
    assert only("{name: kvm, paths: [/dev/kvm], count: 100}") == only(
        "{name: kvm, groups: [{count: 100, paths: [{path: /dev/kvm}]}]}"
    )


TWO = """\
domain: a.b
devices:
- {name: one, paths: ["/dev/ttyUSB*", /dev/x]}
- {name: two, paths: [/dev/../dev/x]}
"""


def test_a_path_of_two_entries_is_refused_unless_both_share() -> None:
    (found,) = examine_config(TWO, source="f").errors
    assert found.sentence == (
        "f:4:23: /dev/x is a path of one already, in line 3; write shared: true in both if both may give it at the "
        "same time"
    )
    both = TWO.replace("]}", "], shared: true}")
    assert examine_config(both, source="f").errors == ()
    assert len(examine_config(both.replace(", shared: true", "", 1), source="f").errors) == 1
    assert examine_config(f"compat: sharedPaths\n{TWO}", source="f").errors == ()


def test_a_path_of_two_entries_is_forgiven_by_the_lenient() -> None:
    read = examine_config(TWO, source="f", options=ReadOptions(is_lenient=True))
    assert (read.errors, len(read.warnings)) == ((), 1)
    assert read.warnings[0].text.endswith("; one alone gives it")


def test_paths_of_one_entry_and_mounts_may_stand_twice() -> None:
    twice = 'domain: a.b\ndevices: [{name: one, groups: [{paths: [/dev/x]}, {paths: ["/dev/y*", /dev/x]}]}]'
    assert examine_config(twice, source="f").errors == ()
    mount = "paths: [{path: /etc/x, type: Mount}]"
    mounts = f"domain: a.b\ndevices: [{{name: one, {mount}}}, {{name: two, {mount}}}]"
    assert examine_config(mounts, source="f").errors == ()


def test_braces_in_the_place_of_a_path_are_told_to_stay() -> None:
    text = 'domain: a.b\ndevices: [{name: x, paths: [{path: /dev/x, mountPath: "/dev/{serial}"}]}]'
    read = examine_config(text, source="f")
    assert read.errors == ()
    assert [each.field for each in read.warnings] == ["devices[0].paths[0].mountPath"]
    assert read.config is not None
    (rules,) = [group.what.rules for group in read.config.entries[0].groups if isinstance(group.what, Paths)]
    assert rules[0].mount_path == "/dev/{serial}"


SELECTORS = {
    "{subsystem: tty}": Where("subsystem", ("tty",)),
    "{name: [a*, b]}": Where("name", ("a*", "b")),
    "{vendor: 10C4}": Where("vendor", ("10c4",)),
    "{vendor: 0x8086}": Where("vendor", ("8086",)),
    "{vendor: 8086}": Where("vendor", ("8086",)),
    "{vendor: '10c*'}": Where("vendor", ("10c*",)),
    "{vendor: 0x10C*}": Where("vendor", ("10c*",)),
    "{vendor: '0x407'}": Where("vendor", ("0407",)),
    "{class: 0x030000}": Where("class", ("030000",)),
    "{class: [0x03*, 0C03*, '08', 0x3, 0x30000, 0C0330, 12]}": Where(
        "class", ("03*", "0C03*", "08", "03", "030000", "0c0330", "12")
    ),
    "{vendor: ['46d', 46D, bad, ACE]}": Where("vendor", ("046d", "046d", "bad", "ACE")),
    "{name: 0x1}": Where("name", ("0x1",)),
    "{vendor: ATA}": Where("vendor", ("ATA",)),
    "{serial: 0001}": Where("serial", ("0001",)),
    "{numaNode: 0}": Where("numaNode", ("0",)),
    "{attr: {speed: 480}}": Where("attr:speed", ("480",)),
    "{property: {ID_BUS: [usb, pci]}}": Where("property:ID_BUS", ("usb", "pci")),
    "{not: {driver: hub}}": Not(Where("driver", ("hub",))),
    "{driver: a, bus: usb}": AllOf((Where("driver", ("a",)), Where("bus", ("usb",)))),
    "{or: [{bus: usb}, {bus: pci, class: '03*'}]}": AnyOf(
        (Where("bus", ("usb",)), AllOf((Where("bus", ("pci",)), Where("class", ("03*",)))))
    ),
    "{and: [{bus: usb}, {not: {port: 1-1}}]}": AllOf((Where("bus", ("usb",)), Not(Where("port", ("1-1",))))),
}


@pytest.mark.parametrize(("text", "wanted"), SELECTORS.items(), ids=SELECTORS)
def test_selectors(text: str, wanted: Selector) -> None:
    assert selector(text) == wanted


def test_nodes_of_usb_devices() -> None:
    entry = only(
        "{name: x, usb: [{vendor: 10c4}], bundle: true, nodes: [tty, {subsystem: hidraw, mountPath: /dev/h/}]}"
    )
    assert entry.groups[0].what == Usb(
        (UsbRule(0x10C4, None),),
        bundles=True,
        nodes=(NodeRule(Where("subsystem", ("tty",))), NodeRule(Where("subsystem", ("hidraw",)), "/dev/h/")),
        has_raw_node=False,
    )


def test_the_raw_node_comes_unless_there_are_others() -> None:
    assert only("{name: x, usb: [{vendor: 10c4}]}").groups[0].what == Usb((UsbRule(0x10C4, None),), has_raw_node=True)
    what = only("{name: x, usb: [{vendor: 10c4}], nodes: [tty], rawNode: true}").groups[0].what
    assert isinstance(what, Usb)
    assert what.has_raw_node


def test_interfaces_and_tokens() -> None:
    assert only("{name: x, interfaces: {driver: mlx5_core}, interfaceName: net1}").groups[0].what == Interfaces(
        Where("driver", ("mlx5_core",)), "net1"
    )
    licences = only("{name: x, tokens: 7}").groups[0]
    assert (licences.what, licences.count) == (Tokens(), 7)


def test_what_a_container_gets() -> None:
    group = only(
        "{name: x, paths: [/dev/x], env: {'A_${index}': '{path}', B: 1, C: true, D: 0644},"
        " annotations: {a/b: '{name}'}, mounts: [{hostPath: '/run/{serial}'}],"
        " cdi: a.b/c, links: true, onePerContainer: true, numaNodes: []}"
    ).groups[0]
    assert group.gifts == Gifts(
        env={"A_${index}": "{path}", "B": "1", "C": "true", "D": "0644"},
        mounts=(MountRule("/run/{serial}", "/run/{serial}"),),
        annotations={"a/b": "{name}"},
        cdi_kind="a.b/c",
        keeps_links=True,
    )
    assert group.has_one_share_per_container
    assert group.numa_nodes == frozenset()


def test_health_and_release() -> None:
    group = only(
        "{name: x, paths: [/dev/x], health: {open: true, driver: true, exec: [probe, 1], every: 1m, timeout: 2s, "
        "grace: 0s}, release: {exec: [reset, '{path}'], timeout: 1m30s}}"
    ).groups[0]
    assert group.health == HealthRule(True, True, CommandRule(("probe", "1"), timeout_s=2, every_s=60), grace_s=0)
    assert group.release == CommandRule(("reset", "{path}"), timeout_s=90)


def test_parts_beside_groups_count_for_those_without_their_own() -> None:
    entry = only("{name: x, env: {A: 1}, links: true, groups: [{paths: [/dev/x]}, {paths: [/dev/y], env: {B: 2}}]}")
    assert [group.gifts.env for group in entry.groups] == [{"A": "1"}, {"B": "2"}]
    assert [group.gifts.keeps_links for group in entry.groups] == [True, True]


def test_preference_and_sharing() -> None:
    entry = only("{name: x, paths: [/dev/x], prefer: pcieRoot, shared: true}")
    assert (entry.prefers, entry.is_shared) == (PreferenceRule.PCIE_ROOT, True)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("serial", ("a.b", "serial")),
        ("c.d/serial", ("c.d", "serial")),
        ("'{vendor}-{model}'", ("a.b", "{vendor}-{model}")),
        ("'c.d/{vendor}'", ("c.d", "{vendor}")),
        ("'{attr:id/vendor}'", ("a.b", "{attr:id/vendor}")),
        ("big_1.x", ("a.b", "big_1.x")),
    ],
)
def test_names(name: str, wanted: tuple[str, str]) -> None:
    entry = only(f"{{name: {name}, match: {{subsystem: tty}}}}")
    assert (entry.domain, entry.name) == wanted


def test_every_property_may_stand_in_a_template() -> None:
    for each in (*FACTS, "attr:a/b", "property:ID_X"):
        entry = only(f"{{name: x, paths: [/dev/x], env: {{A: '{{{each}}}'}}}}")
        assert entry.groups[0].gifts.env == {"A": f"{{{each}}}"}


WRONG = {
    "{name: -x, tokens: 1}": "f:3:4: devices[0].name: '-x' is not the name of a resource",
    "{name: kubernetes.io/x, tokens: 1}": "f:3:4: devices[0].name: 'kubernetes.io' is not a domain of resources",
    "{name: a/b/c, tokens: 1}": "f:3:4: devices[0].name: 'b/c' is not the name of a resource",
    "{name: '{', tokens: 1}": "f:3:4: devices[0].name: this { has no }",
    "{name: '{vendr}', tokens: 1}": 'f:3:4: devices[0].name: {vendr} is not a property; did you mean "vendor"?',
    "{name: x, tokens: 1, env: {'A${i}': b}}": "f:3:30: devices[0].env[A${i}]: ${i} is not known here",
    "{name: x, tokens: 1, env: {A: '{b c}'}}": "f:3:33: devices[0].env.A: {b c} is not the name of a property",
    "{name: x, tokens: 1, env: {A=: b}}": "f:3:30: devices[0].env[A=]: 'A=' is not the name of a variable",
    "{name: x, tokens: 1, count: 2}": "f:3:24: devices[0].count: means nothing with tokens, only with paths or usb",
    "{name: x, tokens: 1, bundle: true}": "f:3:24: devices[0].bundle: means nothing with tokens, only with usb",
    "{name: x, tokens: 1, cdi: gopher}": "f:3:29: devices[0].cdi: 'gopher' is not the kind of a CDI spec",
    "{name: x, tokens: 1, health: {every: 1s}}": "f:3:33: devices[0].health.every: means nothing without exec",
    "{name: x, tokens: 1, health: {exec: []}}": "f:3:39: devices[0].health.exec: names no program",
    "{name: x, tokens: 1, health: {grace: 5}}": "f:3:40: devices[0].health.grace: wants a time with its unit",
    "{name: x, tokens: 1, release: {}}": "f:3:33: devices[0].release: has no exec, which it needs",
    "{name: x, tokens: 010}": "f:3:21: devices[0].tokens: 010 is ambiguous",
    "{name: x, interfaces: {}}": "f:3:25: devices[0].interfaces: is empty, so that it would choose everything",
    "{name: x, interfaces: {bus: usb}, interfaceName: lo}": "f:3:52: devices[0].interfaceName: lo is the name",
    "{name: x, interfaces: {bus: usb}, count: 2}": "f:3:37: devices[0].count: means nothing with interfaces, only with "
    "paths or usb or match; a network interface is in one pod at a time",
    "{name: x, interfaces: {bus: usb}, onePerContainer: true}": "f:3:37: devices[0].onePerContainer: means",
    "{name: x, match: {vendor: []}}": "f:3:29: devices[0].match.vendor: is empty, so that nothing could match",
    "{name: Fuse, tokens: 1}": "f:3:4: devices[0].name: 'Fuse' is not the name of a resource: lower-case letters, "
    'digits, and -, _ or . between them, 63 characters at most; did you mean "fuse"?',
    "{name: x, match: {vendor: 0407}}": "f:3:29: devices[0].match.vendor: 0407 is ambiguous",
    "{name: x, match: {serial: ''}}": "f:3:29: devices[0].match.serial: is empty, so that nothing could match",
    "{name: x, match: {name: [a, '']}}": "f:3:31: devices[0].match.name[1]: is empty, so that nothing could match",
    "{name: x, match: {attr: {s: ''}}}": "f:3:31: devices[0].match.attr.s: is empty, so that nothing could match",
    "{name: x, match: {vendor: 407}}": "f:3:29: devices[0].match.vendor: 407 is ambiguous",
    "{name: x, match: {attrs: {a: b}}}": "f:3:21: devices[0].match.attrs: is not a known field; write attr",
    "{name: x, match: {not: {}}}": "f:3:26: devices[0].match.not: is empty",
    "{name: x, match: {or: [{bus: usb}, {}]}}": "f:3:38: devices[0].match.or[1]: is empty",
    "{name: x, match: {vendor: }}": "f:3:20: devices[0].match: is empty",
    "{name: x, match: {bus: usb}, nodes: [{optional: true}]}": "f:3:40: devices[0].nodes[0]: has no property that",
    "{name: x, groups: [{tokens: 1}, {tokens: 1, cdi: a.b/c}]}": "f:3:35: devices[0]: has another cdi",
    "{name: x, replicas: 2, paths: [/dev/x]}": "f:3:13: devices[0].replicas: is not a known field; write count",
    "{name: x, groups: [{paths: [/dev/x]}], count: 2}": "f:3:42: devices[0].count: count belongs into a group",
    "{paths: [/dev/x]}": "f:3:3: devices[0]: has no name, which it needs",
    "{name: 5, tokens: 1}": 'f:3:10: devices[0].name: wants a text (in quotes: "5"), found the number 5',
}


@pytest.mark.parametrize(("entry", "words"), WRONG.items(), ids=WRONG)
def test_what_is_wrong_is_told_with_its_place(entry: str, words: str) -> None:
    assert problem(entry).startswith(words)


def test_the_lenient_do_not_choose_everything_by_a_misspelt_property() -> None:
    text = "domain: a.b\ndevices: [{name: x, match: {vendr: 10c4}}]\n"
    (found,) = examine_config(text, source="f", options=ReadOptions(is_lenient=True)).errors
    assert "would choose everything" in found.sentence


def test_all_problems_of_an_entry_without_a_name_are_told() -> None:
    text = "domain: a.b\ndevices: [{tokens: 1, usb: [{}]}, {paths: [{}], nodes: [tty], release: {}}]\n"
    assert [each.text.partition(";")[0] for each in examine_config(text, source="f").errors] == [
        "has no name, which it needs",
        "usb and tokens exclude each other in one group",
        "has no name, which it needs",
        "has no path, which it needs",
        "means nothing with paths, only with usb or match",
        "has no exec, which it needs",
    ]


def test_names_are_unique_in_their_domain() -> None:
    names = ("name: x", "name: x, domain: c.d", "name: a.b/x")
    text = "domain: a.b\ndevices:\n" + "".join(f"- {{{name}, tokens: 1}}\n" for name in names)
    (found,) = examine_config(text, source="f").errors
    assert found.sentence == "f:5:4: devices[2].name: a.b/x is there already, in line 3; names are unique"


def test_a_device_flag_is_an_entry() -> None:
    options = ReadOptions(domain="a.b")
    flag = parse_device_flag('{"name": "x", "usb": [{"vendor": 1209}]}', source="--device", options=options)
    assert flag.entries == (only("{name: x, usb: [{vendor: '1209'}]}"),)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("serial,/dev/ttyUSB*", "--device:1:1: is not a device entry; write one such as {name: serial"),
        ("{name: x}", "--device:1:1: has none of paths"),
        ("{name: x, paths: [x]}", "--device:1:19: paths[0].path: 'x' is not a path from the root"),
        ("", "--device:1:1: is empty"),
        ("{", "--device:1:2: not valid YAML"),
    ],
)
def test_a_wrong_device_flag_is_told_with_its_place(text: str, words: str) -> None:
    with pytest.raises(InvalidGenericConfig) as caught:
        parse_device_flag(text, source="--device")
    assert str(caught.value).startswith(words)


def test_a_flag_takes_the_place_of_the_domain_of_a_file() -> None:
    config = read_config("devices: [{name: x, paths: [/dev/x]}]", source="f", options=ReadOptions(domain="c.d"))
    assert config.entries[0].domain == "c.d"
    assert config.warnings == ()


def test_devices_that_do_not_count_are_not_looked_at() -> None:
    text = "domain: a.b\ndevices: wrong\nlisten: :1\n"
    config = read_config(text, source="f", options=ReadOptions(skips_devices=True))
    assert (config.entries, config.settings["listen"]) == ((), ":1")


def test_patterns_alone_are_paths() -> None:
    assert (
        only("{name: x, paths: [/dev/x, {path: /dev/y}]}").groups[0].what
        == only("{name: x, paths: [{path: /dev/x}, {path: /dev/y}]}").groups[0].what
    )
    assert isinstance(only("{name: x, paths: [/dev/x]}").groups[0].what, Paths)


def test_a_domain_that_kubelets_refuse_is_told_at_its_own_place() -> None:
    text = "domain: kubernetes.io\ndevices: [{name: a, tokens: 1}, {name: b, tokens: 1}]\n"
    found = [each.sentence for each in examine_config(text, source="f").errors]
    assert found == [
        "f:1:9: domain: 'kubernetes.io' is not a domain of resources: the kubelet would refuse it; write one such as "
        "example.com"
    ]
