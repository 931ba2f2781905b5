package bench

import (
	"crypto/sha512"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
)

const (
	// defaulted is the number of Apps with AppDefaults.
	defaulted = 1000
	// defaultedKeys is the number of annotations in the AppDefaults, with texts that do not get shorter by compression: about 2 KiB of a record.
	defaultedKeys = 32
	// idleDefaults is the figure of a manager whose Apps have other defaults than the present ones.
	idleDefaults = "requests in 60 idle seconds, outdated defaults"
)

// BenchmarkDefaults makes Apps with AppDefaults, and as many without on a control plane of their own: what an edit of the AppDefaults writes, what
// the records cost in memory, what an idle minute asks for, and what a restart does while all Apps have earlier defaults.
func BenchmarkDefaults(b *testing.B) {
	without, with := defaultsOf(b, false), defaultsOf(b, true)
	found.add("memory, Apps with defaults ÷ without", defaulted, manager, "×", with/without)
	progress("%d Apps: %.0f MiB with defaults, %.0f MiB without", defaulted, with, without)
}

// defaultsOf makes Apps with AppDefaults or without any on a control plane of their own, and returns the memory of the manager, in MiB.
func defaultsOf(b *testing.B, with bool) (memory float64) {
	b.Helper()
	w := headless(b)
	defer w.end(b)
	defaults := &appv1.AppDefaults{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: appv1.AppDefaultsName}}
	if with {
		defaults.Spec.Defaults.PodAnnotations = annotations(0)
		if err := w.client.Create(b.Context(), defaults); err != nil {
			b.Fatal(err)
		}
	}
	o := w.start(b, "")
	o.settle(b)
	each(b, defaulted, w.submit)
	o.settle(b)
	memory = o.figures(b).resident
	if with {
		w.editDefaults(b, o, defaults)
	}
	o.stop(b)
	if with {
		w.restartOverDefaults(b)
	}
	return memory
}

// editDefaults changes the AppDefaults, and counts what the manager writes until each App says that it has earlier ones.
func (w *world) editDefaults(b *testing.B, o *operator, defaults *appv1.AppDefaults) {
	b.Helper()
	asked := w.requests(b)
	began := time.Now()
	edited := defaults.DeepCopy()
	edited.Spec.Defaults.PodAnnotations = annotations(1)
	if err := w.client.Patch(b.Context(), edited, client.MergeFrom(defaults)); err != nil {
		b.Fatal(err)
	}
	w.awaitApps(b, func(s *appv1.AppStatus) bool { return s.Defaults != nil && !s.Defaults.Current })
	took := time.Since(began).Seconds()
	o.settle(b)
	cost := w.requests(b).since(asked)
	delete(cost, "patch appdefaults")
	delete(cost, "list apps")
	found.add("an edit of AppDefaults, until all Apps say so", defaulted, manager, "s", took)
	found.count("an edit of AppDefaults", defaulted, cost)
	asked = w.requests(b)
	pass(b, time.Minute)
	idle := w.requests(b).since(asked)
	found.add(idleDefaults, defaulted, manager, "", float64(idle.total()))
	progress("an edit of AppDefaults over %d Apps: %.1f s, %d requests in an idle minute; %s", defaulted, took, idle.total(), cost)
}

// restartOverDefaults starts a manager while all Apps have earlier defaults.
func (w *world) restartOverDefaults(b *testing.B) {
	b.Helper()
	asked := w.requests(b)
	o := w.start(b, "")
	took := o.through(b, defaulted)
	cost := w.requests(b).since(asked)
	found.add("restart over outdated defaults", defaulted, manager, "s", took)
	found.add("restart over outdated defaults, writes", defaulted, manager, "", float64(cost.writes()))
	o.stop(b)
}

// annotations returns annotations of pods that differ by an edition.
func annotations(edition int) map[string]string {
	made := map[string]string{}
	for i := range defaultedKeys {
		made[fmt.Sprintf("example.com/key-%d", i)] = fmt.Sprintf("%x", sha512.Sum512([]byte{byte(edition), byte(i)}))[:80]
	}
	return made
}
