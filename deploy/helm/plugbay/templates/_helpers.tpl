{{- /* The name of an image: its repository, its tag, its digest; one of both has to be there. */}}
{{- define "plugbay.image" -}}
{{- required "image.repository: there is no public image; say where yours is" .repository -}}
{{- if or .tag (not .digest) }}:{{ required "image.tag: which version of the image?" .tag }}{{ end -}}
{{- with .digest }}@{{ . }}{{ end -}}
{{- end }}

{{- /* The Python files of a plugin as one text; empty if there are none. */}}
{{- define "plugbay.code" -}}
{{- range $file, $text := .files }}
{{- if hasSuffix ".py" $file }}{{ $file }}{{ "\n" }}{{ $text }}{{ end }}
{{- end }}
{{- end }}
