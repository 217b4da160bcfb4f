"""How the answers of a PodResources service are printed."""

from dataclasses import replace

from plugbay.cli.see.kubelet.podresources_rows import as_json, rows, wide_rows
from plugbay.model.ids import ContainerName, DeviceId, ResourceName
from plugbay.model.podresources import (
    ClaimResource,
    ContainerDevices,
    ContainerMemory,
    ContainerResources,
    DynamicResource,
    PodResources,
)

GPU = ResourceName("example.com/gpu")
HOLDER = PodResources(
    "b",
    "train",
    (
        ContainerResources(
            ContainerName("main"),
            (
                ContainerDevices(GPU, (DeviceId("g1"),), (1,)),
                ContainerDevices(GPU, (DeviceId("g0"),), (0,)),
                ContainerDevices(GPU, (DeviceId("g0"),), (1,)),
                ContainerDevices(ResourceName("example.com/nic"), (DeviceId("n0"),)),
            ),
        ),
        ContainerResources(ContainerName("idle")),
    ),
)
PINNED = PodResources(
    "a",
    "pinned",
    (
        ContainerResources(
            ContainerName("c"),
            cpu_ids=(3, 2),
            memory=(ContainerMemory("memory", 1024, (0,)),),
            dynamic_resources=(DynamicResource("claim", "a", (ClaimResource("d.e.com", "n1", "g"),)),),
        ),
    ),
)


def test_row_counts_a_device_on_two_nodes_once() -> None:
    assert list(rows([HOLDER, PINNED])) == [
        ("b", "train", "main", "example.com/gpu", "g0,g1", "0,1"),
        ("b", "train", "main", "example.com/nic", "n0", "<none>"),
    ]


def test_wide_rows_show_every_container_and_what_else_it_has() -> None:
    assert [row[1:] for row in wide_rows([HOLDER, PINNED])] == [
        ("pinned", "c", "<none>", "<none>", "<none>", "2,3", "memory=1024", "a/claim"),
        ("train", "main", "example.com/gpu", "g0,g1", "0,1", "<none>", "<none>", "<none>"),
        ("train", "main", "example.com/nic", "n0", "<none>", "<none>", "<none>", "<none>"),
        ("train", "idle", "<none>", "<none>", "<none>", "<none>", "<none>", "<none>"),
    ]


def test_pod_with_cpus_as_a_whole_is_told_before_its_containers() -> None:
    whole = replace(PINNED, cpu_ids=(2, 3, 4), memory=(ContainerMemory("memory", 4096),))
    before, _ = wide_rows([whole])
    assert before == ("a", "pinned", "<none>", "<none>", "<none>", "<none>", "2,3,4", "memory=4096", "<none>")
    (told,) = as_json([whole])["podResources"]
    assert (told["cpuIds"], told["memory"]) == ([2, 3, 4], [{"memoryType": "memory", "size": 4096}])


def test_json_has_the_answer_as_it_came() -> None:
    (holder, pinned) = as_json([HOLDER, PINNED])["podResources"]
    assert (holder["namespace"], holder["name"]) == ("b", "train")
    main, idle = holder["containers"]
    assert main["devices"][0] == {
        "resourceName": "example.com/gpu",
        "deviceIds": ["g1"],
        "topology": {"nodes": [{"ID": 1}]},
    }
    assert main["devices"][3] == {"resourceName": "example.com/nic", "deviceIds": ["n0"]}
    assert idle == {"name": "idle"}
    assert pinned["containers"][0] == {
        "name": "c",
        "cpuIds": [3, 2],
        "memory": [{"memoryType": "memory", "size": 1024, "topology": {"nodes": [{"ID": 0}]}}],
        "dynamicResources": [
            {
                "claimName": "claim",
                "claimNamespace": "a",
                "claimResources": [{"driverName": "d.e.com", "poolName": "n1", "deviceName": "g"}],
            }
        ],
    }
