"""Entries of the result cache, to the byte as libcni writes them, and read back."""

from __future__ import annotations

import base64
from dataclasses import replace

import pytest

from plugbay.cni.cached import CachedResult, decode, decode_listed, encode
from plugbay.cni.chain import Attachment
from plugbay.cni.result import parse

ATTACHMENT = Attachment(
    "c1",
    "/run/netns/c1",
    args=(("IgnoreUnknown", "1"), ("K8S_POD_NAME", "web<1>&ü")),
    capabilities={"mac": "02:00:00:00:00:01", "io.kubernetes.cri.pod-annotations": {"b": "1", "a": "\u2028"}},
)
RESULT = parse(
    {"cniVersion": "1.0.0", "ips": [{"address": "10.1.0.5/24"}], "interfaces": [{"name": "eth0", "sandbox": "/n"}]},
    version="",
)
CONFIG = b'{"cniVersion":"1.0.0","name":"net","plugins":[{"type":"first"}]}'
WRITTEN = (
    '{"kind":"cniCacheV1","containerId":"c1","config":"'
    + base64.b64encode(CONFIG).decode()
    + '","ifName":"eth0","networkName":"net","netns":"/run/netns/c1",'
    '"cniArgs":[["IgnoreUnknown","1"],["K8S_POD_NAME","web\\u003c1\\u003e\\u0026ü"]],'
    '"capabilityArgs":{"io.kubernetes.cri.pod-annotations":{"a":"\\u2028","b":"1"},"mac":"02:00:00:00:00:01"},'
    '"result":{"cniVersion":"1.0.0","interfaces":[{"name":"eth0","sandbox":"/n"}],"ips":[{"address":"10.1.0.5/24"}]}}'
).encode()


def test_entry_is_written_to_the_byte_and_read_back() -> None:
    entry = CachedResult("net", ATTACHMENT, CONFIG, RESULT)
    assert encode(entry) == WRITTEN
    assert decode(WRITTEN, network="net", attachment=ATTACHMENT) == decode_listed(WRITTEN) == entry


def test_what_is_empty_is_left_out() -> None:
    entry = CachedResult("net", Attachment("c1", ""), CONFIG, None)
    assert encode(entry).endswith(b'"ifName":"eth0","networkName":"net"}')
    assert decode_listed(encode(entry)) == entry


def test_entry_with_a_damaged_result_is_listed_without_it() -> None:
    damaged = WRITTEN.replace(b"10.1.0.5/24", b"10.1.0.5")
    assert decode_listed(damaged) == replace(decode_listed(WRITTEN), result=None)
    with pytest.raises(ValueError, match="is not an address with a prefix length"):
        decode(damaged, network="net", attachment=ATTACHMENT)


def test_numbers_are_written_as_go_writes_them() -> None:
    entry = decode_listed(WRITTEN.replace(b'"mac":"02:00:00:00:00:01"', b'"mtu":1.5e3,"x":[0.5,1e21,1.0]'))
    assert b'"mtu":1500,"x":[0.5,1e+21,1]' in encode(entry)
