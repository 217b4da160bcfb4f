"""A Job as a value. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from plugbay.documents import Json
from plugbay.manifest.label_selectors import selector_of
from plugbay.node.controllers.conditions import is_true
from plugbay.node.controllers.seen_pods import Claim
from plugbay.printers import v1
from plugbay.values import dataclass

KIND: Final = "Job"
TRACKING: Final = "batch.kubernetes.io/job-tracking"
"""The finalizer of pods that the Job has not counted yet."""


@dataclass(frozen=True, slots=True)
class SeenJob:
    """A Job whose defaults are filled in; ``value`` is its v1 object."""

    value: Json

    @property
    def name(self) -> str:
        return v1.name(self.value)

    @property
    def is_deleting(self) -> bool:
        return bool(v1.at(self.value, "metadata", "deletionTimestamp"))

    @property
    def claim(self) -> Claim:
        selector = selector_of(v1.mapping(self.value, "spec", "selector"))
        return Claim(v1.uid(self.value), selector, is_deleting=self.is_deleting)

    @property
    def parallelism(self) -> int:
        return self._number("parallelism", 1)

    @property
    def completions(self) -> int | None:
        """None: the first pod that succeeds ends the work."""
        given = v1.at(self.value, "spec", "completions")
        return given if isinstance(given, int) else None

    @property
    def backoff_limit(self) -> int:
        return self._number("backoffLimit", 6)

    @property
    def deadline_s(self) -> int | None:
        given = v1.at(self.value, "spec", "activeDeadlineSeconds")
        return given if isinstance(given, int) else None

    @property
    def ttl_s(self) -> int | None:
        given = v1.at(self.value, "spec", "ttlSecondsAfterFinished")
        return given if isinstance(given, int) else None

    @property
    def is_suspended(self) -> bool:
        return v1.at(self.value, "spec", "suspend") is True

    @property
    def is_indexed(self) -> bool:
        return v1.text(self.value, "spec", "completionMode") == "Indexed"

    @property
    def template(self) -> Json:
        return v1.mapping(self.value, "spec", "template")

    @property
    def restarts_containers(self) -> bool:
        return v1.text(self.template, "spec", "restartPolicy") == "OnFailure"

    @property
    def rules(self) -> Sequence[Json]:
        return v1.objects(self.value, "spec", "podFailurePolicy", "rules")

    @property
    def replaces_failed_only(self) -> bool:
        """Whether a pod that is being stopped is replaced only when it has stopped."""
        default = "Failed" if self.rules else "TerminatingOrFailed"
        return (v1.text(self.value, "spec", "podReplacementPolicy") or default) == "Failed"

    @property
    def status(self) -> Json:
        return v1.mapping(self.value, "status")

    @property
    def started_at(self) -> datetime | None:
        return v1.moment(self.status, "startTime")

    @property
    def is_finished(self) -> bool:
        return is_true(self.value, "Complete") or is_true(self.value, "Failed")

    def uncounted(self, name: str) -> tuple[str, ...]:
        """UIDs of pods that are on their way to being counted as ``succeeded`` or ``failed``."""
        return tuple(v1.texts(self.status, "uncountedTerminatedPods", name))

    def _number(self, name: str, default: int) -> int:
        given = v1.at(self.value, "spec", name)
        return given if isinstance(given, int) else default
