"""Animals whose answers to Allocate hold something that no container can get."""

from __future__ import annotations

from typing import ClassVar

from plugbay.wire.generated import deviceplugin_v1beta1_pb2 as pb
from tests.contract.testing.zoo.animal import Animal, rules


class GenerousAnimal(Animal):
    """Behaves, and adds ``extra`` to each answer."""

    extra: ClassVar[pb.ContainerAllocateResponse] = pb.ContainerAllocateResponse(
        mounts=[pb.Mount(container_path="/animals", host_path="/tmp")]
    )

    def container(self, request: pb.ContainerAllocateRequest) -> pb.ContainerAllocateResponse:
        answer = super().container(request)
        answer.MergeFrom(self.extra)
        return answer


def _node(*, container: str = "/dev/animal", host: str = "/dev/null", permissions: str = "rw") -> pb.DeviceSpec:
    return pb.DeviceSpec(container_path=container, host_path=host, permissions=permissions)


class MissingDevice(GenerousAnimal):
    caught_by = rules(411)
    extra = pb.ContainerAllocateResponse(devices=[_node(host="/dev/no-such-animal")])


class FileAsDevice(GenerousAnimal):
    caught_by = rules(412)
    extra = pb.ContainerAllocateResponse(devices=[_node(host="/etc/passwd")])


class RelativeDevicePath(GenerousAnimal):
    caught_by = rules(413)
    extra = pb.ContainerAllocateResponse(devices=[_node(container="dev/animal")])


class OddPermissions(GenerousAnimal):
    caught_by = rules(414)
    extra = pb.ContainerAllocateResponse(devices=[_node(permissions="x")])


class MissingMount(GenerousAnimal):
    caught_by = rules(415)
    extra = pb.ContainerAllocateResponse(mounts=[pb.Mount(container_path="/animals", host_path="/no/such/animal")])


class CoversRoot(GenerousAnimal):
    caught_by = rules(416)
    extra = pb.ContainerAllocateResponse(mounts=[pb.Mount(container_path="/", host_path="/tmp")])


class GivesPathTwice(GenerousAnimal):
    caught_by = rules(417)
    extra = pb.ContainerAllocateResponse(devices=[_node(), _node(host="/dev/zero")])


class OddVariable(GenerousAnimal):
    caught_by = rules(418)
    extra = pb.ContainerAllocateResponse(envs={"ANIMALS=": "many"})


class OddAnnotation(GenerousAnimal):
    caught_by = rules(419)
    extra = pb.ContainerAllocateResponse(annotations={"all our animals": "many"})


class OddCdiAnnotation(GenerousAnimal):
    caught_by = rules(420)
    extra = pb.ContainerAllocateResponse(annotations={"cdi.k8s.io/zoo": "ant"})


class UnqualifiedCdiName(GenerousAnimal):
    caught_by = rules(421)
    extra = pb.ContainerAllocateResponse(cdi_devices=[pb.CDIDevice(name="ant")])


class UnknownCdiDevice(GenerousAnimal):
    caught_by = rules(422)
    extra = pb.ContainerAllocateResponse(cdi_devices=[pb.CDIDevice(name="zoo.example/animal=no-such-ant")])
