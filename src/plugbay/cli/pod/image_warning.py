"""Warn that the images of pods that were just made are not used, if the runtime uses none."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from plugbay.cli.kubectl.client import NodeClient, nodes_path
from plugbay.cli.pod.page import WITHOUT_IMAGES
from plugbay.cli.printing.output import show_note
from plugbay.documents import Json
from plugbay.printers import v1

_SHOWN: Final = 3


def warn_of_images(client: NodeClient, pods: Iterable[Json]) -> None:
    """Print one line for all ``pods``: this machine may have programs of the same names as the images."""
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


def _images(pod: Json) -> list[str]:
    lists = ("initContainers", "containers")
    containers = (each for name in lists for each in v1.objects(pod, "spec", name))
    return [image for each in containers if (image := v1.text(each, "image"))]
