"""The configuration as NVIDIA's plugin prints it at start. Pure.

Source: k8s-device-plugin 0.20 ``cmd/nvidia-device-plugin/main.go``, ``api/config/v1``; spec 1.7.
"""

from __future__ import annotations

import json

from plugbay.documents import Json
from plugbay.plugins.nvidia.config.configuration import Configuration, FeatureDiscoverySettings
from plugbay.plugins.nvidia.config.file import VERSION
from plugbay.plugins.nvidia.config.resource_names import ResourcePattern, ResourcePatterns
from plugbay.plugins.nvidia.config.selections import printed_selection
from plugbay.plugins.nvidia.config.sharing import SharedResource, SharedResources, SharingSettings


def printed(configuration: Configuration, patterns: ResourcePatterns) -> str:
    """JSON, indented by two spaces, with the keys in the order of NVIDIA's plugin.

    Args:
        patterns: all that count on the node, see `plugbay.plugins.nvidia.devices.patterns`.
    """
    return json.dumps(as_json(configuration, patterns), indent=2, ensure_ascii=False)


def as_json(configuration: Configuration, patterns: ResourcePatterns) -> Json:
    """The JSON object that `printed` writes."""
    imex: Json = {}
    if configuration.imex.channel_ids:
        imex["channelIDs"] = list(configuration.imex.channel_ids)
    if configuration.imex.is_required:
        imex["required"] = True
    resources: Json = {"gpus": _patterns(patterns.gpus)}
    if patterns.mig:
        resources["mig"] = _patterns(patterns.mig)
    return {
        "version": VERSION,
        "flags": _flags(configuration),
        "resources": resources,
        "sharing": _sharing(configuration.sharing),
        "imex": imex,
    }


def _flags(configuration: Configuration) -> Json:
    return {
        "migStrategy": configuration.mig_strategy.value,
        "failOnInitError": configuration.fail_on_init_error,
        "mpsRoot": configuration.mps_root,
        "nvidiaDriverRoot": configuration.roots.host,
        "nvidiaDevRoot": configuration.roots.host_dev,
        "gdrcopyEnabled": configuration.gdrcopy_enabled,
        "gdsEnabled": configuration.gds_enabled,
        "mofedEnabled": configuration.mofed_enabled,
        "useNodeFeatureAPI": configuration.feature_discovery.use_node_feature_api,
        "deviceDiscoveryStrategy": configuration.discovery_strategy.value,
        "plugin": {
            "passDeviceSpecs": configuration.pass_device_specs,
            "deviceListStrategy": [strategy.value for strategy in configuration.list_strategies],
            "deviceIDStrategy": configuration.id_strategy.value,
            "cdiAnnotationPrefix": configuration.cdi.annotation_prefix,
            "nvidiaCTKPath": configuration.cdi.hook_path,
            "containerDriverRoot": configuration.roots.container,
            "sharedDevicesAllocationPolicy": configuration.allocation_policy.value,
        },
    }


def feature_discovery_as_json(settings: FeatureDiscoverySettings) -> Json:
    """The field ``flags.gfd``, which feature discovery prints and the plugin does not."""
    return {
        "oneshot": settings.oneshot,
        "noTimestamp": settings.no_timestamp,
        "sleepInterval": None if settings.sleep_interval is None else str(settings.sleep_interval),
        "outputFile": settings.output_file,
        "machineTypeFile": settings.machine_type_file,
    }


def _patterns(patterns: tuple[ResourcePattern, ...]) -> list[Json]:
    return [{"pattern": each.pattern, "name": each.resource} for each in patterns]


def _sharing(sharing: SharingSettings) -> Json:
    printed_sharing: Json = {"timeSlicing": _shared(sharing.time_slicing)}
    if sharing.mps is not None:
        printed_sharing["mps"] = _shared(sharing.mps)
    return printed_sharing


def _shared(shared: SharedResources | None) -> Json:
    if shared is None:
        return {}
    values: Json = {}
    if shared.rename_by_default:
        values["renameByDefault"] = True
    if shared.fails_requests_over_one is not None:
        values["failRequestsGreaterThanOne"] = shared.fails_requests_over_one
    values["resources"] = [_resource(each) for each in shared.resources]
    return values


def _resource(resource: SharedResource) -> Json:
    values: Json = {"name": resource.name}
    if resource.rename is not None:
        values["rename"] = resource.rename
    values["devices"] = printed_selection(resource.devices)
    values["replicas"] = resource.replicas
    return values
