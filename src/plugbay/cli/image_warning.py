"""Says that the images of pods that were just made are not used, where that is so."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from plugbay.cli import v1
from plugbay.cli.client import NodeClient, nodes_path
from plugbay.cli.output import show_note
from plugbay.cli.pod_describe import WITHOUT_IMAGES

_SHOWN: Final = 3


def warn_of_images(client: NodeClient, pods: Iterable[v1.Json]) -> None:
    """One line for all ``pods``: their commands may be on this machine too, and be others than those of the images."""
    images = list(dict.fromkeys(image for pod in pods for image in _images(pod)))
    if not images:
        return
    shown = ", ".join(images[:_SHOWN]) + (f" and {len(images) - _SHOWN} more" if len(images) > _SHOWN else "")
    for node in v1.objects(client.get(nodes_path()), "items"):
        runtime = v1.text(node, "status", "nodeInfo", "containerRuntimeVersion").partition("://")[0]
        if runtime in WITHOUT_IMAGES:
            show_note(
                f"Warning: the {runtime} runtime uses no images: programs come from this machine, not from {shown}"
            )


def _images(pod: v1.Json) -> list[str]:
    lists = ("initContainers", "containers")
    containers = (each for name in lists for each in v1.objects(pod, "spec", name))
    return [image for each in containers if (image := v1.text(each, "image"))]
