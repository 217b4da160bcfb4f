"""What a pod's resolv.conf and hosts say."""

from __future__ import annotations

import pytest

from plugbay.model.resolution import NO_DNS, DnsConfig, DnsPolicy, HostAlias, alias_lines, pod_dns

HOST = DnsConfig(("10.0.0.1", "10.0.0.2"), ("a.example",), ("ndots:1", "rotate"))
OWN = DnsConfig(("10.0.0.2", "10.0.0.3", "10.0.0.4"), ("b.example", "a.example"), ("ndots:5",))


@pytest.mark.parametrize("policy", [None, *DnsPolicy])
def test_without_words_of_its_own_a_pod_has_the_hosts_unless_it_wants_none(policy: DnsPolicy | None) -> None:
    assert pod_dns(policy, NO_DNS, host=HOST) == (NO_DNS if policy is DnsPolicy.NONE else HOST)


def test_its_own_come_after_the_hosts_and_its_options_win() -> None:
    assert pod_dns(DnsPolicy.DEFAULT, OWN, host=HOST) == DnsConfig(
        ("10.0.0.1", "10.0.0.2", "10.0.0.3"), ("a.example", "b.example"), ("ndots:5", "rotate")
    )


def test_with_policy_none_there_is_nothing_but_its_own() -> None:
    assert pod_dns(DnsPolicy.NONE, OWN, host=HOST) == OWN


def test_a_host_that_says_nothing_leaves_it_to_the_engine() -> None:
    assert pod_dns(None, NO_DNS, host=None) is None
    assert pod_dns(None, OWN, host=None) == OWN


def test_aliases_are_lines_of_their_own() -> None:
    assert alias_lines([]) == ""
    lines = alias_lines([HostAlias("10.0.0.9", ("x", "y.example")), HostAlias("::9", ("z",))])
    assert lines == "\n# Entries added by HostAliases.\n10.0.0.9\tx\ty.example\n::9\tz\n"
