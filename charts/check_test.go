package charts_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
)

// check expects what must hold with whatever values: names and labels that Kubernetes takes, selectors that
// select what they are meant for, and pods that may do nothing but their work.
func (o objects) check(t *testing.T) {
	t.Helper()
	bridge := deployment(t, o)
	for key, object := range o {
		for _, wrong := range validation.IsDNS1123Label(object.GetName()) {
			t.Errorf("%s: %s", key, wrong)
		}
		if object.GetNamespace() != namespace {
			t.Errorf("%s is in namespace %q", key, object.GetNamespace())
		}
		checkLabels(t, key, object.GetLabels())
		switch object := object.(type) {
		case *appsv1.Deployment:
			o.selectsBridges(t, key, object.Spec.Selector)
			checkPod(t, key, object.Spec.Template)
			checkBridge(t, object)
		case *batchv1.Job:
			checkPod(t, key, object.Spec.Template)
		case *corev1.Service:
			o.selectsBridges(t, key, &metav1.LabelSelector{MatchLabels: object.Spec.Selector})
			if target := object.Spec.Ports[0].TargetPort.String(); target != bridge.Spec.Template.Spec.Containers[0].Ports[0].Name {
				t.Errorf("%s leads to port %s", key, target)
			}
		case *policyv1.PodDisruptionBudget:
			o.selectsBridges(t, key, object.Spec.Selector)
		case *networkingv1.NetworkPolicy:
			if object.Name == fullName {
				o.selectsBridges(t, key, &object.Spec.PodSelector)
				continue
			}
			selects(t, key, &object.Spec.PodSelector, bridge.Spec.Template.Labels, false)
			selects(t, key, &object.Spec.PodSelector, of[*batchv1.Job](t, o, object.Name).Spec.Template.Labels, true)
		case *monitoring.ServiceMonitor:
			service := of[*corev1.Service](t, o, fullName)
			selects(t, key, &object.Spec.Selector, service.Labels, true)
			if port := object.Spec.Endpoints[0].Port; port != service.Spec.Ports[0].Name {
				t.Errorf("%s asks port %s", key, port)
			}
		}
	}
}

func checkLabels(t *testing.T, of string, all map[string]string) {
	t.Helper()
	for name, value := range all {
		for _, wrong := range append(validation.IsQualifiedName(name), validation.IsValidLabelValue(value)...) {
			t.Errorf("%s: label %s=%s: %s", of, name, value, wrong)
		}
	}
}

func selects(t testing.TB, what string, by *metav1.LabelSelector, of map[string]string, want bool) {
	t.Helper()
	selector, err := metav1.LabelSelectorAsSelector(by)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if selector.Empty() || selector.Matches(labels.Set(of)) != want {
		t.Errorf("%s: %s selects %v: %v, want %v", what, selector, of, !want, want)
	}
}

// selectsBridges expects bridges to be selected, and the Job's pods not to be.
func (o objects) selectsBridges(t testing.TB, what string, by *metav1.LabelSelector) {
	t.Helper()
	selects(t, what, by, deployment(t, o).Spec.Template.Labels, true)
	for _, object := range o {
		if job, ok := object.(*batchv1.Job); ok {
			selects(t, what+" and "+job.Name, by, job.Spec.Template.Labels, false)
		}
	}
}

// checkPod expects a pod that is not root, writes to no disk, has no token, and whose files are there.
func checkPod(t *testing.T, of string, template corev1.PodTemplateSpec) {
	t.Helper()
	checkLabels(t, of, template.Labels)
	pod, container := template.Spec, template.Spec.Containers[0]
	if *pod.AutomountServiceAccountToken || *pod.EnableServiceLinks {
		t.Errorf("%s has a token or service links", of)
	}
	s, c := pod.SecurityContext, container.SecurityContext
	if !*s.RunAsNonRoot || *s.RunAsUser == 0 || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault ||
		*c.AllowPrivilegeEscalation || !*c.ReadOnlyRootFilesystem || !slices.Equal(c.Capabilities.Drop, []corev1.Capability{"ALL"}) {
		t.Errorf("%s may do too much: %+v %+v", of, s, c)
	}
	if *s.FSGroup != *s.RunAsGroup {
		t.Errorf("%s cannot read its secrets: fsGroup %d, group %d", of, *s.FSGroup, *s.RunAsGroup)
	}
	for _, mount := range container.VolumeMounts {
		if !slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name }) {
			t.Errorf("%s mounts %s, which there is not", of, mount.Name)
		}
	}
	if mode := pod.Volumes[0].Projected.DefaultMode; *mode != 0o400 {
		t.Errorf("%s: secrets have mode %o", of, *mode)
	}
	for _, v := range container.Env {
		path, isFile := strings.CutPrefix(v.Value, secretsPath+"/")
		if isFile && !slices.Contains(secretFiles(pod), path) {
			t.Errorf("%s: no secret is mounted at %s, which %s names", of, v.Value, v.Name)
		}
	}
}

// secretsPath is where the files with passwords are.
const secretsPath = "/run/secrets/delaybridge"

func secretFiles(pod corev1.PodSpec) (files []string) {
	for _, source := range pod.Volumes[0].Projected.Sources {
		for _, item := range source.Secret.Items {
			files = append(files, item.Path)
		}
	}
	return files
}

func checkBridge(t *testing.T, d *appsv1.Deployment) {
	t.Helper()
	pod, container := d.Spec.Template.Spec, d.Spec.Template.Spec.Containers[0]
	text, _ := strings.CutSuffix(flagOf(t, container.Args, "drain-timeout"), "s")
	drain, err := strconv.ParseInt(text, 10, 64)
	if err != nil || *pod.TerminationGracePeriodSeconds <= drain+10 {
		t.Errorf("Kubernetes kills after %d s a bridge that may drain for %s s and ten more", *pod.TerminationGracePeriodSeconds, text)
	}
	for _, probe := range []*corev1.Probe{container.LivenessProbe, container.ReadinessProbe} {
		if probe.HTTPGet.Port.String() != container.Ports[0].Name {
			t.Errorf("a probe asks port %s", probe.HTTPGet.Port.String())
		}
	}
	if port := flagOf(t, container.Args, "metrics-addr"); port != ":"+strconv.Itoa(int(container.Ports[0].ContainerPort)) {
		t.Errorf("the bridge serves at %s, Kubernetes asks %d", port, container.Ports[0].ContainerPort)
	}
}

// flagOf returns the value of a flag that is written --name=value.
func flagOf(t testing.TB, args []string, name string) string {
	t.Helper()
	for _, arg := range args {
		if value, ok := strings.CutPrefix(arg, "--"+name+"="); ok {
			return value
		}
	}
	t.Fatalf("--%s is not among %q", name, args)
	return ""
}
