"""What runtimes without images cannot start, and what they start otherwise than the pod says."""

from __future__ import annotations

from plugbay.errors import ContainerStartError
from plugbay.model.security import non_root_violation
from plugbay.node.runtimes.port import ContainerSpec, Notice, NoticeKind


def check_startable(spec: ContainerSpec) -> None:
    """Only an image could say what runs, and as whom, where the pod does not.

    Raises:
        ContainerStartError: the pod leaves it to the image.
    """
    if not spec.argv:
        raise ContainerStartError(
            "CreateContainerError", "no command specified: an image's own command is not known here"
        )
    if problem := non_root_violation(spec.security):
        where = f'(pod: "{spec.pod}_{spec.namespace}({spec.pod_uid})", container: {spec.name})'
        raise ContainerStartError("CreateContainerConfigError", f"{problem} {where}")


def unused_image(spec: ContainerSpec, *, instead: str) -> list[Notice]:
    """Says that the image that the pod names is not used; ``instead``: what the container runs."""
    if not spec.image:
        return []
    message = f'Container image "{spec.image}" is not used: {instead}. Images need --runtime cri'
    return [Notice(NoticeKind.WARNING, "ImageNotUsed", message)]
