"""What a container may do, as v1's security contexts say: pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Security:
    """The part of a container's and its pod's ``securityContext`` that engines are told.

    Attributes:
        run_as_user, run_as_group: None where the manifest says nothing: then it is root, as there is no image to ask.
        run_as_non_root: whether a container that would be root must not start.
        added_capabilities: without ``CAP_``, perhaps ``ALL``.
        read_only_root: whether the root file system must not be writable.
        allow_privilege_escalation: None where the manifest says nothing.
    """

    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_non_root: bool = False
    supplemental_groups: tuple[int, ...] = ()
    privileged: bool = False
    added_capabilities: tuple[str, ...] = ()
    dropped_capabilities: tuple[str, ...] = ()
    read_only_root: bool = False
    allow_privilege_escalation: bool | None = None

    @property
    def forbids_escalation(self) -> bool:
        """Whether nothing the container runs may gain rights it has not, by set-user-ID programs for one."""
        return self.allow_privilege_escalation is False

    def confines(self) -> bool:
        """Whether it asks for less than everything: what only an engine can honour."""
        return self != Security(privileged=self.privileged, added_capabilities=self.added_capabilities)


DEFAULT_SECURITY: Final = Security()
