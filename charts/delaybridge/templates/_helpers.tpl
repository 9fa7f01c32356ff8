{{- define "delaybridge.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-{{ .Chart.Name }}{{ end -}}
{{- end }}

{{- define "delaybridge.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "delaybridge.labels" -}}
{{ include "delaybridge.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "delaybridge.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* Where the files with passwords are. */}}
{{- define "delaybridge.secrets" -}}/run/secrets/delaybridge{{- end }}

{{/*
Settings as variables. CREDENTIALS_DIRECTORY says that Kubernetes takes care of who may read the files: with fsGroup
they are readable by their group, which the bridge would warn of.
*/}}
{{- define "delaybridge.env" -}}
- name: CREDENTIALS_DIRECTORY
  value: {{ include "delaybridge.secrets" . }}
- name: DELAYBRIDGE_AMQP_URL_FILE
  value: {{ include "delaybridge.secrets" . }}/amqp-url
{{- range $key, $value := .Values.settings }}
{{- if kindIs "slice" $value }}{{ $value = join "," $value }}{{ end }}
{{- if kindIs "float64" $value }}{{ $value = int64 $value }}{{ end }}
- name: DELAYBRIDGE_{{ $key | upper | replace "-" "_" }}
  value: {{ $value | toString | quote }}
{{- end }}
{{- end }}

{{/* Of a pod. */}}
{{- define "delaybridge.podSecurity" -}}
automountServiceAccountToken: false
enableServiceLinks: false # the variables of a Service "delaybridge" would look like settings
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- end }}

{{/* Of a container. */}}
{{- define "delaybridge.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* Where pods run: what bridges and the Job have in common. */}}
{{- define "delaybridge.scheduling" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.serviceAccountName }}
serviceAccountName: {{ . }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Rules of a NetworkPolicy: DNS and RabbitMQ, which bridges and the Job need. */}}
{{- define "delaybridge.egress" -}}
- ports:
    - {port: 53, protocol: UDP}
    - {port: 53, protocol: TCP}
  {{- with .Values.networkPolicy.dns.to }}
  to:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{ include "delaybridge.egressTo" .Values.networkPolicy.rabbitmq }}
{{- end }}

{{- define "delaybridge.egressTo" -}}
- ports:
    {{- range .ports }}
    - {port: {{ int64 . }}, protocol: TCP}
    {{- end }}
  {{- with .to }}
  to:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
