package secrecy_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/secrecy"
)

// podTemplateIn returns the first pod template in a struct, nil if there is none.
func podTemplateIn(v reflect.Value) *corev1.PodTemplateSpec {
	if v.Kind() != reflect.Struct {
		return nil
	}
	if template, ok := v.Addr().Interface().(*corev1.PodTemplateSpec); ok {
		return template
	}
	for i := range v.NumField() {
		if !v.Type().Field(i).IsExported() {
			continue
		}
		if found := podTemplateIn(v.Field(i)); found != nil {
			return found
		}
	}
	return nil
}

// TestEachTypeWithPodsIsRedacted has a pod template with a private value in each type of children that has pod templates: a message that quotes the
// value loses it.
func TestEachTypeWithPodsIsRedacted(t *testing.T) {
	const private = "S3CR3T-VALUE"
	checked := 0
	for i := range children.Types {
		obj, ok := reflect.New(reflect.TypeOf(children.Types[i].Object).Elem()).Interface().(client.Object)
		if !ok {
			t.Fatalf("%T is no object", children.Types[i].Object)
		}
		template := podTemplateIn(reflect.ValueOf(obj).Elem())
		if template == nil {
			continue
		}
		checked++
		template.Annotations = map[string]string{"shop.example/key": private + "-1"}
		template.Spec.Containers = []corev1.Container{{Name: "main", Args: []string{private + "-2"}, Env: []corev1.EnvVar{{Name: "T", Value: private + "-3"}}}}
		if words := secrecy.RedactText("denied: "+private+"-1, "+private+"-2, "+private+"-3", obj); strings.Contains(words, private) {
			data, _ := json.Marshal(obj)
			t.Errorf("%T: %s; of %s", obj, words, data)
		}
	}
	if checked < 4 {
		t.Errorf("%d types have pod templates, want Deployment, StatefulSet, Job and CronJob at least", checked)
	}
}
