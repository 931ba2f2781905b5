package resource

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	appv1 "huolala.cn/app-operator/api/v1"
)

// TestDefaultProbes has, for each probe that a spec may state, which probes there are by default: L, R and S stand for
// liveness, readiness and startup, in small letters for one of the spec's own.
func TestDefaultProbes(t *testing.T) {
	for _, c := range []struct {
		stated                   string
		restarts, doesNotRestart string
	}{
		{"", "LRS", "R"},
		{"l", "lR", "lR"},
		{"r", "r", "r"},
		{"s", "LRs", "Rs"},
		{"lr", "lr", "lr"},
		{"ls", "lRs", "lRs"},
		{"rs", "Lrs", "rs"},
		{"lrs", "lrs", "lrs"},
	} {
		ports := []corev1.ContainerPort{{ContainerPort: 53, Protocol: udp}, {ContainerPort: 80, Protocol: tcp}}
		for _, v := range []struct {
			what      string
			rendering int32
			restarts  bool
			want      string
		}{
			{"the tutorials'", RenderingTutorial, true, c.stated},
			{"the latest", RenderingLatest, false, c.doesNotRestart},
			{"the latest, restarts", RenderingLatest, true, c.restarts},
		} {
			own := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"own"}}}}
			spec := &appv1.Probes{}
			if strings.Contains(c.stated, "l") {
				spec.Liveness = own
			}
			if strings.Contains(c.stated, "r") {
				spec.Readiness = own
			}
			if strings.Contains(c.stated, "s") {
				spec.Startup = own
			}
			in := BuildInputs{Rendering: v.rendering}
			liveness, readiness, startup := mainProbes(spec, ports, v.restarts, in)
			got := letter(liveness, own, "L") + letter(readiness, own, "R") + letter(startup, own, "S")
			if got != v.want {
				t.Errorf("%s, with %q stated: %q, want %q", v.what, c.stated, got, v.want)
			}
			spec.Disabled = true
			if l, r, s := mainProbes(spec, ports, v.restarts, in); l != spec.Liveness || r != spec.Readiness || s != spec.Startup {
				t.Errorf("%s, with %q stated: default probes are disabled, and there are others than the stated probes", v.what, c.stated)
			}
		}
	}
}

func letter(p, own *corev1.Probe, letter string) string {
	switch p {
	case nil:
		return ""
	case own:
		return strings.ToLower(letter)
	}
	return letter
}

// TestNoStartupProbeHoldsBackOwnProbes has an application that listens on its second port alone, with probes of its own for
// that: a default startup probe on the first port would hold them back for a day.
func TestNoStartupProbeHoldsBackOwnProbes(t *testing.T) {
	w, errs := App(appOf(t, `{image: a, ports: [{port: 80}, {port: 81}],
		probes: {liveness: {tcpSocket: {port: 81}}, readiness: {tcpSocket: {port: 81}}}}`), latest)
	if c := w.Template.Spec.Containers[0]; len(errs) > 0 || c.StartupProbe != nil {
		t.Errorf("there is a startup probe: %+v, %v", c.StartupProbe, errs)
	}
}
