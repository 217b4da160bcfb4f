"""``$(NAME)`` references in a container's env, command and args."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from plugbay.model.pods import Container

_REFERENCE: Final = re.compile(r"\$(?:\$|\((?P<name>[^)]*)\))")


def expand(text: str, env: Mapping[str, str]) -> str:
    """``text`` with each ``$(NAME)`` replaced by its value in ``env``.

    ``$$`` is one ``$`` and starts no reference. Unknown and unfinished references stay as they are. Values are put in
    literally, never expanded again.

    Source: Kubernetes 1.36 ``third_party/forked/golang/expansion/expand.go``.
    """

    def value(match: re.Match[str]) -> str:
        name = match["name"]
        return "$" if name is None else env.get(name, match[0])

    return _REFERENCE.sub(value, text)


def container_env(container: Container) -> dict[str, str]:
    """The environment the pod gives ``container``; if a name is given twice, the later value counts.

    A value may refer to variables that stand before it in the same container, never to variables of devices.

    Source: kubelet 1.36 ``kubelet_pods.go``, ``makeEnvironmentVariables``.
    """
    env: dict[str, str] = {}
    for variable in container.env:
        env[variable.name] = expand(variable.value, env)
    return env


def container_argv(container: Container, *, device_env: Mapping[str, str]) -> tuple[str, ...]:
    """Command and args, expanded with the environment of the devices and of the pod; the pod's values win.

    Without a command in the manifest the result is the args only: the image's entrypoint goes before them.

    Source: kubelet 1.36 ``container/helpers.go``, ``ExpandContainerCommandAndArgs``.
    """
    env = {**device_env, **container_env(container)}
    return tuple(expand(word, env) for word in (*container.command, *container.args))


def container_command(container: Container, *, device_env: Mapping[str, str]) -> tuple[str, ...]:
    """The command, the first part of `container_argv`."""
    return container_argv(container, device_env=device_env)[: len(container.command)]
