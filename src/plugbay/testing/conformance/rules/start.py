"""The plugin's first start: it runs, it registers, and the kubelet can take what it says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from plugbay.model.ids import is_extended_resource
from plugbay.testing.conformance.probe.meeting import MeetingRoute
from plugbay.testing.conformance.probe.watcher import API_VERSION
from plugbay.testing.conformance.reasons import CannotJudge, NotApplicable
from plugbay.testing.conformance.rule import Manner, RuleSeverity, rule, scene
from plugbay.testing.conformance.stage import Stage
from plugbay.testing.conformance.survey import FirstMeeting, survey

_API: Final = "Kubernetes 1.36 pkg/kubelet/apis/deviceplugin/v1beta1/api.proto"
_SERVER: Final = "kubelet 1.36 pkg/kubelet/cm/devicemanager/plugin/v1beta1/server.go"
_DOCS: Final = "https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/"


@scene("first start", manner=Manner.OWN, starts=2, own_s=600)
async def SURVEY(stage: Stage) -> FirstMeeting:
    """Start the plugin for the first time."""
    return await survey(stage)


@rule(
    101,
    "The plugin registers with the kubelet",
    RuleSeverity.MUST,
    source=f"{_SERVER}, Register",
    scene=SURVEY,
)
def registers(seen: FirstMeeting) -> Iterator[str]:
    if seen.resources:
        missing = set(seen.wanted) - set(seen.resources)
        yield from (f"{each} was not registered in {seen.waited_s:.0f} s" for each in sorted(missing))
    elif seen.trouble:
        yield seen.trouble
    elif seen.exit_code is not None:
        ended = f"signal {-seen.exit_code}" if seen.exit_code < 0 else f"exit code {seen.exit_code}"
        yield f"the plugin ended after {seen.waited_s:.1f} s with {ended}, before it had registered"
    elif not seen.attempts and not seen.found:
        yield f"the plugin called Register not once in {seen.waited_s:.0f} s"
    elif seen.attempts:
        last = seen.attempts[-1]
        reason = last.refusal or "the plugin gave up before it was answered"
        yield f"none of {len(seen.attempts)} Register calls was accepted: {reason}"
    else:
        last_found = seen.found[-1]
        yield f"the socket {last_found.name} in plugins_registry was not accepted: {last_found.problem}"


@rule(
    102,
    "Register names the API version v1beta1",
    RuleSeverity.MUST,
    source=f"{_SERVER}, Register; constants.go, SupportedVersions",
    scene=SURVEY,
)
def names_the_version(seen: FirstMeeting) -> Iterator[str]:
    _needs_attempts(seen)
    versions = {each.request.version for each in seen.attempts}
    for version in sorted(versions - {API_VERSION}):
        yield f"Register was called with the version {version!r}, which no kubelet takes"


@rule(
    103,
    "The resource name is one that kubelets accept",
    RuleSeverity.MUST,
    source="kubelet 1.36 pkg/apis/core/v1/helper/helpers.go, IsExtendedResourceName",
    scene=SURVEY,
)
def names_the_resource(seen: FirstMeeting) -> Iterator[str]:
    _needs_a_try(seen)
    names = {each.request.resource_name for each in seen.attempts}
    names |= {each.info.name for each in seen.found if each.info is not None}
    if not names:
        raise CannotJudge("the plugin named no resource")
    for name in sorted(each for each in names if not is_extended_resource(each)):
        yield f"{name!r} is not a resource name: a kubelet wants DOMAIN/TYPE, such as example.com/gpu"


@rule(
    104,
    "The endpoint is the name of a socket, without a path",
    RuleSeverity.SHOULD,
    source=f"{_API}, RegisterRequest.endpoint; Kubernetes PR #138382",
    scene=SURVEY,
)
def names_the_endpoint(seen: FirstMeeting) -> Iterator[str]:
    _needs_attempts(seen)
    for endpoint in sorted({each.request.endpoint for each in seen.attempts}):
        if not endpoint:
            yield "Register was called with an empty endpoint"
        elif "/" in endpoint:
            yield f"the endpoint {endpoint!r} holds a path: a kubelet joins it to its own directory"


@rule(
    105,
    "The plugin serves its socket before it registers",
    RuleSeverity.MUST,
    source=f"{_DOCS} (a plugin must serve before it registers); {_SERVER}, Register dials back",
    scene=SURVEY,
)
def serves_first(seen: FirstMeeting) -> Iterator[str]:
    _needs_attempts(seen)
    for attempt in seen.attempts:
        if attempt.was_serving is False:
            yield (
                f"{attempt.request.endpoint!r} took no connection when Register came for "
                f"{attempt.request.resource_name!r}; the kubelet dials it before it answers"
            )


@rule(
    106,
    "Each resource has a socket of its own",
    RuleSeverity.SHOULD,
    source=f"{_API}, service DevicePlugin: no call names the resource",
    scene=SURVEY,
)
def has_a_socket_for_each(seen: FirstMeeting) -> Iterator[str]:
    _needs_a_try(seen)
    if not seen.meetings:
        raise CannotJudge("no resource was registered")
    by_socket: dict[Path, set[str]] = {}
    for meeting in seen.meetings:
        by_socket.setdefault(meeting.socket, set()).add(meeting.resource)
    for socket, resources in sorted(by_socket.items()):
        if len(resources) > 1:
            yield f"{', '.join(sorted(resources))} share the socket {socket.name!r}: the same devices are offered twice"


@rule(
    107,
    "The options in Register equal those of GetDevicePluginOptions",
    RuleSeverity.INFO,
    source=f"{_API}, RegisterRequest.options; kubelet 1.36 reads GetDevicePluginOptions only",
    scene=SURVEY,
)
def says_the_same_twice(seen: FirstMeeting) -> Iterator[str]:
    _needs_attempts(seen)
    stated = [each for each in seen.attempts if each.meeting is not None and each.request.options is not None]
    if not stated:
        raise NotApplicable("no Register call has options")
    for attempt in stated:
        assert attempt.meeting is not None
        if attempt.request.options != attempt.meeting.options:
            yield (
                f"{attempt.request.resource_name} says {attempt.request.options} in Register, "
                f"and {attempt.meeting.options} in GetDevicePluginOptions"
            )


@rule(
    114,
    "A socket in plugins_registry answers as a device plugin",
    RuleSeverity.MUST,
    source="kubelet 1.36 pkg/kubelet/pluginmanager/operationexecutor/operation_generator.go",
    scene=SURVEY,
)
def answers_the_watcher(seen: FirstMeeting) -> Iterator[str]:
    _needs_a_try(seen)
    if not seen.found:
        raise NotApplicable("the plugin put no socket into plugins_registry")
    for each in seen.found:
        if each.problem:
            yield f"the socket {each.name} is not registered: {each.problem}"


@rule(
    115,
    "A resource is registered by one route only",
    RuleSeverity.SHOULD,
    source="kubelet 1.36 pkg/kubelet/cm/devicemanager/plugin/v1beta1/handler.go: one client for each resource",
    scene=SURVEY,
)
def uses_one_route(seen: FirstMeeting) -> Iterator[str]:
    _needs_a_try(seen)
    if not seen.meetings:
        raise CannotJudge("no resource was registered")
    routes: dict[str, set[MeetingRoute]] = {}
    for meeting in seen.meetings:
        routes.setdefault(meeting.resource, set()).add(meeting.route)
    for resource, ways in sorted(routes.items()):
        if len(ways) > 1:
            yield f"{resource} is registered at kubelet.sock and in plugins_registry: the second one replaces the first"


@rule(
    116,
    "A plugin registers a resource once",
    RuleSeverity.SHOULD,
    source="kubelet 1.36 pkg/kubelet/cm/devicemanager/plugin/v1beta1/handler.go; Kubernetes issue #121994",
    scene=SURVEY,
)
def starts_with_one_registration(seen: FirstMeeting) -> Iterator[str]:
    _needs_attempts(seen)
    counts = Counter(each.resource for each in seen.meetings if each.route is MeetingRoute.REGISTER)
    if not counts:
        raise CannotJudge("no resource was registered at kubelet.sock")
    for resource, count in sorted(counts.items()):
        if count > 1:
            yield f"{resource} was registered {count} times at the plugin's start, though the first was accepted"


@rule(
    201,
    "GetDevicePluginOptions is answered",
    RuleSeverity.MUST,
    source=f"{_SERVER}: a registration fails without the options",
    scene=SURVEY,
)
def answers_options(seen: FirstMeeting) -> Iterator[str]:
    _needs_attempts(seen)
    refusals = {each.refusal for each in seen.attempts if "get device plugin options" in each.refusal}
    yield from sorted(refusals)


def _needs_a_try(seen: FirstMeeting) -> None:
    if not seen.attempts and not seen.found:
        raise CannotJudge("the plugin did not try to register")


def _needs_attempts(seen: FirstMeeting) -> None:
    _needs_a_try(seen)
    if not seen.attempts:
        raise NotApplicable("the plugin did not call Register")
