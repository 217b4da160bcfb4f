"""The container that a request is about.

Source: Kubernetes 1.36 ``pkg/registry/core/pod/strategy.go`` (validateContainer).
"""

from __future__ import annotations

from plugbay.errors import ContainerNotFound
from plugbay.model.ids import ContainerName
from plugbay.ops.routing import HttpError, Request
from plugbay.pods.record import PodRecord


def container_of(pod: PodRecord, request: Request) -> ContainerName:
    """The container asked for, or the only one of the pod.

    Raises:
        ContainerNotFound: the pod has no such container.
        HttpError: 400, the pod has several to choose from.
    """
    asked = request.query.get("container")
    spec = pod.pod.spec
    if asked and ContainerName(asked) in pod.containers:
        return ContainerName(asked)
    if asked:
        raise ContainerNotFound(asked, pod.pod.name, list(pod.containers))
    if len(spec.containers) == 1:
        return spec.containers[0].name
    choice = f"choose one of: [{' '.join(each.name for each in spec.containers)}]"
    if spec.init_containers:
        choice += f" or one of the init containers: [{' '.join(each.name for each in spec.init_containers)}]"
    raise HttpError(400, "BadRequest", f"a container name must be specified for pod {pod.pod.name}, {choice}")
