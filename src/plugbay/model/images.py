"""Names of images, and when an engine has to pull them. Pure.

Source: Kubernetes 1.36 ``apis/core/v1/defaults.go``, kubelet ``images/image_manager.go``.
"""

from __future__ import annotations

from enum import Enum


class PullPolicy(Enum):
    """v1's ``imagePullPolicy``."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


def default_pull_policy(image: str) -> PullPolicy:
    """The policy of a manifest that names none: a tag that moves is pulled each time."""
    return PullPolicy.ALWAYS if with_default_tag(image).endswith(":latest") else PullPolicy.IF_NOT_PRESENT


def with_default_tag(image: str) -> str:
    """Add ``:latest`` to ``image`` if it has neither tag nor digest."""
    last = image.rpartition("/")[2]
    return image if ":" in last or "@" in last else f"{image}:latest"
