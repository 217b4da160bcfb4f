"""Sandboxes of the oci runtime on a place of their own."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from plugbay.errors import NamespaceUnusable
from plugbay.kernel.netns import make_netns, remove_netns
from plugbay.model.ids import PodUid
from plugbay.model.resolution import DnsConfig
from plugbay.runtimes.oci.handlers import handler_of
from plugbay.runtimes.oci.network import PodNetwork
from plugbay.runtimes.oci.pod_files import HostFiles
from plugbay.runtimes.oci.sandbox_plan import Rights
from plugbay.runtimes.oci.sandboxes import OciSandboxes, SandboxPlaces
from plugbay.runtimes.oci.shared_directory import remove_shared
from plugbay.runtimes.sandboxes import Network
from tests.container_specs import sandbox_spec
from tests.contract.rigs.fake_cni import MAKES, PASSES, Machine

PROC = Path("/proc")
DEADLINE_S = 30
POD = PodUid("7a5e-sandbox")
SPEC = sandbox_spec(POD, "default", "web")
HOST_FILES = HostFiles("127.0.0.1 localhost of-the-host\n", DnsConfig(("10.0.0.1",), ("host.example",), ("ndots:1",)))
PLUGINS = [{"type": "first", "capabilities": {"portMappings": True}}, {"type": "second"}]


class Place:
    """What one node after another finds."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.machine = Machine(root)
        # Of the whole path: tests beside this one may be called the same in a directory of their own.
        own = hashlib.sha256(bytes(root)).hexdigest()[:8]
        self.places = SandboxPlaces(root / "sandboxes", root / "netns", root / "shared", f"plugbay-test-{own}")

    def install(self) -> None:
        self.machine.install("first", MAKES)
        self.machine.install("second", PASSES)
        (self.root / "conf").mkdir()
        document = {"cniVersion": "1.0.0", "name": "net", "plugins": PLUGINS}
        (self.root / "conf" / "10-net.conflist").write_text(json.dumps(document))

    def node(self, default: Network = Network.POD, rights: Rights = Rights.ROOT) -> OciSandboxes:
        network = PodNetwork(self.machine.runtime, self.root / "conf", proc_root=PROC)
        return OciSandboxes(
            self.places,
            network,
            default=default,
            has_handler=lambda name: handler_of(name, engine="runc") is not None,
            host=HOST_FILES,
            rights=rights,
        )

    def left(self) -> list[str]:
        """Files of sandboxes, namespaces and results, and mounts."""
        directories = (self.places.records, self.places.namespaces, self.root / "shared", self.root / "cache")
        files = [str(each) for directory in directories for each in directory.rglob("*") if each.is_file()]
        mounts = [line for line in (PROC / "self/mountinfo").read_text().splitlines() if str(self.root) in line]
        return [each for each in files if "lock" not in each and Path(each).stat().st_size] + mounts


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    try:
        make_netns(tmp_path / "try", proc_root=PROC)
    except NamespaceUnusable as error:
        pytest.skip(str(error))
    remove_netns(tmp_path / "try")
    made = Place(tmp_path)
    made.install()
    yield made
    for each in made.places.namespaces.glob("*"):
        remove_netns(each)
    for each in (tmp_path / "shared").glob("*"):
        remove_shared(each)
