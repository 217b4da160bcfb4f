"""Images: their names, when they are pulled, and how long a pull that failed is left alone.

Source: kubelet 1.36 ``images/image_manager.go``, ``parsers/parsers.go``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from plugbay.errors import ContainerStartError, RpcFailed
from plugbay.model.cri import Image, SandboxConfig
from plugbay.model.ids import PodUid
from plugbay.model.images import PullPolicy, with_default_tag
from plugbay.model.registry_logins import NO_PULL_ACCESS, PullAccess, RegistryLogin, logins_for
from plugbay.model.security import non_root_violation
from plugbay.ops.backoff import Delays
from plugbay.ops.clock import Clock
from plugbay.runtimes.port import ContainerSpec, Notice, NoticeKind
from plugbay.values import dataclass
from plugbay.wire.cri import CriClient

_REFERENCE: Final = re.compile(
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::\d+)?/)?"
    r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*)*"
    r"(?::\w[\w.-]{0,127})?(?:@[A-Za-z][\w+.-]*:[0-9a-fA-F]{32,})?",
    re.ASCII,
)


PULLS: Final = Delays(10.0, 300.0)
"""Delays between pulls that fail. A kubelet keeps them for each pod and image."""


@dataclass(frozen=True, slots=True)
class _Trouble:
    """Failed pulls of one image for one pod.

    Attributes:
        problem: the last failure.
        until: when the next pull may start, on the monotonic clock.
    """

    problem: str
    failures: int
    until: float


class ImagePuller:
    """Makes sure that images are on the machine."""

    def __init__(self, client: CriClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._troubles: dict[tuple[PodUid, str, tuple[RegistryLogin, ...]], _Trouble] = {}

    async def ensure(
        self,
        image: str,
        policy: PullPolicy,
        access: PullAccess = NO_PULL_ACCESS,
        *,
        sandbox: SandboxConfig,
        tell: Callable[[Notice], None],
    ) -> None:
        """Returns when ``image`` is there. Pulling may take long, and can be broken off.

        Raises:
            ContainerStartError: it is not there, with the reason that a kubelet shows.
        """
        try:
            name = checked_name(image)
            present = await self._inspect(name, image)
        except ContainerStartError as error:
            tell(Notice(NoticeKind.WARNING, "InspectFailed", str(error)))
            raise
        if present is not None and policy is not PullPolicy.ALWAYS:
            problem = f'Container image "{image}" already present on machine and can be accessed by the pod'
            tell(Notice(NoticeKind.NORMAL, "Pulled", problem))
            return
        if policy is PullPolicy.NEVER:
            problem = f'Container image "{image}" is not present with pull policy of Never'
            tell(Notice(NoticeKind.WARNING, "ErrImageNeverPull", problem))
            raise ContainerStartError("ErrImageNeverPull", problem)
        if access.missing:
            names = ", ".join(access.missing)
            problem = (
                f"Unable to retrieve some image pull secrets ({names}); attempting to pull the image may not succeed."
            )
            tell(Notice(NoticeKind.WARNING, "FailedToRetrieveImagePullSecret", problem))
        await self._pull(name, image, access.logins, sandbox, tell)

    async def _inspect(self, name: str, image: str) -> Image | None:
        try:
            return await self._client.image(name)
        except RpcFailed as error:
            raise ContainerStartError("ImageInspectError", f'Failed to inspect image "{image}": {error}') from error

    async def known(self, image: str) -> Image:
        """An image that was there a moment ago.

        Raises:
            ContainerStartError: it was removed since.
        """
        found = await self._client.image(checked_name(image))
        if found is None:
            raise ContainerStartError("CreateContainerError", f'the image "{image}" was removed from the engine')
        return found

    async def _pull(
        self,
        name: str,
        image: str,
        logins: tuple[RegistryLogin, ...],
        sandbox: SandboxConfig,
        tell: Callable[[Notice], None],
    ) -> None:
        key = (PodUid(sandbox.uid), name, logins)  # with other logins it is worth another try
        trouble = self._troubles.get(key)
        started = self._clock.monotonic()
        if trouble is not None and started < trouble.until:
            problem = f'Back-off pulling image "{image}"'
            tell(Notice(NoticeKind.NORMAL, "BackOff", problem))
            raise ContainerStartError("ImagePullBackOff", f"{problem}: ErrImagePull: {trouble.problem}")
        tell(Notice(NoticeKind.NORMAL, "Pulling", f'Pulling image "{image}"'))
        try:
            await self._pull_with_any(name, logins_for(name, logins), sandbox)
            pulled = await self._client.image(name)
        except RpcFailed as error:
            tell(Notice(NoticeKind.WARNING, "Failed", f'Failed to pull image "{image}": {error}'))
            failures = 1 if trouble is None else trouble.failures + 1
            self._forget_old()
            self._troubles[key] = _Trouble(str(error), failures, self._clock.monotonic() + PULLS.after(failures))
            raise ContainerStartError("ErrImagePull", str(error)) from error
        self._troubles.pop(key, None)
        took = elapsed(self._clock.monotonic() - started)
        size = f" Image size: {pulled.size} bytes." if pulled is not None else ""
        message = f'Successfully pulled image "{image}" in {took} ({took} including waiting).{size}'
        tell(Notice(NoticeKind.NORMAL, "Pulled", message))

    async def _pull_with_any(self, name: str, logins: list[RegistryLogin], sandbox: SandboxConfig) -> None:
        """Try one login after the other; without any, as anybody."""
        tries: list[RegistryLogin | None] = [*logins] or [None]
        *others, last = tries
        for login in others:
            try:
                await self._client.pull_image(name, sandbox, login)
            except RpcFailed:
                continue
            return
        await self._client.pull_image(name, sandbox, last)

    def _forget_old(self) -> None:
        """Forget failures that were not tried again: their pods are gone."""
        past = self._clock.monotonic() - 2 * PULLS.most_s
        for key in [key for key, trouble in self._troubles.items() if trouble.until < past]:
            del self._troubles[key]


def elapsed(seconds: float) -> str:
    """Print a duration as Go does, cut to milliseconds: ``0s``, ``20ms``, ``1.5s``, ``1m2s``."""
    whole_ms = int(seconds * 1000)
    if 0 < whole_ms < 1000:
        return f"{whole_ms}ms"
    minutes, rest_ms = divmod(whole_ms, 60_000)
    text = f"{rest_ms / 1000:.3f}".rstrip("0").rstrip(".")
    return f"{minutes}m{text}s" if minutes else f"{text}s"


def check_user(spec: ContainerSpec, image: Image) -> None:
    """Make sure that a container which must not be root has another user, by its own settings or by its image's.

    Raises:
        ContainerStartError: it would be root, or the user cannot be found out.

    Source: kubelet 1.36 ``kuberuntime/security_context.go``, ``verifyRunAsNonRoot``.
    """
    if not spec.container.security.run_as_non_root:
        return
    problem = ""
    if spec.container.security.run_as_user is not None or (image.user in (None, 0) and not image.user_name):
        problem = non_root_violation(spec.container.security)
    elif image.user_name:
        user = f"non-numeric user ({image.user_name})"
        problem = f"container has runAsNonRoot and image has {user}, cannot verify user is non-root"
    if problem:
        where = f'(pod: "{spec.pod.name}_{spec.pod.namespace}({spec.pod.uid})", container: {spec.container.name})'
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
