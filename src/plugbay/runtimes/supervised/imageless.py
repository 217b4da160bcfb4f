"""Checks for runtimes without images, which cannot start all that a pod may ask for."""

from __future__ import annotations

from plugbay.errors import ContainerStartError
from plugbay.model.security import non_root_violation
from plugbay.runtimes.port import ContainerSpec, Notice, NoticeKind


def check_startable(spec: ContainerSpec) -> None:
    """Refuse a container that leaves its command, or a user other than root, to its image.

    Raises:
        ContainerStartError: only an image could say what runs, or as which user.
    """
    if not spec.argv:
        raise ContainerStartError(
            "CreateContainerError", "no command specified: an image's own command is not known here"
        )
    if problem := non_root_violation(spec.container.security):
        where = f'(pod: "{spec.pod.name}_{spec.pod.namespace}({spec.pod.uid})", container: {spec.container.name})'
        raise ContainerStartError("CreateContainerConfigError", f"{problem} {where}")


def unused_image(spec: ContainerSpec, *, instead: str) -> list[Notice]:
    """Notices that the image which the pod names is not used; ``instead`` says what the container runs."""
    if not spec.container.image:
        return []
    message = f'Container image "{spec.container.image}" is not used: {instead}. Images need --runtime cri'
    return [Notice(NoticeKind.WARNING, "ImageNotUsed", message)]
