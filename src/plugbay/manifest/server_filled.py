"""The fields that an API server adds to every pod and a user never wrote: the volume with the account's token."""

from __future__ import annotations

from typing import Final

_VOLUME_PREFIX: Final = "kube-api-access-"
_MOUNT_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"


def without_token_volumes(pod: dict[str, object]) -> dict[str, object]:
    """``pod`` without its service account token, so that ``kubectl get pod -o yaml`` can be fed back.

    Only at the end of its lists, where the server puts it: so the indices of all other items, which name fields in
    errors, stay true.

    Source: Kubernetes 1.36 ``plugin/pkg/admission/serviceaccount/admission.go``.
    """
    spec = pod.get("spec")
    if not isinstance(spec, dict):
        return pod
    volumes = spec.get("volumes")
    if not (isinstance(volumes, list) and volumes and _is_token_volume(volumes[-1])):
        return pod
    without = {**spec, "volumes": volumes[:-1]}
    for name in ("initContainers", "containers"):
        if isinstance(spec.get(name), list):
            without[name] = [_without_mount(container, volumes[-1]["name"]) for container in spec[name]]
    return {**pod, "spec": without}


def _is_token_volume(volume: object) -> bool:
    return (
        isinstance(volume, dict)
        and isinstance(volume.get("name"), str)
        and volume["name"].startswith(_VOLUME_PREFIX)
        and "projected" in volume
    )


def _without_mount(container: object, volume: str) -> object:
    if not isinstance(container, dict):
        return container
    mounts = container.get("volumeMounts")
    if isinstance(mounts, list) and mounts and isinstance(mounts[-1], dict):
        last = mounts[-1]
        if last.get("name") == volume and last.get("mountPath") == _MOUNT_PATH:
            return {**container, "volumeMounts": mounts[:-1]}
    return container
