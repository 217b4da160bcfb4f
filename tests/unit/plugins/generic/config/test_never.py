"""Rules that could never give a device, or a value: they are refused with what to write."""

from __future__ import annotations

import pytest

from plugbay.plugins.generic.config.reading import examine_config
from plugbay.plugins.generic.config.rules import Entry


def read(entry: str) -> Entry | str:
    """The entry in line 3, or its only problem."""
    found = examine_config(f"domain: a.b\ndevices:\n- {entry}\n", source="f")
    if found.config is not None:
        return found.config.entries[0]
    [problem] = found.errors
    return problem.sentence


PATHS = "{name: x, paths: [/dev/x], "
NEVER = {
    "{name: x, tokens: 1, health: {exec: ['', a]}}": "f:3:39: devices[0].health.exec: names no program",
    "{name: x, tokens: 1, release: {exec: [' ']}}": "f:3:40: devices[0].release.exec: names no program",
    "{name: x, tokens: 1, env: {A: '{serial}'}}": "f:3:24: devices[0].env: {serial} would always be empty: tokens have "
    "no such property",
    "{name: x, tokens: 1, release: {exec: [a, '{path}']}}": "f:3:24: devices[0].release: {path} would always be empty",
    "{name: '{vendor}-tok', tokens: 1}": "f:3:4: devices[0].name: '{vendor}-tok' names no resource: tokens have no "
    "{vendor}",
    "{name: x, interfaces: {bus: usb}, env: {A: '{path}'}}": "f:3:37: devices[0].env: {path} would always be empty: "
    "network interfaces have no such property",
    f"{PATHS}env: {{A: '{{attr:}}'}}}}": "f:3:39: devices[0].env.A: {attr:} is not the name of an attribute",
    f"{PATHS}env: {{A: '{{attr:../../x}}'}}}}": "f:3:39: devices[0].env.A: {attr:../../x} is not the name of an",
    f"{PATHS}env: {{A: '{{property:}}'}}}}": "f:3:39: devices[0].env.A: {property:} is not the name of an attribute",
    "{name: x, usb: [{vendor: 10c4}], rawNode: false}": "f:3:36: devices[0].rawNode: leaves a container no node, so "
    "that the group would have no device; write nodes, such as tty",
    "{name: x, usb: [{vendor: 10c4}], nodes: []}": "f:3:36: devices[0].nodes: leaves a container no node",
    "{name: x, usb: [{vendor: 10c4}], nodes: [{mountPath: /x}]}": "f:3:44: devices[0].nodes[0]: has no property that",
}


@pytest.mark.parametrize(("entry", "words"), NEVER.items(), ids=NEVER)
def test_what_could_never_be_is_told_with_its_place(entry: str, words: str) -> None:
    problem = read(entry)
    assert isinstance(problem, str)
    assert problem.startswith(words)


def test_tokens_and_interfaces_have_some_properties() -> None:
    entry = read("{name: x-1, tokens: 1, env: {A: '{name}'}}")
    assert isinstance(entry, Entry)
    assert entry.groups[0].gifts.env == {"A": "{name}"}
    interfaces = "{name: '{driver}', interfaces: {bus: usb}, env: {A: '{serial}'}, interfaceName: '{name}'}"
    assert isinstance(read(interfaces), Entry)


@pytest.mark.parametrize("zero", ["0", "'0'", "0s"])
def test_zero_needs_no_unit_where_it_is_a_time(zero: str) -> None:
    entry = read(f"{PATHS}health: {{grace: {zero}}}}}")
    assert isinstance(entry, Entry)
    assert entry.groups[0].health.grace_s == 0
    problem = read(f"{PATHS}health: {{exec: [a], every: {zero}}}}}")
    assert isinstance(problem, str)
    assert "devices[0].health.every: wants a time with its unit, from 1s to 168h" in problem


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("8", "'8' matches no class, as one has two digits (USB) or six (PCI); write \"08\" in quotes"),
        ("'300'", "'300' matches no class, as one has two digits (USB) or six (PCI); write \"0300*\" in quotes"),
        ("0c03", "'0c03' matches no class, as one has two digits (USB) or six (PCI); write \"0c03*\" in quotes"),
        ("0x300", "'0x300' matches no class, as one has two digits (USB) or six (PCI); write \"0300*\" in quotes"),
        ("30000", "'30000' matches no class, as one has two digits (USB) or six (PCI); write \"030000\" in quotes"),
        ("08", '08 is ambiguous: to YAML it is an octal number, and classes are hexadecimal; write "08" in quotes'),
        ("030000", "030000 is ambiguous: to YAML it is an octal number, and classes are hexadecimal"),
        ("1e1000", "1e1000 is ambiguous: to YAML it is a number with an exponent, and classes are hexadecimal"),
    ],
)
def test_classes_that_match_nothing_or_are_ambiguous_are_told_with_what_to_write(text: str, words: str) -> None:
    problem = read(f"{{name: x, match: {{class: {text}}}}}")
    assert isinstance(problem, str)
    assert problem.startswith(f"f:3:28: devices[0].match.class: {words}")
