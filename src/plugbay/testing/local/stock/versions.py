"""The differences between our Device Manager and stock kubelets from 1.20 to 1.37, each with its source.

A minor version stands for its last patch release. Of patch releases, only those are known that had a defect of their
own. Numbers are of pull requests and issues of kubernetes/kubernetes; "spec" is our description of kubelet 1.36, which
was checked against a running one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from typing import Final

from plugbay.errors import UsageError
from plugbay.values import dataclass

FIRST: Final = 20
LAST: Final = 37
_VERSION: Final = re.compile(r"1\.(?P<minor>[0-9]{1,2})(?P<patch>\.[0-9]{1,2})?")
_KILLS_RUNNING_PODS: Final = frozenset({"1.25.10", "1.26.5", "1.27.2"})


class Quirk(Enum):
    """Something that stock kubelets do, or did, in another way than our Device Manager."""

    ANSWERS_BEFORE_DIALLING = "answers before dialling"
    OPTIONS_OF_REGISTER = "options of Register"
    DEPRECATION_FILE = "deprecation file"
    NO_CHECKS_AFTER_RESTART = "no checks after a restart"
    PATH_AS_AUTHORITY = "path as authority"
    NO_CDI_DEVICES = "no CDI devices"
    SIDECARS_ARE_INIT_CONTAINERS = "sidecars are init containers"
    OLD_STREAM_ENDS_ALL = "the end of an old stream ends all"
    FAILURE_FORGETS_FORMER = "a failed registration forgets the former plugin"
    NEWEST_ALONE = "the newest plugin alone"
    REFUSES_CONNECTED_SOCKET = "refuses a connected socket"
    CHECKS_COMPLETED_INIT = "checks completed init containers"
    CHECKS_RUNNING = "checks running containers"
    ANY_STREAM_COUNTS = "any stream counts"
    ENDPOINT_MAY_LEAVE = "endpoint may leave the directory"
    UNTOLD_ENDS = "ends are not told"
    SKIPS_PRE_START = "skips PreStartContainer"
    ONE_ADMISSION_AT_A_TIME = "one admission at a time"
    WAITS_FOREVER = "waits forever"
    NO_ALLOCATABLE_RESOURCES = "no GetAllocatableResources"
    ALLOCATABLE_RESOURCES_ARE_OFF = "GetAllocatableResources is off"
    NO_POD_RESOURCES_GET = "no Get"
    POD_RESOURCES_GET_IS_OFF = "Get is off"


@dataclass(frozen=True, slots=True)
class QuirkSpec:
    """One line of the table.

    Attributes:
        first, last: the first and the last minor version with it, both included.
        sentence: what such a kubelet does.
        source: where that is known from.
    """

    first: int
    last: int
    sentence: str
    source: str


QUIRKS: Final[Mapping[Quirk, QuirkSpec]] = {
    Quirk.ANSWERS_BEFORE_DIALLING: QuirkSpec(
        FIRST,
        24,
        "Register is answered at once and the plugin dialled afterwards, for up to 10 s; a failure is not told",
        "#112395; `cm/devicemanager/manager.go` before 1.25, `Register`, `addEndpoint`",
    ),
    Quirk.OPTIONS_OF_REGISTER: QuirkSpec(
        FIRST,
        24,
        "options are those in the Register request; GetDevicePluginOptions is called on the watcher's route only",
        "`cm/devicemanager/manager.go` before 1.25, `addEndpoint`, `RegisterPlugin`",
    ),
    Quirk.DEPRECATION_FILE: QuirkSpec(
        FIRST,
        24,
        "a file `DEPRECATION` is made in the device-plugins directory",
        "`cm/devicemanager/manager.go` before 1.25, `GetWatcherHandler`",
    ),
    Quirk.NO_CHECKS_AFTER_RESTART: QuirkSpec(
        FIRST,
        24,
        "after a restart every pod keeps its devices, whether its plugin is back or not",
        "#109595, #116376",
    ),
    Quirk.PATH_AS_AUTHORITY: QuirkSpec(
        FIRST,
        25,
        "calls name the socket's path as authority, which servers in Rust refuse; later ones say `localhost`",
        "#112597",
    ),
    Quirk.NO_CDI_DEVICES: QuirkSpec(
        FIRST,
        28,
        "CDI device names in an Allocate answer are ignored (1.28 heeds them behind a gate that is off)",
        "KEP-4009, gate `DevicePluginCDIDevices`",
    ),
    Quirk.SIDECARS_ARE_INIT_CONTAINERS: QuirkSpec(
        FIRST,
        28,
        "a sidecar is an init container: later containers get its devices (1.28 has a gate for sidecars, which is off)",
        "KEP-753, gate `SidecarContainers`; #120461",
    ),
    Quirk.OLD_STREAM_ENDS_ALL: QuirkSpec(
        25,
        36,
        "the end of a replaced plugin's stream takes the new plugin of the resource down as well",
        "#121994, #127803; mended in 1.37 by #135437",
    ),
    Quirk.FAILURE_FORGETS_FORMER: QuirkSpec(
        25,
        36,
        "after a failed registration, the end of the resource's former plugin goes unnoticed: its devices stay healthy",
        "spec 2.4",
    ),
    Quirk.NEWEST_ALONE: QuirkSpec(
        FIRST,
        36,
        "a resource has one plugin, the newest: when it ends, an older one that still runs does not take over",
        "`cm/devicemanager/manager.go` before 1.25, `registerEndpoint`; spec 2.5; #135437",
    ),
    Quirk.REFUSES_CONNECTED_SOCKET: QuirkSpec(
        37,
        LAST,
        "a second registration of a resource at the same socket is refused while the first is connected",
        "#135437",
    ),
    Quirk.CHECKS_COMPLETED_INIT: QuirkSpec(
        25,
        LAST,
        "a running pod whose init container had devices is rejected after a restart if its plugin is not back yet",
        "#124345, #138446",
    ),
    Quirk.ANY_STREAM_COUNTS: QuirkSpec(
        FIRST,
        LAST,
        "a list of a replaced plugin, while its stream lasts, overwrites that of the new one",
        "spec 2.5",
    ),
    Quirk.ENDPOINT_MAY_LEAVE: QuirkSpec(
        FIRST,
        LAST,
        "an endpoint may lead out of the device-plugins directory, as `../x.sock` does",
        "#138382",
    ),
    Quirk.UNTOLD_ENDS: QuirkSpec(
        FIRST,
        LAST,
        "PostStopContainer and Deallocate are never called; plugins have to find out that a use is over",
        "#59110, #86539, #91190",
    ),
    Quirk.SKIPS_PRE_START: QuirkSpec(
        FIRST,
        LAST,
        "after a restart, containers start without PreStartContainer as long as their plugin is not back",
        "spec 4.13",
    ),
    Quirk.ONE_ADMISSION_AT_A_TIME: QuirkSpec(
        FIRST,
        LAST,
        "a plugin that hangs in a call holds up the admission of every pod, whatever that asks for",
        "#117435, #129249, #130855; spec 4.1",
    ),
    Quirk.WAITS_FOREVER: QuirkSpec(
        FIRST,
        LAST,
        "Allocate and GetPreferredAllocation have no time limit (here: a day, unless `call_timeout_s` says otherwise)",
        "#117435; spec 4.9, 4.10",
    ),
    Quirk.NO_ALLOCATABLE_RESOURCES: QuirkSpec(
        FIRST,
        20,
        "PodResources has no GetAllocatableResources: UNIMPLEMENTED",
        "#95734; KEP-2403",
    ),
    Quirk.ALLOCATABLE_RESOURCES_ARE_OFF: QuirkSpec(
        21,
        22,
        "GetAllocatableResources of PodResources fails, as its gate is off",
        "KEP-2403, gate `KubeletPodResourcesGetAllocatable`",
    ),
    Quirk.NO_POD_RESOURCES_GET: QuirkSpec(
        FIRST,
        26,
        "PodResources has no Get: UNIMPLEMENTED",
        "KEP-3695",
    ),
    Quirk.POD_RESOURCES_GET_IS_OFF: QuirkSpec(
        27,
        33,
        "Get of PodResources fails, as its gate is off",
        "KEP-3695, gate `KubeletPodResourcesGet`",
    ),
}
"""The table, by version; see also `KILLS_RUNNING_PODS`."""

KILLS_RUNNING_PODS: Final = QuirkSpec(
    25,
    27,
    "1.25.10, 1.26.5 and 1.27.2 reject running pods after a restart if their plugin is not back yet",
    "#118559, mended by #118635",
)
"""The line of `Quirk.CHECKS_RUNNING`, which patch releases have."""


@dataclass(frozen=True, slots=True)
class KubeletRelease:
    """A version to be like.

    Attributes:
        name: as it was given, such as ``1.26``.
    """

    name: str
    quirks: frozenset[Quirk]


OURS: Final = KubeletRelease("", frozenset())
"""Our own Device Manager, with no quirk."""


def release_of(text: str | None) -> KubeletRelease:
    """The version that ``text`` names; None is for our own Device Manager.

    Raises:
        UsageError: it is not a version that we know.
    """
    if text is None:
        return OURS
    found = _VERSION.fullmatch(text) if isinstance(text, str) else None  # 1.20 without quotes would be 1.2
    minor = int(found["minor"]) if found else 0
    if found is None or not FIRST <= minor <= LAST:
        raise UsageError(f"as_kubelet is a version from 1.{FIRST} to 1.{LAST}, such as '1.26', and not {text!r}")
    if found["patch"] and text not in _KILLS_RUNNING_PODS:
        known = ", ".join(sorted(_KILLS_RUNNING_PODS))
        raise UsageError(f"of patch releases only {known} are known; write '1.{minor}' for the last one, not {text!r}")
    quirks = {quirk for quirk, spec in QUIRKS.items() if spec.first <= minor <= spec.last}
    return KubeletRelease(text, frozenset(quirks | ({Quirk.CHECKS_RUNNING} if found["patch"] else set())))
