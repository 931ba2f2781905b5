package workload

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/resource"
	"huolala.cn/app-operator/test/harness"
)

// newFollower returns an App that follows the key "level" of the ConfigMap "settings", and that ConfigMap.
func newFollower(namespace string) (*appv1.App, *corev1.ConfigMap) {
	app := newApp(namespace)
	app.Spec.ConfigRollout = appv1.ConfigRolloutOnChange
	app.Spec.Envs = []corev1.EnvVar{{Name: "LEVEL", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}, Key: "level"}}}}
	return app, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "settings"}, Data: map[string]string{"level": "1", "unused": "1"},
	}
}

// followed waits until an App has the present content of a ConfigMap, and its pods are ready.
func followed(t *testing.T, app *appv1.App, config *corev1.ConfigMap) {
	t.Helper()
	read(t, config)
	plane.Until(t, app, func() error {
		if c := app.Status.Config; len(c) != 1 || c[0].ResourceVersion != config.ResourceVersion {
			return fmt.Errorf("the status has %v, want the version %s", c, config.ResourceVersion)
		}
		return nil
	})
	ready(t, app)
}

// TestConfigRollout changes a key that no container uses, one that is used, and one together with the image. Pods are replaced
// where their content is new, and once each time.
func TestConfigRollout(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	m := plane.Start(t, ns)
	app, config := newFollower(ns)
	app.Spec.ConfigRollout = ""
	plane.Create(t, config, app)
	ready(t, app)
	before := uids(t, ns)

	plane.Change(t, app, func() { app.Spec.ConfigRollout = appv1.ConfigRolloutOnChange })
	followed(t, app, config)
	undisturbed(t, ns, before, "turning it on")
	plane.Change(t, config, func() { config.Data["unused"] = "2" })
	followed(t, app, config)
	undisturbed(t, ns, before, "an unused key")

	plane.Change(t, config, func() { config.Data["level"] = "2" })
	followed(t, app, config)
	if n, left := replicaSets(t, ns), shared(before, uids(t, ns)); n != 2 || left != 0 {
		t.Errorf("a used key: %d ReplicaSets, %d earlier pods are left", n, left)
	}
	m = plane.RestartAtRest(t, m, ns)
	before = uids(t, ns)

	m.Stop(t) // So that the manager sees both at once.
	plane.Change(t, app, func() { app.Spec.Image = "nginx:1.17.0" })
	plane.Change(t, config, func() { config.Data["level"] = "3" })
	m = plane.Start(t, ns)
	followed(t, app, config)
	plane.Change(t, config, func() { config.Data["unused"] = "3" })
	followed(t, app, config)
	if n, left := replicaSets(t, ns), shared(before, uids(t, ns)); n != 3 || left != 0 {
		t.Errorf("the image and a used key: %d ReplicaSets, %d earlier pods are left", n, left)
	}
	before = uids(t, ns)
	read(t, app)
	plane.Change(t, app, func() { app.Spec.ConfigRollout = appv1.ConfigRolloutNever })
	ready(t, app)
	m.Idle(t)
	if left := shared(before, uids(t, ns)); left != len(before) {
		t.Errorf("turning it off: %d of %d pods are left", left, len(before))
	}
}

// TestConfigRolloutOfBusyContent changes a used key ten times a second until a rollout has begun, which is after a minute. No rollout
// begins before the one before it is complete, and in the end the pods have the last content. A machine that is busy can pause between two
// changes for so long that the content counts as quiet: there may be a rollout for each such pause.
func TestConfigRolloutOfBusyContent(t *testing.T) {
	t.Parallel()
	const every, quiet = 100 * time.Millisecond, 5 * time.Second
	ns, m := plane.Shared(t)
	app, config := newFollower(ns)
	plane.Create(t, config, app)
	ready(t, app)
	m.Requests.Reset()

	changes, pauses, last := 0, 0, time.Now()
	next := time.NewTicker(every)
	defer next.Stop()
	harness.Eventually(t, func() error {
		for range 10 {
			changes++
			patch := fmt.Appendf(nil, `{"data":{"level":"%d"}}`, changes+1)
			if err := plane.Client.Patch(t.Context(), config, client.RawPatch("application/merge-patch+json", patch)); err != nil {
				return err
			}
			if time.Since(last) > quiet-time.Second {
				pauses++
			}
			last = time.Now()
			<-next.C
		}
		if replicaSets(t, ns) == 1 {
			return errors.New("no rollout has begun")
		}
		return nil
	})
	followed(t, app, config)
	m.Idle(t)
	rollouts := replicaSets(t, ns) - 1
	t.Logf("%d changes: %d rollouts, %v", changes, rollouts, m.Requests.Counts())
	if most := 2 + pauses; rollouts > most {
		t.Errorf("%d changes with %d pauses have made %d rollouts, want at most %d: one after a minute and one at the end", changes, pauses, rollouts, most)
	}
	if got := m.Requests.Counts()["get configmaps"]; got > rollouts {
		t.Errorf("%d reads for %d rollouts", got, rollouts)
	}
	d := read(t, deployment(app))
	in, err := resource.DecodeInputs(d.Annotations[appv1.AnnotationLastAppliedInputs])
	if err != nil || in.Config.Sum == "" || in.Config.Sum != d.Spec.Template.Annotations[appv1.AnnotationConfig] {
		t.Errorf("recorded: %+v, %v; the pods have %v", in.Config, err, d.Spec.Template.Annotations)
	}
}

// TestConfigRolloutCures breaks the pods by an image, and changes the content meanwhile: the rollout that is stuck takes it at once.
func TestConfigRolloutCures(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	app, config := newFollower(ns)
	plane.Create(t, config, app)
	ready(t, app)
	plane.Change(t, app, func() { app.Spec.Image = "crashloopbackoff.test/x:1" })
	plane.Stands(t, app, "Ready=False/"+appv1.ReasonCrashLoopBackOff)
	plane.Change(t, config, func() { config.Data["level"] = "2" })
	d := deployment(app)
	plane.Until(t, d, func() error {
		if d.Spec.Template.Annotations[appv1.AnnotationConfig] == "" {
			return fmt.Errorf("the pods of the stuck rollout do not get the new content")
		}
		return nil
	})
}
