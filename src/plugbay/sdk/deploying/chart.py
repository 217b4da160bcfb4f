"""The Helm chart: templates from the same objects as a manifest's, with expressions where plugins differ. Pure.

The chart has a DaemonSet for every entry of ``plugins`` in its values; what an entry holds is v1's own fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from plugbay.sdk.deploying import companions
from plugbay.sdk.deploying.chart_schema import schema
from plugbay.sdk.deploying.chart_values import DEFAULTS
from plugbay.sdk.deploying.daemonset import NAME_LABEL, Fields, Parts, daemon_set, files_volume
from plugbay.sdk.deploying.dashboard import FILE, LABEL, dashboard
from plugbay.sdk.deploying.deployment import PORT
from plugbay.sdk.deploying.noted_yaml import FURTHER, ChartExpression, Noted, Pasted, Wrapped, noted_yaml
from plugbay.sdk.deploying.objects import CODE, CODE_NOTE, NO_TOKEN
from plugbay.sdk.deploying.plugin_needs import PluginNeeds
from plugbay.sdk.deploying.rights import mounts, volumes

_EACH: Final = "range $name, $plugin := .Values.plugins"
_NAME: Final = ChartExpression("$name | quote")
_NAMESPACE: Final = ChartExpression("$.Release.Namespace | quote")
_ROLE: Final = ChartExpression('printf "plugbay:%s:%s" $.Release.Namespace $name | quote')
_PORT: Final = ChartExpression(f"$plugin.port | default {PORT} | int")
_THIS: Final = ChartExpression(". | quote")
_SOCKETS_ONLY: Final = PluginNeeds(served=())
_READS: Final = "if $plugin.readsNodes"


def chart(values: str, *, version: str) -> Mapping[str, str]:
    """The texts of all files of the chart, by their paths in it.

    Args:
        values: the text of ``values.yaml``.
        version: of plugbay.
    """
    return {
        "Chart.yaml": noted_yaml([_about(version)]),
        "values.yaml": values,
        "values.schema.json": schema(),
        f"files/{FILE}": dashboard(),
        "templates/_helpers.tpl": _HELPERS,
        "templates/NOTES.txt": _NOTES,
        "templates/configmap.yaml": _for_each("if $plugin.files", _config_map()),
        "templates/daemonset.yaml": _for_each("", daemon_set(_PARTS)),
        "templates/nodereader.yaml": _for_each(
            _READS, *companions.node_reader(_NAME, _NAMESPACE, _ROLE, "It reads its own node's labels.")
        ),
        "templates/networkpolicy.yaml": _for_each("if $.Values.networkPolicy.enabled", _network_policy()),
        "templates/podmonitor.yaml": _for_each("if $.Values.podMonitor.enabled", _pod_monitor()),
        "templates/dashboard.yaml": _if("if .Values.dashboard.enabled", noted_yaml([_dashboard()])),
    }


def _for_each(condition: str, *objects: Fields) -> str:
    """A template with ``objects`` for every plugin for which the condition holds."""
    texts = "".join(f"---\n{noted_yaml([each])}" for each in objects)
    return _if(_EACH, _if(condition, texts) if condition else texts)


def _if(opening: str, text: str) -> str:
    return f"{{{{- {opening} }}}}\n{text}{{{{- end }}}}\n"


def _about(version: str) -> Fields:
    return {
        "apiVersion": "v2",
        "name": "plugbay",
        "description": "Kubernetes device plugins, a DaemonSet for each, with the rights that it needs and no others",
        "type": "application",
        "version": version,
        "appVersion": version,
        "kubeVersion": ">=1.26.0-0",
        "keywords": ["device-plugin", "gpu"],
    }


def _or_default(field: str) -> str:
    """An expression for a field of a plugin that has a default."""
    assert field in DEFAULTS
    return f'(hasKey $plugin "{field}" | ternary $plugin.{field} $.Values.defaults.{field})'


def _given(field: str) -> Wrapped:
    return Wrapped(f"with $plugin.{field}", Pasted("."))


def _if_files(value: object) -> Wrapped:
    return Wrapped("if $plugin.files", value)


_FILES_VOLUME, _FILES_MOUNT = files_volume(_NAME)
_PARTS: Final = Parts(
    name=_NAME,
    namespace=_NAMESPACE,
    about="A plugin of the chart's values.",
    image=ChartExpression('include "plugbay.image" ($plugin.image | default $.Values.image) | quote'),
    pull_policy=Wrapped("with ($plugin.image | default $.Values.image).pullPolicy", _THIS),
    pull_secrets=Wrapped("with $.Values.imagePullSecrets", Pasted(".")),
    targets=[Pasted("$plugin.targets")],
    port=_PORT,
    metrics=ChartExpression(f'printf "--metrics=:%d" ({_PORT.text}) | quote'),
    annotations=Wrapped(
        'with include "plugbay.code" $plugin', {CODE: Noted(ChartExpression(". | sha256sum | quote"), CODE_NOTE)}
    ),
    env=_given("env"),
    resources=Pasted(_or_default("resources")),
    security=Pasted(_or_default("securityContext")),
    mounts=[*mounts(_SOCKETS_ONLY), Wrapped("with $plugin.volumeMounts", Pasted("."))],
    volumes=[*volumes(_SOCKETS_ONLY), Wrapped("with $plugin.volumes", Pasted("."))],
    files=(_if_files(_FILES_VOLUME), _if_files(_FILES_MOUNT)),
    service_account=Wrapped(_READS, _NAME),
    automount=Noted(ChartExpression("$plugin.readsNodes | default false"), NO_TOKEN[:-1] + ", unless it reads nodes."),
    priority_class=Wrapped(f"with {_or_default('priorityClassName')}", _THIS),
    tolerations=Wrapped(f"with {_or_default('tolerations')}", Pasted(".")),
    update=Pasted(_or_default("updateStrategy")),
    node_selector=_given("nodeSelector"),
    affinity=_given("affinity"),
    runtime_class=Wrapped("with $plugin.runtimeClassName", _THIS),
)


def _config_map() -> Fields:
    return companions.config_map(_NAME, _NAMESPACE, Pasted("$plugin.files"))


def _network_policy() -> Fields:
    return companions.network_policy(_NAME, _NAMESPACE, Wrapped(_READS, companions.to_api_server()), _PORT)


def _pod_monitor() -> Fields:
    labels = {FURTHER: Wrapped("with $.Values.podMonitor.labels", Pasted("."))}
    return companions.pod_monitor(_NAME, _NAMESPACE, labels)


def _dashboard() -> Fields:
    name = ChartExpression('printf "%s-dashboard" $.Release.Name | quote')
    data = {FILE: ChartExpression(f'.Files.Get "files/{FILE}" | toJson')}
    labels = {NAME_LABEL: ChartExpression("$.Release.Name | quote"), LABEL: "1"}
    return companions.config_map(name, _NAMESPACE, data, labels)


_HELPERS: Final = """\
{{- /* The name of an image: its repository, its tag, its digest; one of both has to be there. */}}
{{- define "plugbay.image" -}}
{{- required "image.repository: there is no public image; say where yours is" .repository -}}
{{- if or .tag (not .digest) }}:{{ required "image.tag: which version of the image?" .tag }}{{ end -}}
{{- with .digest }}@{{ . }}{{ end -}}
{{- end }}

{{- /* The Python files of a plugin as one text; empty if there are none. */}}
{{- define "plugbay.code" -}}
{{- range $file, $text := .files }}
{{- if hasSuffix ".py" $file }}{{ $file }}{{ "\\n" }}{{ $text }}{{ end }}
{{- end }}
{{- end }}
"""
_NOTES: Final = """\
{{- if .Values.plugins -}}
The plugins are on their way to the nodes of the cluster:
{{ range $name, $plugin := .Values.plugins }}
  kubectl -n {{ $.Release.Namespace }} rollout status daemonset/{{ $name }}
{{- end }}

Device plugins mount directories of their nodes, so the namespace has to admit Pod Security level privileged:

  kubectl label namespace {{ .Release.Namespace }} pod-security.kubernetes.io/enforce=privileged
{{- else -}}
There are no plugins in the values, so nothing was installed: see `plugins` in values.yaml.
{{- end }}
"""
