package view

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// TestImportProbes imports each combination of probes, with a Service of the pods, with a Service that is not taken over, and without one: the
// App is valid, and its containers have those probes and no other.
func TestImportProbes(t *testing.T) {
	probe := func(path string) *corev1.Probe {
		return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString("http")}}}
	}
	own := map[string]string{"run": "web"}
	for around, services := range map[string][]corev1.Service{
		"a Service of the pods":             {foreignService("web", own)},
		"a Service that is not taken over":  {foreignService("web", map[string]string{"team": "a"})},
		"no Service":                        nil,
		"a Service of the pods and another": {foreignService("web", own), foreignService("front", own)},
	} {
		for _, stated := range []string{"", "l", "r", "s", "lr", "ls", "rs", "lrs"} {
			from := &Source{Services: services, Deployment: foreignDeployment(func(p *corev1.PodSpec) {
				main := &p.Containers[0]
				main.LivenessProbe, main.ReadinessProbe, main.StartupProbe = nil, nil, nil
				for _, letter := range stated {
					*map[rune]**corev1.Probe{'l': &main.LivenessProbe, 'r': &main.ReadinessProbe, 's': &main.StartupProbe}[letter] = probe("/" + string(letter))
				}
			})}
			want := from.Deployment.Spec.Template.Spec.Containers[0].DeepCopy()
			made, err := ImportOf(from)
			if err != nil {
				t.Fatal(err)
			}
			verified, err := VerifyImport(made, from)
			if err != nil || len(verified.Differences) > 0 {
				t.Errorf("%s, with %q: %v, %s", around, stated, err, verified.Text())
			}
			got := rebuilt(t, made, from.Deployment).Template.Spec.Containers[0]
			for name, pair := range map[string][2]*corev1.Probe{
				"liveness": {want.LivenessProbe, got.LivenessProbe}, "readiness": {want.ReadinessProbe, got.ReadinessProbe}, "startup": {want.StartupProbe, got.StartupProbe},
			} {
				if diff := cmp.Diff(pair[0], pair[1]); diff != "" {
					t.Errorf("%s, with %q: the %s probe (-foreign +imported):\n%s", around, stated, name, diff)
				}
			}
		}
	}
}
