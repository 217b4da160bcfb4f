"""A context for tests of single parts: a plugin, its ledger, and no kubelet."""

from __future__ import annotations

from pathlib import Path

from plugbay import DevicePlugin
from plugbay.kubelet.paths import KubeletPaths
from plugbay.sdk.author.plugin import resource_of
from plugbay.sdk.author.release_settings import ReleaseSettings
from plugbay.sdk.release.context import Context, NextLook
from plugbay.sdk.release.evidence.evidence import Evidence
from plugbay.sdk.release.evidence.pod_lists import Shared
from plugbay.sdk.release.ledger.ledger import Ledger


def context_of(plugin: DevicePlugin, ledger: Ledger, directory: Path) -> Context:
    paths, resource = KubeletPaths(directory), resource_of(plugin)
    shared = Shared(ReleaseSettings(), paths)
    evidence = Evidence(resource, ledger, shared, paths, lambda: 0)
    return Context(plugin, resource, ledger, evidence, shared, NextLook())
