"""What runtimes without images cannot start."""

from __future__ import annotations

from plugbay.errors import ContainerStartError
from plugbay.model.security import non_root_violation
from plugbay.node.runtimes.port import ContainerSpec


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
