// Package charts_test renders the chart as Helm does, reads what comes out strictly as the types of
// Kubernetes' API, and starts the program with it.
package charts_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

const (
	releaseName = "shop"
	namespace   = "orders"
)

// objects are what the chart renders, by kind and name.
type objects map[string]metav1.Object

// render returns what Helm would install with values, which is YAML over a minimum, and the notes.
func render(values string) (objects, string, error) { return renderAs(releaseName, values) }

func renderAs(release, values string) (objects, string, error) {
	chart, err := loader.Load("delaybridge")
	if err != nil {
		return nil, "", err
	}
	given, err := common.ReadValues([]byte(values))
	if err != nil {
		return nil, "", err
	}
	if _, ok := given["secretName"]; !ok {
		given["secretName"] = "urls"
	}
	all, err := util.ToRenderValues(chart, given, common.ReleaseOptions{
		Name: release, Namespace: namespace, Revision: 1, IsInstall: true,
	}, common.DefaultCapabilities)
	if err != nil {
		return nil, "", err
	}
	files, err := engine.Render(chart, all)
	if err != nil {
		return nil, "", err
	}
	found, notes := objects{}, ""
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if path.Base(name) == "NOTES.txt" {
			notes = files[name]
			continue
		}
		if err := found.read(name, files[name]); err != nil {
			return nil, "", err
		}
	}
	return found, notes, nil
}

// read adds the documents of a file. One with a field that its type does not have is an error.
func (o objects) read(name, text string) error {
	documents := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var what metav1.TypeMeta
		if err := yaml.Unmarshal(document, &what); err != nil {
			return errors.Join(errors.New(name+" is no YAML:\n"+text), err)
		}
		if what.Kind == "" && len(bytes.TrimSpace(document)) == 0 {
			continue
		}
		object, ok := types()[what.APIVersion+" "+what.Kind]
		if !ok {
			return errors.New(name + ": unknown type " + what.APIVersion + " " + what.Kind + ":\n" + string(document))
		}
		if err := unmarshal(document, object); err != nil {
			return errors.Join(errors.New(name+":\n"+string(document)), err)
		}
		key := what.Kind + " " + object.GetName()
		if o[key] != nil {
			return errors.New(name + ": " + key + " is there twice")
		}
		o[key] = object
	}
}

// unmarshal refuses what kubectl does: a field that there is not, or that is there twice, or in other letters.
func unmarshal(document []byte, object any) error {
	text, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		return err
	}
	wrong, err := json.UnmarshalStrict(text, object)
	return errors.Join(append(wrong, err)...)
}

// types are new objects of all types that the chart may render.
func types() map[string]metav1.Object {
	return map[string]metav1.Object{
		"apps/v1 Deployment":                      &appsv1.Deployment{},
		"batch/v1 Job":                            &batchv1.Job{},
		"v1 Service":                              &corev1.Service{},
		"policy/v1 PodDisruptionBudget":           &policyv1.PodDisruptionBudget{},
		"networking.k8s.io/v1 NetworkPolicy":      &networkingv1.NetworkPolicy{},
		"monitoring.coreos.com/v1 ServiceMonitor": &monitoring.ServiceMonitor{},
		"monitoring.coreos.com/v1 PrometheusRule": &monitoring.PrometheusRule{},
	}
}

// rendered is render for values that must be right.
func rendered(t *testing.T, values string) objects {
	t.Helper()
	all, _, err := render(values)
	if err != nil {
		t.Fatal(err)
	}
	all.check(t)
	return all
}

// of returns the object of a kind, which is the only one with its name.
func of[T metav1.Object](t testing.TB, all objects, name string) T {
	t.Helper()
	for _, object := range all {
		if typed, ok := object.(T); ok && object.GetName() == name {
			return typed
		}
	}
	var none T
	t.Fatalf("there is no %T %s", none, name)
	return none
}

func (o objects) names() []string { return slices.Sorted(maps.Keys(o)) }

const fullName = releaseName + "-delaybridge"

func deployment(t testing.TB, all objects) *appsv1.Deployment {
	t.Helper()
	return of[*appsv1.Deployment](t, all, fullName)
}
