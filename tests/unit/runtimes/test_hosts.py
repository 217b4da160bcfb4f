"""The names of pods, by themselves and in ``/etc/hosts``, and the name servers of the host."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from plugbay.model.resolution import DnsConfig, HostAlias
from plugbay.runtimes.hosts import hostname, hosts_text, parse_resolv_conf


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


def test_resolv_conf_is_read_as_a_kubelet_reads_it() -> None:
    text = (
        "# made by hand\nnameserver 10.0.0.1\nnameserver 10.0.0.2 # second\nnameserver fd00::1\nnameserver 10.0.0.4\n"
        "search old.example\nsearch a.example. b.example\noptions ndots:1 ndots:2\noptions timeout:1\nnonsense\n\n"
    )
    assert parse_resolv_conf(text) == DnsConfig(
        ("10.0.0.1", "10.0.0.2", "fd00::1"), ("a.example", "b.example"), ("ndots:2", "timeout:1")
    )
