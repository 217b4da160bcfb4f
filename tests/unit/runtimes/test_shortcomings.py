"""What a runtime does not do that a pod asks for is told in events of the pod."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from plugbay.model.edits import ContainerEdits, DeviceNode, Mount
from plugbay.runtimes.port import ContainerSpec, Notice, NoticeKind
from plugbay.runtimes.process.unconfined import Unconfined
from plugbay.testing.fake_node import FakeNode
from plugbay.testing.fake_runtime import FakeRuntime
from plugbay.testing.pod_values import pod, runs
from tests.container_specs import container_spec

SAME = Mount("/srv/same")
MOUNT = Mount("/srv/gophers", container_path="/etc/gophers")
NODE = DeviceNode("/dev/gopher1", container_path="/dev/gopher")
IMAGE = 'Container image "busybox" is not used: the process runtime runs the programs of this machine.'
PATHS = "The process runtime cannot place"


@pytest.mark.parametrize(
    ("image", "edits", "told"),
    [
        pytest.param("", ContainerEdits(mounts=(SAME,)), [], id="nothing"),
        pytest.param("busybox", ContainerEdits(), [("ImageNotUsed", IMAGE)], id="image"),
        pytest.param(
            "",
            ContainerEdits(mounts=(MOUNT,), device_nodes=(NODE,)),
            [
                (
                    "PathsNotPlaced",
                    f"{PATHS} /dev/gopher (it is /dev/gopher1), /etc/gophers (it is /srv/gophers); the variable "
                    "PLUGBAY_MOUNTS says where they lie.",
                )
            ],
            id="paths",
        ),
        pytest.param(
            "",
            ContainerEdits(mounts=tuple(Mount("/srv", container_path=f"/{number}") for number in range(7))),
            [("PathsNotPlaced", ", ".join(f"/{number} (it is /srv)" for number in range(5)) + " and 2 more;")],
            id="many-paths",
        ),
    ],
)
def test_the_process_runtime_says_what_it_leaves_out(
    image: str, edits: ContainerEdits, told: list[tuple[str, str]]
) -> None:
    spec = container_spec(image=image, edits=edits)
    notices = Unconfined(home="/").shortcomings(spec)
    assert [(each.kind, each.reason) for each in notices] == [(NoticeKind.WARNING, reason) for reason, _ in told]
    assert all(text in notice.message for notice, (_, text) in zip(notices, told, strict=True))


class Modest(FakeRuntime):
    def shortcomings(self, spec: ContainerSpec) -> Sequence[Notice]:
        return [Notice(NoticeKind.WARNING, "ImageNotUsed", f"{spec.container.name} runs something else")]


async def test_what_a_runtime_leaves_out_is_an_event_of_the_pod(tmp_path: Path) -> None:
    node = FakeNode(tmp_path)
    node.runtime = Modest(node.clock, node.moved)
    async with node.engine() as engine:
        await engine.create(pod())
        await node.until(runs(0))
    (event,) = [each for each in node.events if each.reason == "ImageNotUsed"]
    assert (event.type.value, event.message, event.about.field_path) == (
        "Warning",
        "c runs something else",
        "spec.containers{c}",
    )
