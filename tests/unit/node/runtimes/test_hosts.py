"""What pods are called, by themselves and in ``/etc/hosts``."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from plugbay.model.resolution import HostAlias
from plugbay.node.runtimes.hosts import hostname, hosts_text


@given(st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,250}[a-z0-9])?", fullmatch=True))
def test_host_names_are_such(name: str) -> None:
    made = hostname(name)
    assert 1 <= len(made) <= 63
    assert name.startswith(made)
    assert made[-1] not in "-."


def test_pod_finds_itself_and_its_aliases_after_localhost() -> None:
    lines = hosts_text(("10.0.0.5", "fd00::5"), "web", [HostAlias("10.9.9.9", ("db",))]).splitlines()
    assert lines[1] == "127.0.0.1\tlocalhost"
    assert lines[-1].split() == ["10.9.9.9", "db"]
    text = "\n".join(lines)
    assert "\n10.0.0.5\tweb\nfd00::5\tweb\n" in text
