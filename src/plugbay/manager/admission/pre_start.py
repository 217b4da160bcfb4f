"""PreStartContainer at the plugins that ask for it, before a container is created.

Source: kubelet 1.36 ``cm/devicemanager/manager.go``, ``callPreStartContainerIfNeeded``; spec 4.8, 4.13.
"""

from __future__ import annotations

from plugbay.errors import EndpointNotFound, EndpointStopped, PreStartFailed
from plugbay.manager.endpoint import Endpoint
from plugbay.manager.endpoints.endpoints import Endpoints
from plugbay.manager.release.releases import Releases
from plugbay.manager.state import Expired, ManagerState, Resource, Restored, Stopped
from plugbay.model.ids import ContainerName, PodUid


async def pre_start(
    pod: PodUid, container: ContainerName, *, state: ManagerState, endpoints: Endpoints, releases: Releases
) -> None:
    """Call it for each resource that the container has devices of; if one call fails, those before it are undone.

    Raises:
        AdmissionError: a plugin refused, or is gone and wanted the call.
    """
    called = []
    try:
        for assignment in state.of_container(pod, container):
            endpoint = _who_wants_it(state.resource(assignment.resource), endpoints)
            if endpoint is not None:
                await endpoint.pre_start_container(sorted(assignment.devices))
                called.append(assignment.resource)
    except BaseException:
        releases.prepared(pod, container, called)
        releases.container_not_started(pod, container)
        raise
    releases.prepared(pod, container, called)


def _who_wants_it(resource: Resource, endpoints: Endpoints) -> Endpoint | None:
    match resource.endpoint:
        case Restored(wants_pre_start=True):  # a kubelet does not know that, and starts the container without
            raise PreStartFailed(resource.name, "the plugin has not registered since the node was restarted")
        case Restored():
            return None
        case Expired():
            raise EndpointNotFound(resource.name)
        case Stopped(options=options, since=since) if options.pre_start_required:
            raise PreStartFailed(resource.name, str(EndpointStopped(resource.name, since.isoformat())))
    endpoint = endpoints.active(resource.name)
    return endpoint if endpoint is not None and endpoint.options.pre_start_required else None
