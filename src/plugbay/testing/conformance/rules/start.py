"""The plugin's first start: it runs, it registers, and the kubelet can take what it says."""

from __future__ import annotations

from collections.abc import Iterator

from plugbay.testing.conformance.rule import Manner, RuleSeverity, rule, scene
from plugbay.testing.conformance.stage import Stage
from plugbay.testing.conformance.survey import FirstMeeting, survey


@scene("first start", manner=Manner.OWN, timeout_s=600)
async def SURVEY(stage: Stage) -> FirstMeeting:
    """Start the plugin for the first time."""
    return await survey(stage)


@rule(
    101,
    "The plugin registers with the kubelet",
    RuleSeverity.MUST,
    source="kubelet 1.36 pkg/kubelet/cm/devicemanager/plugin/v1beta1/server.go, Register",
    scene=SURVEY,
)
def registers(seen: FirstMeeting) -> Iterator[str]:
    if seen.resources:
        return
    if seen.trouble:
        yield seen.trouble
    elif seen.exit_code is not None:
        ended = f"signal {-seen.exit_code}" if seen.exit_code < 0 else f"exit code {seen.exit_code}"
        yield f"the plugin ended after {seen.waited_s:.1f} s with {ended}, before it had registered"
    elif not seen.attempts:
        yield f"the plugin called Register not once in {seen.waited_s:.0f} s"
    else:
        last = seen.attempts[-1]
        reason = last.refusal or "the plugin gave up before it was answered"
        yield f"none of {len(seen.attempts)} Register calls was accepted: {reason}"
