package fields_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"huolala.cn/app-operator/internal/fields"
	"huolala.cn/app-operator/internal/fields/fieldtest"
)

// TestLeftovers leaves out parts of a Deployment in which another manager has fields. A part that is nothing without what is ours alone goes as a
// whole.
func TestLeftovers(t *testing.T) {
	const (
		probe  = `"f:livenessProbe":{"f:tcpSocket":{"f:port":{}}}`
		number = `"f:livenessProbe":{"f:periodSeconds":{}}`
		hook   = `"f:lifecycle":{"f:preStop":{"f:httpGet":{"f:path":{},"f:port":{}}}}`
		more   = `"f:lifecycle":{"f:preStop":{"f:httpGet":{"f:host":{},"f:path":{},"f:port":{}}}}`
	)
	inWeb := func(fields string) string {
		return `{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{".":{},"f:name":{},"f:image":{},` + fields + `}}}}}}`
	}
	live := fieldtest.Deployment()
	pod := &live.Spec.Template.Spec
	pod.Containers[0].LivenessProbe = &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(80)}}, PeriodSeconds: 7,
	}
	pod.Containers[0].Lifecycle = &corev1.Lifecycle{
		PreStop: &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Host: "localhost", Port: intstr.FromInt32(80)}}, StopSignal: ptr.To(corev1.SIGUSR1),
	}
	for name, c := range map[string]struct {
		ours, theirs string
		want         []string
	}{
		"nothing is ours":       {`{}`, inWeb(probe), nil},
		"all of it is ours":     {inWeb(probe + "," + `"f:tty":{}`), `{}`, nil},
		"a number of theirs":    {inWeb(probe), inWeb(number), []string{"livenessProbe"}},
		"the handler of both":   {inWeb(probe), inWeb(probe), nil},
		"the handler of theirs": {inWeb(number), inWeb(probe), nil},
		"a host of theirs": {
			inWeb(`"f:lifecycle":{"f:preStop":{"f:httpGet":{"f:port":{}}}}`), inWeb(`"f:lifecycle":{"f:preStop":{"f:httpGet":{"f:host":{}}}}`), []string{"lifecycle.preStop"},
		},
		"a host of ours in the handler of both":   {inWeb(more), inWeb(hook), nil},
		"a host of theirs in the handler of both": {inWeb(hook), inWeb(more), nil},
		"a handler without a port of theirs":      {inWeb(more), inWeb(`"f:lifecycle":{"f:preStop":{"f:httpGet":{"f:host":{},"f:path":{}}}}`), []string{"lifecycle.preStop"}},
		"a signal of theirs":                      {inWeb(`"f:lifecycle":{"f:preStop":{"f:httpGet":{"f:port":{}}}}`), inWeb(`"f:lifecycle":{"f:stopSignal":{}}`), nil},
	} {
		t.Run(name, func(t *testing.T) {
			found := live.DeepCopy()
			found.ManagedFields = append(found.ManagedFields, fieldtest.Entry("ours", fieldtest.Apply, "", c.ours), fieldtest.Entry("theirs", fieldtest.Update, "", c.theirs))
			if got := excludedOf(t, fieldtest.Deployment(), found); !slices.Equal(got, c.want) {
				t.Errorf("excluded are %q, want %q", got, c.want)
			}
			kept := fieldtest.Deployment()
			kept.Spec.Template = corev1.PodTemplateSpec{}
			if got := excludedOf(t, kept, found); got != nil {
				t.Errorf("of a template that is kept, excluded are %q", got)
			}
		})
	}
}

// TestHandlersAreKnown checks that each handler of a probe and of a hook has an entry with a field of its own.
func TestHandlersAreKnown(t *testing.T) {
	known := fields.RequiredFields()
	for from, handlers := range map[reflect.Type]reflect.Type{
		reflect.TypeFor[corev1.Probe]():            reflect.TypeFor[corev1.ProbeHandler](),
		reflect.TypeFor[corev1.LifecycleHandler](): reflect.TypeFor[corev1.LifecycleHandler](),
	} {
		for i := range handlers.NumField() {
			name, _, _ := strings.Cut(handlers.Field(i).Tag.Get("json"), ",")
			required, handler, found := known[from][name], handlers.Field(i).Type.Elem(), false
			for j := range handler.NumField() {
				member, _, _ := strings.Cut(handler.Field(j).Tag.Get("json"), ",")
				found = found || member == required
			}
			if !found {
				t.Errorf("%s of %s requires %q, which it does not have", name, from, required)
			}
		}
		if got, want := len(known[from]), handlers.NumField(); got != want {
			t.Errorf("%s has %d handlers, want %d", from, got, want)
		}
	}
}
