package charts_test

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

func TestByDefault(t *testing.T) {
	t.Parallel()
	all := rendered(t, "")
	want := []string{"Deployment " + fullName, "PodDisruptionBudget " + fullName, "Service " + fullName}
	if names := all.names(); !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
	d := deployment(t, all)
	if *d.Spec.Replicas != 2 || *d.Spec.Template.Spec.TerminationGracePeriodSeconds != 35 {
		t.Errorf("got %d bridges, grace period %d s", *d.Spec.Replicas, *d.Spec.Template.Spec.TerminationGracePeriodSeconds)
	}
	if image := container(d).Image; image != "delaybridge:latest" {
		t.Errorf("got image %s", image)
	}
	terms := d.Spec.Template.Spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	selects(t, "anti-affinity", terms[0].PodAffinityTerm.LabelSelector, d.Spec.Template.Labels, true)
	if rolling := d.Spec.Strategy.RollingUpdate; rolling.MaxUnavailable.IntValue() != 0 || rolling.MaxSurge.IntValue() != 1 {
		t.Errorf("got %+v", rolling)
	}
	budget := of[*policyv1.PodDisruptionBudget](t, all, fullName)
	if budget.Spec.MaxUnavailable.IntValue() != 1 {
		t.Errorf("got %+v", budget.Spec)
	}
	if service := of[*corev1.Service](t, all, fullName); !service.Spec.PublishNotReadyAddresses {
		t.Error("Prometheus would not see bridges that are not ready")
	}
}

// Each option does what it says, and nothing is left of it without it.
func TestOptions(t *testing.T) {
	t.Parallel()
	for values, check := range map[string]func(test, objects){
		"replicaCount: 3": func(t test, all objects) { want(t, *deployment(t, all).Spec.Replicas, 3) },
		"replicaCount: null": func(t test, all objects) {
			if n := deployment(t, all).Spec.Replicas; n != nil {
				t.Errorf("an autoscaler would be overruled: %d", *n)
			}
		},
		`{image: {repository: "registry:5000/x", tag: 1.2.3, pullPolicy: Always}, imagePullSecrets: [{name: pull}]}`: func(t test, all objects) {
			c := container(deployment(t, all))
			want(t, c.Image, "registry:5000/x:1.2.3")
			want(t, c.ImagePullPolicy, corev1.PullAlways)
			want(t, deployment(t, all).Spec.Template.Spec.ImagePullSecrets[0].Name, "pull")
		},
		"drainTimeoutSeconds: 90": func(t test, all objects) {
			want(t, *deployment(t, all).Spec.Template.Spec.TerminationGracePeriodSeconds, 105)
			want(t, flagOf(t, container(deployment(t, all)).Args, "drain-timeout"), "90s")
		},
		"antiAffinity: required": func(t test, all objects) {
			d := deployment(t, all)
			terms := d.Spec.Template.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
			selects(t, "anti-affinity", terms[0].LabelSelector, d.Spec.Template.Labels, true)
			want(t, d.Spec.Strategy.RollingUpdate.MaxSurge.IntValue(), 0)
			want(t, d.Spec.Strategy.RollingUpdate.MaxUnavailable.IntValue(), 1)
		},
		"antiAffinity: none": func(t test, all objects) {
			want(t, deployment(t, all).Spec.Template.Spec.Affinity, nil)
		},
		"affinity: {nodeAffinity: {}}": func(t test, all objects) {
			want(t, deployment(t, all).Spec.Template.Spec.Affinity, &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}})
		},
		"podDisruptionBudget: {enabled: false}": func(t test, all objects) {
			want(t, all.names(), []string{"Deployment " + fullName, "Service " + fullName})
		},
		`{topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}], nodeSelector: {disk: ssd},
		  tolerations: [{operator: Exists}], priorityClassName: high, serviceAccountName: bridge, podAnnotations: {a: b}, podLabels: {team: shop}}`: func(t test, all objects) {
			template := deployment(t, all).Spec.Template
			want(t, template.Spec.TopologySpreadConstraints[0].TopologyKey, "zone")
			want(t, template.Spec.NodeSelector["disk"], "ssd")
			want(t, template.Spec.Tolerations[0].Operator, corev1.TolerationOpExists)
			want(t, template.Spec.PriorityClassName, "high")
			want(t, template.Spec.ServiceAccountName, "bridge")
			want(t, template.Annotations["a"], "b")
			want(t, template.Labels["team"], "shop")
		},
		`{extraEnv: [{name: OTEL_EXPORTER_OTLP_ENDPOINT, value: "http://collector:4317"}], extraArgs: [--lease, 10s],
		  extraVolumes: [{name: ca, configMap: {name: ca}}], extraVolumeMounts: [{name: ca, mountPath: /ca}]}`: func(t test, all objects) {
			c := container(deployment(t, all))
			want(t, c.Env[len(c.Env)-1].Name, "OTEL_EXPORTER_OTLP_ENDPOINT")
			want(t, c.Args[len(c.Args)-2:], []string{"--lease", "10s"})
			want(t, c.VolumeMounts[1].MountPath, "/ca")
		},
		"management: false": func(t test, all objects) {
			d := deployment(t, all)
			want(t, secretFiles(d.Spec.Template.Spec), []string{"amqp-url", "redis-url"})
			if !slices.Contains(container(d).Env, corev1.EnvVar{Name: "DELAYBRIDGE_MANAGEMENT_URL"}) {
				t.Error("the bridge would ask the default management-url")
			}
		},
		"resources: null": func(t test, all objects) {
			want(t, container(deployment(t, all)).Resources.Limits, nil)
		},
		"topologyJob: {enabled: true, secretName: wide}": func(t test, all objects) {
			job := of[*batchv1.Job](t, all, fullName+"-topology")
			want(t, job.Annotations["helm.sh/hook"], "pre-install,pre-upgrade")
			want(t, job.Spec.Template.Spec.Volumes[0].Projected.Sources[0].Secret.Name, "wide")
			want(t, secretFiles(job.Spec.Template.Spec), []string{"amqp-url"})
			want(t, deployment(t, all).Spec.Template.Spec.Volumes[0].Projected.Sources[0].Secret.Name, "urls")
		},
		"serviceMonitor: {enabled: true, interval: 15s, labels: {prometheus: main}}": func(t test, all objects) {
			m := of[*monitoring.ServiceMonitor](t, all, fullName)
			want(t, m.Labels["prometheus"], "main")
			want(t, m.Spec.Endpoints[0].Interval, "15s")
			want(t, m.Spec.Endpoints[0].Scheme, nil)
		},
		"{serviceMonitor: {enabled: true}, metrics: {tlsSecretName: tls, tokenSecretName: token, port: 9999}}": func(t test, all objects) {
			e := of[*monitoring.ServiceMonitor](t, all, fullName).Spec.Endpoints[0]
			want(t, e.Scheme.String(), "https")
			want(t, e.TLSConfig.CA.Secret.Name, "tls")
			want(t, *e.TLSConfig.ServerName, fullName+"."+namespace+".svc")
			want(t, e.Authorization.Credentials.Name, "token")
			want(t, container(deployment(t, all)).LivenessProbe.HTTPGet.Scheme, corev1.URISchemeHTTPS)
			want(t, container(deployment(t, all)).ReadinessProbe.HTTPGet.Scheme, corev1.URISchemeHTTPS)
		},
		"prometheusRule: {enabled: true, labels: {prometheus: main}}": func(t test, all objects) {
			rule := of[*monitoring.PrometheusRule](t, all, fullName)
			want(t, rule.Labels["prometheus"], "main")
			text, err := os.ReadFile("../internal/servers/config/observability/alerts.yml")
			if err != nil {
				t.Fatal(err)
			}
			var shipped monitoring.PrometheusRuleSpec
			if err := yaml.UnmarshalStrict(text, &shipped); err != nil {
				t.Fatal(err)
			}
			want(t, rule.Spec, shipped)
		},
		"networkPolicy: {enabled: true}": func(t test, all objects) {
			p := of[*networkingv1.NetworkPolicy](t, all, fullName)
			want(t, p.Spec.PolicyTypes, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress})
			want(t, portsOf(p), []int{53, 53, 5672, 5671, 15672, 15671, 6379})
			want(t, p.Spec.Ingress[0].Ports[0].Port.IntValue(), 9464)
			want(t, len(p.Spec.Ingress[0].From)+len(p.Spec.Egress[1].To), 0)
		},
		`{topologyJob: {enabled: true, secretName: wide}, networkPolicy: {enabled: true,
		  rabbitmq: {to: [{podSelector: {matchLabels: {app: rabbitmq}}}], ports: [5671]}, redis: {to: [{ipBlock: {cidr: 10.0.0.0/8}}], ports: [6380]},
		  dns: {to: [{namespaceSelector: {}}]}, prometheus: {from: [{namespaceSelector: {}}]}, extraEgress: [{ports: [{port: 4317}]}]}}`: func(t test, all objects) {
			p := of[*networkingv1.NetworkPolicy](t, all, fullName)
			want(t, portsOf(p), []int{53, 53, 5671, 6380, 4317})
			want(t, p.Spec.Egress[0].To[0].NamespaceSelector != nil, true)
			want(t, p.Spec.Egress[1].To[0].PodSelector.MatchLabels["app"], "rabbitmq")
			want(t, p.Spec.Egress[2].To[0].IPBlock.CIDR, "10.0.0.0/8")
			want(t, len(p.Spec.Ingress[0].From), 1)
			job := of[*networkingv1.NetworkPolicy](t, all, fullName+"-topology")
			want(t, portsOf(job), []int{53, 53, 5671})
			want(t, job.Annotations["helm.sh/hook"], "pre-install,pre-upgrade")
			want(t, len(job.Spec.Ingress), 0)
		},
	} {
		t.Run(values, func(t *testing.T) {
			t.Parallel()
			check(test{t}, rendered(t, values))
		})
	}
}

// test is one of the options' tests.
type test struct{ *testing.T }

func container(d *appsv1.Deployment) corev1.Container { return d.Spec.Template.Spec.Containers[0] }

func portsOf(p *networkingv1.NetworkPolicy) (ports []int) {
	for _, rule := range p.Spec.Egress {
		for _, port := range rule.Ports {
			ports = append(ports, port.Port.IntValue())
		}
	}
	return ports
}

// want compares; nil is no value of whatever type.
func want(t testing.TB, got, wanted any) {
	t.Helper()
	g := reflect.ValueOf(got)
	if wanted == nil {
		if !g.IsZero() {
			t.Errorf("got %v, want none", got)
		}
		return
	}
	w := reflect.ValueOf(wanted)
	if w.CanConvert(g.Type()) && w.Kind() != reflect.Slice {
		wanted = w.Convert(g.Type()).Interface()
	}
	if !reflect.DeepEqual(got, wanted) {
		t.Errorf("got %+v, want %+v", got, wanted)
	}
}

// Values that cannot be meant are refused, with an error that names them.
func TestBadValues(t *testing.T) {
	t.Parallel()
	for values, says := range map[string][]string{
		`secretName: ""`:                              {"secretName is empty: create a Secret with the keys amqp-url, redis-url and management-url"},
		`secretName: Urls`:                            {"/secretName", "Urls"},
		`topologyJob: {enabled: true}`:                {"topologyJob.secretName is empty"},
		`extraArgs: [--drain-timeout=1m]`:             {"extraArgs has --drain-timeout: set drainTimeoutSeconds"},
		`extraArgs: [--metrics-addr, ":1"]`:           {"extraArgs has --metrics-addr: set the values under metrics"},
		`replicas: 3`:                                 {"additional properties 'replicas' not allowed"},
		`replicaCount: 0`:                             {"/replicaCount", "minimum"},
		`replicaCount: two`:                           {"/replicaCount", "want null or integer"},
		`settings: {shard: 4}`:                        {"/settings", "'shard' not allowed"},
		`settings: {shards: 65}`:                      {"/settings/shards", "maximum"},
		`settings: {lead: soon}`:                      {"/settings/lead", "'soon' does not match"},
		`settings: {amqp-url: "amqp://u:p@rabbit"}`:   {"/settings", "'amqp-url' not allowed"},
		`settings: {log-level: loud}`:                 {"/settings/log-level", "'debug', 'info', 'warn', 'error'"},
		`metrics: {port: 80}`:                         {"/metrics/port", "minimum"},
		`antiAffinity: hard`:                          {"/antiAffinity", "'preferred', 'required', 'none'"},
		`networkPolicy: {redis: {ports: []}}`:         {"/networkPolicy/redis/ports"},
		`drainTimeoutSeconds: 20s`:                    {"/drainTimeoutSeconds", "want integer"},
		`serviceMonitor: {enabled: "yes"}`:            {"/serviceMonitor/enabled", "want boolean"},
		`podDisruptionBudget: {maxUnavailable: 0}`:    {"/podDisruptionBudget/maxUnavailable", "minimum"},
		`image: {pullPolicy: Sometimes}`:              {"/image/pullPolicy", "'Always'"},
		`topologyJob: {secretName: wide, enable: on}`: {"/topologyJob", "'enable' not allowed"},
	} {
		t.Run(values, func(t *testing.T) {
			t.Parallel()
			_, _, err := render(values)
			if err == nil {
				t.Fatal("no error")
			}
			for _, part := range says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%v\ndoes not say %q", err, part)
				}
			}
		})
	}
}

// What docs/kubernetes.md shows can be used as it stands.
func TestDocumentedResources(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	var values, scalers int
	for _, block := range regexp.MustCompile(`(?m)(?:^    .*\n)+`).FindAllString(string(text), -1) {
		block = regexp.MustCompile(`(?m)^    `).ReplaceAllString(block, "")
		switch {
		case strings.HasPrefix(block, "networkPolicy:"), strings.HasPrefix(block, "secretName:"):
			rendered(t, block)
			values++
		case strings.HasPrefix(block, "apiVersion: autoscaling/v2\n"):
			var scaler autoscalingv2.HorizontalPodAutoscaler
			if err := unmarshal([]byte(block), &scaler); err != nil {
				t.Error(err)
			}
			all, _, err := renderAs(scaler.Spec.ScaleTargetRef.Name, "replicaCount: null")
			if err != nil {
				t.Fatal(err)
			}
			of[*appsv1.Deployment](t, all, scaler.Spec.ScaleTargetRef.Name)
			scalers++
		}
	}
	if values != 2 || scalers != 1 {
		t.Errorf("found %d examples of values and %d scalers", values, scalers)
	}
}

func TestNamesOfReleases(t *testing.T) {
	t.Parallel()
	for release, named := range map[string]string{"delaybridge": "delaybridge", "my-delaybridge-2": "my-delaybridge-2", "shop": "shop-delaybridge"} {
		all, _, err := renderAs(release, "")
		if err != nil {
			t.Fatal(err)
		}
		of[*appsv1.Deployment](t, all, named)
	}
	_, _, err := renderAs(strings.Repeat("x", 39), "")
	if err == nil || !strings.Contains(err.Error(), "is too long: use at most 38 characters") {
		t.Errorf("got %v", err)
	}
}

func TestNotesSayWhoStandsBy(t *testing.T) {
	t.Parallel()
	for values, standBy := range map[string]bool{
		"": false, "replicaCount: 5": true, "{replicaCount: 5, settings: {shards: 8}}": false, "replicaCount: null": false,
	} {
		_, notes, err := render(values)
		if err != nil || !strings.Contains(notes, "rollout status deployment/"+fullName) || strings.Contains(notes, "1 only stand by") != standBy {
			t.Errorf("%s: %v\n%s", values, err, notes)
		}
	}
}
