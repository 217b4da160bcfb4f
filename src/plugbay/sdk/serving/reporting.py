"""A report on one served resource, for ``/readyz``, ``/status`` and metrics."""

from __future__ import annotations

from typing import Final

from plugbay.model.ids import ResourceName
from plugbay.sdk.serving.states import State
from plugbay.values import dataclass

_EXPLAINED: Final = {
    State.SETTING_UP: "its set_up() has not succeeded yet",
    State.STARTING: "it looks for devices, or waits for a kubelet's directory",
    State.SERVING: "no kubelet has accepted its registration yet",
    State.REGISTERED: "the kubelet has not asked for the list of devices yet",
    State.STREAMING: "a kubelet reads the list",
    State.STANDING_BY: "a younger process serves it; this one registers again when that one has ended",
    State.DRAINING: "it ends",
    State.TEARING_DOWN: "it ends",
    State.STOPPED: "it has ended, or failed and is started again",
}


@dataclass(frozen=True, slots=True)
class ServingReport:
    """One resource at one moment.

    Attributes:
        in_state_s: for how many seconds it has been in ``state``.
        registrations: how often a kubelet accepted it since the process serves it.
        refusal: the kubelet's words when its last answer was a refusal; empty once one accepts.
        problem: what keeps it from having a socket; empty if nothing does, or it is not known.
    """

    resource: ResourceName
    state: State
    in_state_s: float
    registrations: int
    refusal: str
    problem: str = ""

    @property
    def is_ready(self) -> bool:
        """Registered, and a kubelet reads the list; or a younger process sees to that, and this one is there for it."""
        return self.state in (State.STREAMING, State.STANDING_BY)

    @property
    def reason(self) -> str:
        """Why it is not ready, such as ``serving: no kubelet …`` or ``refused by the kubelet: …``; empty if it is."""
        if self.is_ready:
            return ""
        if self.refusal and self.state is State.SERVING:
            return f"refused by the kubelet: {self.refusal}"
        if self.problem and self.state is State.STARTING:
            return f"{self.state.value}: {self.problem}"
        return f"{self.state.value}: {_EXPLAINED[self.state]}"
