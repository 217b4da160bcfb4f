"""Images: their names, when they are pulled, and how long a pull that failed is left alone.

Source: kubelet 1.36 ``images/image_manager.go``, ``parsers/parsers.go``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from plugbay.errors import ContainerStartError, RpcFailed
from plugbay.model.cri import Image, SandboxConfig
from plugbay.model.ids import PodUid
from plugbay.model.images import PullPolicy, with_default_tag
from plugbay.model.security import non_root_violation
from plugbay.node.backoff import FIRST_DELAY_S, MAX_DELAY_S
from plugbay.node.runtimes.port import ContainerSpec
from plugbay.ops.clock import Clock
from plugbay.wire.cri import CriClient

_REFERENCE: Final = re.compile(
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::\d+)?/)?"
    r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*)*"
    r"(?::\w[\w.-]{0,127})?(?:@[A-Za-z][\w+.-]*:[0-9a-fA-F]{32,})?",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class _Trouble:
    """Attributes: ``until``: on the monotonic clock."""

    problem: str
    delay_s: float
    until: float


class ImagePuller:
    """Sees to it that images are on the machine."""

    def __init__(self, client: CriClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._troubles: dict[tuple[PodUid, str], _Trouble] = {}

    async def ensure(self, image: str, policy: PullPolicy, *, sandbox: SandboxConfig) -> None:
        """Returns when ``image`` is there. Pulling may take long, and can be broken off.

        Raises:
            ContainerStartError: it is not there, with the reason that a kubelet shows.
            RpcFailed: the engine does not say.
        """
        name = checked_name(image)
        present = await self._client.image(name)
        if present is not None and policy is not PullPolicy.ALWAYS:
            return
        if policy is PullPolicy.NEVER:
            problem = f'Container image "{image}" is not present with pull policy of Never'
            raise ContainerStartError("ErrImageNeverPull", problem)
        await self._pull(name, image, sandbox)

    async def known(self, image: str) -> Image:
        """An image that was seen to be there.

        Raises:
            ContainerStartError: somebody removed it.
        """
        found = await self._client.image(checked_name(image))
        if found is None:
            raise ContainerStartError("CreateContainerError", f'the image "{image}" was removed from the engine')
        return found

    def forget(self, pod: PodUid) -> None:
        """A pod is gone: its troubles are nobody's any more."""
        for key in [key for key in self._troubles if key[0] == pod]:
            del self._troubles[key]

    async def _pull(self, name: str, image: str, sandbox: SandboxConfig) -> None:
        key = (PodUid(sandbox.uid), name)
        trouble = self._troubles.get(key)
        if trouble is not None and self._clock.monotonic() < trouble.until:
            problem = f'Back-off pulling image "{image}": ErrImagePull: {trouble.problem}'
            raise ContainerStartError("ImagePullBackOff", problem)
        try:
            await self._client.pull_image(name, sandbox)
        except RpcFailed as error:
            delay_s = min(trouble.delay_s * 2, MAX_DELAY_S) if trouble else FIRST_DELAY_S
            self._troubles[key] = _Trouble(str(error), delay_s, self._clock.monotonic() + delay_s)
            raise ContainerStartError("ErrImagePull", str(error)) from error
        self._troubles.pop(key, None)


def check_user(spec: ContainerSpec, image: Image) -> None:
    """A container that must not be root is none: by its own word, or by its image's.

    Raises:
        ContainerStartError: it would be root, or nobody can tell.

    Source: kubelet 1.36 ``kuberuntime/security_context.go``, ``verifyRunAsNonRoot``.
    """
    if not spec.security.run_as_non_root:
        return
    problem = ""
    if spec.security.run_as_user is not None or (image.user in (None, 0) and not image.user_name):
        problem = non_root_violation(spec.security)
    elif image.user_name:
        user = f"non-numeric user ({image.user_name})"
        problem = f"container has runAsNonRoot and image has {user}, cannot verify user is non-root"
    if problem:
        where = f'(pod: "{spec.pod}_{spec.namespace}({spec.pod_uid})", container: {spec.name})'
        raise ContainerStartError("CreateContainerConfigError", f"{problem} {where}")


def checked_name(image: str) -> str:
    """``image`` with the tag ``latest`` where it names none.

    Raises:
        ContainerStartError: no image can be called so.
    """
    if not _REFERENCE.fullmatch(image):
        unread = f'couldn\'t parse image name "{image}": invalid reference format'
        raise ContainerStartError("InvalidImageName", f'Failed to apply default image tag "{image}": {unread}')
    return with_default_tag(image)
