"""Upstream's conformance tests by number, each with the test here that shows the same, or the reason why there is none.

Names and files are those of Kubernetes 1.33 ``test/conformance/testdata/conformance.yaml``; the texts are not.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Scenario(NamedTuple):
    """One of upstream's tests.

    Attributes:
        shown: the test of ours, as ``FILE::FUNCTION`` below ``tests``; empty where there is none.
        reason: the sentence why there is none.
    """

    name: str
    shown: str = ""
    reason: str = ""


_AGGREGATOR: Final = "The node runs no further API servers behind its own."
_AUTHOR: Final = (
    "The node calls no webhooks; it stores their configurations and says with each write that nothing acts on them."
)
_CHUNKS: Final = (
    "Every list of the node is made from its memory: a page of a list that has changed meanwhile is gone (410)."
)
_CONVERSION: Final = "Definitions that convert between versions by a webhook are refused by name."
_EPHEMERAL: Final = "Ephemeral containers are refused in words."
_PRIORITY: Final = "The node has no priority and fairness of requests: it has one owner."
_POLICIES: Final = "Admission policies are not served (404): nothing on the node evaluates their expressions."
_QUOTA: Final = "Quotas are stored with a warning that nothing counts against them."
_REPLICATION: Final = "Replication controllers are not served (404); ReplicaSets are."
_STATUS: Final = (
    "Clients write the conditions of a pod's status; message and reason, which this test writes, are refused by name."
)
_SERVICES: Final = (
    "Services are stored with a warning: nothing gives them addresses, so containers get no variables for them."
)
_TEMPLATES: Final = "PodTemplates are not served (404): no controller here uses them."

_NODE: Final = "contract/node/"
_WATCHES: Final = f"{_NODE}test_watch_scenarios.py::"
_PODS: Final = f"{_NODE}test_pod_scenarios.py::"
_CUSTOM: Final = f"{_NODE}test_custom.py::"
_STORED: Final = f"{_NODE}test_stored.py::"
_SPACES: Final = f"{_NODE}test_namespaces.py::"
_OWNED: Final = f"{_NODE}test_controllers.py::test_what_a_deployment_owns_goes_with_it_or_stays"
_VOLUMES: Final = f"{_NODE}test_volumes.py::"
_FILES: Final = "unit/pods/running/test_projecting.py::"
_KEEPER: Final = "unit/pods/running/test_volume_keeper.py::"
_PROBES: Final = "unit/pods/running/test_probes.py::"
_ENGINE: Final = "unit/pods/test_engine.py::"
_DISCOVERY: Final = "unit/node/api/discovery/test_lists.py::"
_READING: Final = "unit/node/api/reading/"

SCENARIOS: Final[dict[int, Scenario]] = dict(
    enumerate(
        (
            # test/e2e/apimachinery
            Scenario("Priority and Fairness FlowSchema API", reason=_PRIORITY),
            Scenario("Priority and Fairness PriorityLevelConfiguration API", reason=_PRIORITY),
            Scenario("Admission webhook (all 21 tests of webhook.go)", reason=_AUTHOR),
            Scenario("ValidatingAdmissionPolicy (all 4 tests)", reason=_POLICIES),
            Scenario("Aggregated Discovery Interface", f"{_DISCOVERY}test_aggregated_discovery_has_it_all_in_one"),
            Scenario("Aggregated Discovery Interface CRDs", f"{_CUSTOM}test_a_kind_is_served_as_soon_as_it_is_defined"),
            Scenario(
                "Aggregated Discovery Endpoint Accept Headers",
                f"{_DISCOVERY}test_a_client_that_prefers_plain_discovery_gets_it",
            ),
            Scenario(
                "Aggregated Discovery Endpoint Accept Headers CRDs",
                f"{_CUSTOM}test_a_kind_is_served_as_soon_as_it_is_defined",
            ),
            Scenario("aggregator-supports-the-sample-apiserver", reason=_AGGREGATOR),
            Scenario("Custom Resource Definition Conversion Webhook, convert mixed version list", reason=_CONVERSION),
            Scenario("Custom Resource Definition Conversion Webhook, conversion custom resource", reason=_CONVERSION),
            Scenario("Custom Resource Definition, watch", f"{_STORED}test_watches_tell_of_stored_objects"),
            Scenario("Custom Resource Definition, create", f"{_CUSTOM}test_a_definition_ends_with_its_objects"),
            Scenario(
                "Custom Resource Definition, status sub-resource",
                f"{_CUSTOM}test_status_is_written_apart_and_changes_are_counted",
            ),
            Scenario("Custom Resource Definition, list", f"{_STORED}test_names_are_generated_and_collections_deleted"),
            Scenario("Custom Resource Definition, defaulting", f"{_CUSTOM}test_objects_are_held_against_the_schema"),
            Scenario(
                "Custom Resource Definition, discovery", f"{_DISCOVERY}test_aggregated_discovery_has_it_all_in_one"
            ),
            Scenario(
                "Custom Resource OpenAPI Publish, stop serving version",
                f"{_CUSTOM}test_every_served_version_shows_the_same_objects",
            ),
            Scenario(
                "Custom Resource OpenAPI Publish, version rename",
                f"{_CUSTOM}test_every_served_version_shows_the_same_objects",
            ),
            Scenario(
                "Custom Resource OpenAPI Publish, with x-kubernetes-preserve-unknown-fields (3 tests)",
                f"{_CUSTOM}test_unknown_fields_are_left_out_and_free_ones_kept",
            ),
            Scenario(
                "Custom Resource OpenAPI Publish, with validation schema",
                f"{_CUSTOM}test_objects_are_held_against_the_schema",
            ),
            Scenario(
                "Custom Resource OpenAPI Publish, varying groups, kinds and versions (3 tests)",
                f"{_CUSTOM}test_a_kind_is_served_as_soon_as_it_is_defined",
            ),
            Scenario(
                "Discovery, confirm the groupVersion and a resource from each apiGroup",
                f"{_DISCOVERY}test_aggregated_discovery_has_it_all_in_one",
            ),
            Scenario(
                "Discovery, confirm the PreferredVersion for each api group",
                f"{_DISCOVERY}test_plain_discovery_names_the_core_group",
            ),
            Scenario(
                "Server side field validation, unknown fields CR no validation schema",
                f"{_CUSTOM}test_unknown_fields_are_left_out_and_free_ones_kept",
            ),
            Scenario(
                "Server side field validation, valid CR with validation schema",
                f"{_CUSTOM}test_objects_are_held_against_the_schema",
            ),
            Scenario(
                "Server side field validation, unknown fields CR fails validation",
                f"{_CUSTOM}test_unknown_fields_are_left_out_and_free_ones_kept",
            ),
            Scenario(
                "Server side field validation, CR duplicates",
                f"{_NODE}test_hostile_requests.py::test_fields_that_stand_twice_are_refused_or_told",
            ),
            Scenario(
                "Server side field validation, typed object",
                f"{_NODE}test_hostile_requests.py::test_fields_that_stand_twice_are_refused_or_told",
            ),
            Scenario(
                "Server side field validation, unknown metadata",
                f"{_CUSTOM}test_unknown_fields_are_left_out_and_free_ones_kept",
            ),
            Scenario(
                "Server side field validation, typed unknown metadata",
                f"{_STORED}test_unknown_fields_are_refused_told_or_left_out",
            ),
            Scenario("Garbage Collector, delete deployment, propagation policy background", _OWNED),
            Scenario("Garbage Collector, delete deployment, propagation policy orphan", _OWNED),
            Scenario("Garbage Collector, delete replication controller (3 tests)", reason=_REPLICATION),
            Scenario("Garbage Collector, multiple owners", reason=_REPLICATION),
            Scenario(
                "Garbage Collector, dependency cycle", reason="No test of ours makes owners of pods in a circle yet."
            ),
            Scenario(
                "Namespace, apply finalizer to a namespace",
                f"{_STORED}test_finalizers_hold_an_object_until_they_are_gone",
            ),
            Scenario("Namespace, apply update to a namespace", f"{_STORED}test_an_object_lives_as_with_an_api_server"),
            Scenario(
                "Namespace, apply changes to a namespace status",
                f"{_SPACES}test_every_cluster_has_its_namespaces_and_accounts",
            ),
            Scenario("namespace-deletion-removes-pods", f"{_SPACES}test_a_namespace_ends_with_all_that_is_in_it"),
            Scenario("namespace-deletion-removes-services", f"{_SPACES}test_a_namespace_ends_with_all_that_is_in_it"),
            Scenario("Namespace patching", f"{_STORED}test_an_object_lives_as_with_an_api_server"),
            Scenario("ResourceQuota (all 13 tests of resource_quota.go)", reason=_QUOTA),
            Scenario(
                "API Chunking, server should return chunks of results for list calls",
                f"{_READING}test_listing.py::test_pages_together_are_the_whole_list",
            ),
            Scenario("API Chunking, continue from the last key of a compacted version", reason=_CHUNKS),
            Scenario(
                "API metadata HTTP return", f"{_READING}test_negotiation.py::test_other_media_types_are_refused_by_name"
            ),
            Scenario(
                "watch-configmaps-closed-and-restarted",
                f"{_WATCHES}test_a_watch_starts_at_a_version_or_where_another_ended",
            ),
            Scenario(
                "watch-configmaps-from-resource-version",
                f"{_WATCHES}test_a_watch_starts_at_a_version_or_where_another_ended",
            ),
            Scenario(
                "watch-configmaps-with-multiple-watchers", f"{_WATCHES}test_each_watcher_is_told_of_what_it_selects"
            ),
            Scenario(
                "watch-configmaps-label-changed",
                f"{_WATCHES}test_an_object_that_is_selected_no_more_is_deleted_for_its_watchers",
            ),
            Scenario("watch-consistency", f"{_WATCHES}test_watches_that_start_at_any_time_see_one_order"),
            Scenario("Confirm a server version", f"{_DISCOVERY}test_the_version_is_a_kubernetes_one"),
            # test/e2e/common/node and test/e2e/node
            Scenario(
                "ConfigMap, from environment field",
                f"{_FILES}test_variables_come_from_keys_fields_and_resources_and_are_not_expanded",
            ),
            Scenario(
                "ConfigMap, from environment variables", f"{_FILES}test_all_keys_become_variables_and_own_ones_win"
            ),
            Scenario("ConfigMap, with empty-key", f"{_STORED}test_what_an_api_server_refuses_is_refused"),
            Scenario("ConfigMap lifecycle", f"{_STORED}test_an_object_lives_as_with_an_api_server"),
            Scenario(
                "Pod Lifecycle, post start exec hook",
                "unit/pods/running/test_hooks.py::test_a_container_runs_only_when_its_post_start_hook_is_done",
            ),
            Scenario("Pod Lifecycle, post start http hook", f"{_NODE}test_probes.py::test_hooks_send_requests"),
            Scenario(
                "Pod Lifecycle, prestop exec hook", f"{_NODE}test_run.py::test_hooks_and_deadline_with_real_processes"
            ),
            Scenario("Pod Lifecycle, prestop http hook", f"{_NODE}test_probes.py::test_hooks_send_requests"),
            Scenario(
                "Container Runtime, TerminationMessage and TerminationMessagePath (4 tests)",
                "contract/runtimes/test_oci_runtime.py::test_last_words_come_from_the_file_or_the_log",
            ),
            Scenario(
                "Container Runtime, Restart Policy, Pod Phases", f"{_ENGINE}test_a_pod_ends_as_its_restart_policy_says"
            ),
            Scenario(
                "DownwardAPI, environment for CPU, memory, names and addresses (5 tests)",
                f"{_FILES}test_variables_come_from_keys_fields_and_resources_and_are_not_expanded",
            ),
            Scenario("Ephemeral Container Creation, and update (2 tests)", reason=_EPHEMERAL),
            Scenario(
                "init-container-starts-app-restartalways-pod", f"{_ENGINE}test_init_containers_and_sidecars_come_first"
            ),
            Scenario(
                "init-container-starts-app-restartnever-pod",
                f"{_NODE}test_run.py::test_init_containers_run_before_app_containers_and_share_volumes",
            ),
            Scenario(
                "init-container-fails-stops-app-restartnever-pod",
                f"{_ENGINE}test_a_failed_init_container_fails_the_pod",
            ),
            Scenario(
                "Kubelet, log output, default",
                "contract/runtimes/test_process_runtime.py::test_the_log_holds_both_streams_in_order",
            ),
            Scenario("Kubelet, failed pod, delete", f"{_ENGINE}test_an_ended_pod_can_be_deleted"),
            Scenario(
                "Kubelet, failed pod, terminated reason", "unit/pods/test_status.py::test_conditions_of_a_failed_pod"
            ),
            Scenario(
                "Kubelet, pod with read only root file system",
                "contract/runtimes/test_oci_runtime.py::test_the_root_file_system_is_read_only_and_has_a_place_for_files",
            ),
            Scenario("lease API should be available", f"{_NODE}test_placing.py::test_the_node_renews_its_lease"),
            Scenario(
                "Pod Eviction, Toleration limits",
                f"{_NODE}test_placing.py::test_a_taint_evicts_the_pods_that_do_not_tolerate_it",
            ),
            Scenario(
                "Taint, Pod Eviction on taint removal",
                "unit/pods/scheduling/test_placing.py::test_a_taint_that_goes_lets_pods_stay",
            ),
            Scenario(
                "Node, resource lifecycle",
                reason="There is one node: clients read, patch and update it, and neither make nor delete it.",
            ),
            Scenario("PodTemplate (all 3 tests)", reason=_TEMPLATES),
            Scenario("Pods, QOS", f"{_PODS}test_a_new_pod_has_its_quality_of_service"),
            Scenario("Pods, ActiveDeadlineSeconds", f"{_PODS}test_a_running_pod_gets_a_deadline"),
            Scenario("Pods, lifecycle", f"{_PODS}test_a_labelled_pod_is_submitted_found_and_removed"),
            Scenario("Pods, update", f"{_PODS}test_the_labels_of_a_running_pod_change"),
            Scenario("Pods, service environment variables", reason=_SERVICES),
            Scenario("Pods, delete a collection", f"{_PODS}test_selected_pods_that_wait_are_deleted_together"),
            Scenario("Pods, assigned hostip", f"{_PODS}test_a_labelled_pod_is_submitted_found_and_removed"),
            Scenario("Pods, patching status", reason=_STATUS),
            Scenario(
                "Pods, completes the lifecycle of a Pod and the PodStatus",
                f"{_PODS}test_a_pod_and_its_status_are_patched_while_others_watch",
            ),
            Scenario(
                "Pods, remote command execution over websocket", f"{_NODE}test_websocket.py::test_output_and_success"
            ),
            Scenario("Pods, logs from websockets", f"{_NODE}test_websocket.py::test_a_log_is_read"),
            Scenario("Pods, prestop hook", f"{_NODE}test_probes.py::test_hooks_send_requests"),
            Scenario(
                "Pod liveness probe, using http endpoint, failure",
                f"{_NODE}test_probe_actions.py::test_a_request_looks_like_a_kubelets",
            ),
            Scenario(
                "Pod liveness probe, using grpc call, success",
                f"{_NODE}test_probe_actions.py::test_a_grpc_server_is_asked_for_its_health",
            ),
            Scenario(
                "Pod liveness probe, using local file, no restart",
                f"{_PROBES}test_a_container_that_is_alive_is_left_alone",
            ),
            Scenario(
                "Pod liveness probe, using tcp socket, no restart",
                f"{_NODE}test_probe_actions.py::test_a_connection_is_enough_for_tcp",
            ),
            Scenario(
                "Pod liveness probe, using http endpoint, restart",
                f"{_NODE}test_probes.py::test_a_server_that_hangs_is_started_anew",
            ),
            Scenario(
                "Pod liveness probe, using grpc call, failure",
                f"{_NODE}test_probe_actions.py::test_a_port_without_grpc_fails",
            ),
            Scenario(
                "Pod liveness probe, using local file, restart",
                f"{_PROBES}test_a_container_that_is_not_alive_is_started_anew",
            ),
            Scenario(
                "Pod liveness probe, using http endpoint, multiple restarts (slow)",
                f"{_PROBES}test_every_restart_of_a_container_that_is_never_alive_is_counted",
            ),
            Scenario(
                "Pod readiness probe, with initial delay", f"{_PROBES}test_no_probe_is_made_during_the_initial_delay"
            ),
            Scenario(
                "Pod readiness probe, failure",
                f"{_PROBES}test_a_container_is_ready_once_its_probe_succeeds_and_no_longer_when_it_fails",
            ),
            Scenario("RuntimeClass API", f"{_NODE}test_inactive.py::test_all_of_them_are_stored_with_a_warning"),
            Scenario(
                "Secrets, pod environment field and from source (2 tests)",
                f"{_VOLUMES}test_files_and_variables_reach_the_container",
            ),
            Scenario("Secrets, with empty-key", f"{_STORED}test_what_an_api_server_refuses_is_refused"),
            Scenario("Secret patching", f"{_STORED}test_secrets_take_plain_texts_and_can_be_immutable"),
            # test/e2e/common/storage
            Scenario("ConfigMap Volume, text data, binary data", f"{_FILES}test_every_key_is_a_file_of_its_name"),
            Scenario(
                "ConfigMap Volume, create, update and delete",
                f"{_KEEPER}test_files_follow_the_object_and_the_container_goes_on",
            ),
            Scenario(
                "ConfigMap Volume, without and with mapping, modes and users (7 tests)",
                f"{_FILES}test_items_choose_keys_paths_and_modes",
            ),
            Scenario("ConfigMap Volume, immutability", f"{_STORED}test_secrets_take_plain_texts_and_can_be_immutable"),
            Scenario(
                "ConfigMap Volume, update", f"{_VOLUMES}test_files_follow_their_objects_and_no_container_restarts"
            ),
            Scenario(
                "DownwardAPI volume, limits, requests, defaults, names and modes (9 tests)",
                f"{_FILES}test_fields_and_resources_are_files",
            ),
            Scenario(
                "DownwardAPI volume, update annotations and labels (2 tests)",
                f"{_KEEPER}test_labels_and_annotations_follow_the_pod",
            ),
            Scenario(
                "EmptyDir, Shared volumes between containers",
                f"{_NODE}test_run.py::test_init_containers_run_before_app_containers_and_share_volumes",
            ),
            Scenario(
                "Projected Volume, multiple projections", f"{_VOLUMES}test_files_and_variables_reach_the_container"
            ),
            Scenario(
                "Projected Volume, ConfigMap and Secrets (17 tests)", f"{_FILES}test_items_choose_keys_paths_and_modes"
            ),
            Scenario("Projected Volume, DownwardAPI (11 tests)", f"{_FILES}test_fields_and_resources_are_files"),
            Scenario(
                "Secrets Volume, default, modes, mappings (7 tests)", f"{_FILES}test_items_choose_keys_paths_and_modes"
            ),
            Scenario(
                "Secrets Volume, volume mode 0440, fsGroup 1001 and uid 1000",
                f"{_VOLUMES}test_files_belong_to_the_group_of_the_pod",
            ),
            Scenario(
                "Secrets Volume, create, update and delete",
                f"{_KEEPER}test_files_follow_the_object_and_the_container_goes_on",
            ),
            Scenario("Secrets Volume, immutability", f"{_STORED}test_secrets_take_plain_texts_and_can_be_immutable"),
            Scenario(
                "SubPath: Reading content from a volume (5 tests)", f"{_VOLUMES}test_a_part_of_a_volume_does_not_follow"
            ),
        ),
        start=1,
    )
)
