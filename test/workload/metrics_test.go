package workload

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"huolala.cn/app-operator/internal/metrics"
	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
)

// TestMetrics follows the series of Apps that come up, wait, stall, are paused and are deleted: each is there for as long as what it
// tells of, and a manager that has just started tells of the same.
func TestMetrics(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	m := plane.Start(t, ns)
	web, waiting, taken := fixture.NewApp(ns, "web"), fixture.NewApp(ns, "waiting"), fixture.NewApp(ns, "taken")
	waiting.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: apiresource.MustParse("100000")}
	plane.Create(t, fixture.NewDeployment(ns, "taken"), web, waiting, taken)
	trouble := []string{
		metrics.ResourceNotReady.Name + " taken ResourceExists", metrics.ResourceNotReady.Name + " waiting Unschedulable",
		metrics.ResourceStalled.Name + " taken ResourceExists",
		metrics.Resources.Name + " ResourceExists", metrics.Resources.Name + " Unschedulable",
	}
	ready, paused := metrics.Resources.Name+" Ready", metrics.Resources.Name+" Paused"
	seriesAre(t, ns, append(trouble, ready)...)

	plane.Change(t, web, func() { web.Spec.Paused = true })
	seriesAre(t, ns, append(trouble, paused, metrics.ResourcePaused.Name+" web")...)
	m.Stop(t)
	seriesAre(t, ns)
	plane.Start(t, ns)
	seriesAre(t, ns, append(trouble, paused, metrics.ResourcePaused.Name+" web")...)

	plane.Change(t, web, func() { web.Spec.Paused = false })
	plane.Delete(t, taken)
	plane.Delete(t, waiting)
	seriesAre(t, ns, ready)
	plane.Delete(t, web)
	seriesAre(t, ns)
}

// seriesAre waits until these are the series of resources of a namespace, each as its metric, name and reason.
func seriesAre(t *testing.T, namespace string, want ...string) {
	t.Helper()
	want = slices.Sorted(slices.Values(want))
	harness.Eventually(t, func() error {
		families, err := ctrlmetrics.Registry.Gather()
		if err != nil {
			return err
		}
		var got []string
		for _, family := range families {
			for _, series := range family.GetMetric() {
				labels := map[string]string{}
				for _, pair := range series.GetLabel() {
					labels[pair.GetName()] = pair.GetValue()
				}
				if labels["namespace"] != namespace {
					continue
				}
				words := family.GetName()
				for _, label := range []string{"name", "reason"} {
					if labels[label] != "" {
						words += " " + labels[label]
					}
				}
				got = append(got, words)
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("series (-want +got):\n%s", diff)
		}
		return nil
	})
}
