package integration

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// chartLabels are the labels that a chart gives all its objects, and selectors of others find them by.
func chartLabels() map[string]string {
	return map[string]string{
		appv1.LabelName: "prometheus", appv1.LabelInstance: "main", appv1.LabelComponent: "server",
		"app.kubernetes.io/part-of": "monitoring", "app.kubernetes.io/version": "2.54.1",
	}
}

// chartObjects returns an object of each type that an App of the name web can take over, with the labels of a chart. optional adds the
// types that a cluster may lack.
func chartObjects(ns string, optional bool) map[string]client.Object {
	d, s := newHandMade(ns, "web"), newHandMadeService(ns, "web")
	d.Spec.Selector = ownPods()
	d.Spec.Template.Labels = ownPods().MatchLabels
	s.Spec.Selector = ownPods().MatchLabels
	found := map[string]client.Object{"Deployment": d, "Service": s}
	for _, b := range blocks {
		obj := b.named(ns, "web")
		b.foreign(obj)
		if b.own != nil {
			b.own(obj)
		}
		_, kind, _ := strings.Cut(fmt.Sprintf("%T", obj), ".")
		found[kind] = obj
	}
	if optional {
		found["HTTPRoute"] = &gatewayv1.HTTPRoute{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"},
			Spec: gatewayv1.HTTPRouteSpec{Rules: []gatewayv1.HTTPRouteRule{{BackendRefs: []gatewayv1.HTTPBackendRef{{BackendRef: gatewayv1.BackendRef{
				BackendObjectReference: gatewayv1.BackendObjectReference{Name: "web", Port: ptr.To[gatewayv1.PortNumber](80)},
			}}}}}},
		}
		found["PodMonitor"] = &monitoringv1.PodMonitor{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"},
			Spec: monitoringv1.PodMonitorSpec{
				Selector: *ownPods(), PodMetricsEndpoints: []monitoringv1.PodMetricsEndpoint{{PortNumber: ptr.To[int32](80)}},
			},
		}
	}
	for _, obj := range found {
		all := obj.GetLabels()
		if all == nil {
			all = map[string]string{}
		}
		maps.Copy(all, chartLabels())
		obj.SetLabels(all)
	}
	return found
}

// keepsChart fails the test if an object has other labels than those of the chart and the operator's own.
func keepsChart(t *testing.T, p *harness.Plane, obj client.Object, after string) {
	t.Helper()
	p.Read(t, obj)
	want := chartLabels()
	want[appv1.LabelManagedBy] = appv1.ManagedBy
	got := maps.Clone(obj.GetLabels())
	delete(got, "team")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%T, after %s (-want +got):\n%s", obj, after, diff)
	}
	if !labels.SelectorFromSet(chartLabels()).Matches(labels.Set(obj.GetLabels())) {
		t.Errorf("%T, after %s: the selector of others no longer matches", obj, after)
	}
}

// TestAdoptionKeepsLabels takes over an object of each type with the labels of a chart: they stay, through a restart of the manager and a
// change of the spec, and the next manager writes nothing.
func TestAdoptionKeepsLabels(t *testing.T) {
	t.Parallel()
	p := complete.start(t)
	ns := p.Namespace(t)
	objects := chartObjects(ns, true)
	for _, obj := range objects {
		p.Create(t, obj)
	}
	m := p.Start(t, ns)
	app := newServed(ns, "web", blockNames...)
	for _, b := range optionalBlocks {
		b.set(&app.Spec.ServingSpec)
	}
	app.Annotations = map[string]string{appv1.AnnotationAdopt: "true"}
	p.Create(t, app)
	p.Stands(t, app, "Applied=True/Applied")
	for _, obj := range objects {
		keepsChart(t, p, obj, "the adoption")
		if !metav1.IsControlledBy(obj, app) {
			t.Errorf("%T is not adopted", obj)
		}
	}
	p.Read(t, app)
	p.Change(t, app, func() { app.Spec.Image, app.Annotations = "nginx:1.17", nil })
	p.Stands(t, app, "Applied=True/Applied")
	m.Idle(t)
	m.Stop(t)
	m = p.Start(t, ns)
	m.Idle(t)
	if got := m.Requests.Writes(); len(got) > 0 {
		t.Errorf("the next manager writes %v", got)
	}
	for _, obj := range objects {
		keepsChart(t, p, obj, "a change and a restart")
	}
	// What is no longer asked for is found all the same, and removed.
	p.Read(t, app)
	p.Change(t, app, func() {
		app.Spec.ServingSpec = appv1.ServingSpec{}
		app.Spec.Ports = nil
	})
	for name, obj := range objects {
		if name != "Deployment" && name != "ServiceAccount" { // No pod becomes ready here, and an account stays until then.
			p.Gone(t, obj)
		}
	}
}

// TestKeptLabelsLater edits, states and removes labels that an adoption has kept, and has the objects adopted again and recreated.
func TestKeptLabelsLater(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	objects := chartObjects(ns, false)
	d, s := objects["Deployment"], objects["Service"]
	plane.Create(t, d, s)
	app := newApp(ns, "web")
	app.Annotations = map[string]string{appv1.AnnotationAdopt: "true"}
	plane.Create(t, app)
	plane.Stands(t, app, progressing...)
	label := func(obj client.Object, key, want string) {
		t.Helper()
		plane.Until(t, obj, func() error {
			if got := obj.GetLabels()[key]; got != want {
				return fmt.Errorf("label %s is %q, not %q", key, got, want)
			}
			return nil
		})
	}
	edit := func(obj client.Object, change func(map[string]string)) {
		t.Helper()
		plane.Read(t, obj)
		plane.Change(t, obj, func() { change(obj.GetLabels()) }, intruder)
		m.Idle(t)
	}
	// An edit of a kept label stays; the operator's own label comes back.
	edit(s, func(all map[string]string) { all[appv1.LabelName], all[appv1.LabelManagedBy] = "edited", "edited" })
	label(s, appv1.LabelManagedBy, appv1.ManagedBy)
	label(s, appv1.LabelName, "edited")
	label(s, appv1.LabelInstance, "main")
	// A kept label that is removed stays away, and is not the operator's when it comes back.
	edit(s, func(all map[string]string) { delete(all, appv1.LabelName) })
	label(s, appv1.LabelName, "")
	edit(s, func(all map[string]string) { all[appv1.LabelName] = "edited" })
	label(s, appv1.LabelName, "edited")
	// What the spec states wins, and is the operator's from then on.
	plane.Read(t, app)
	plane.Change(t, app, func() { app.Spec.Labels = map[string]string{appv1.LabelComponent: "api"} })
	label(s, appv1.LabelComponent, "api")
	label(d, appv1.LabelComponent, "api")
	plane.Read(t, app)
	plane.Change(t, app, func() { app.Spec.Labels = nil })
	label(s, appv1.LabelComponent, "app")
	label(d, appv1.LabelName, "prometheus")
	label(d, appv1.LabelInstance, "main")
	// Left behind and adopted again.
	plane.Delete(t, app)
	plane.Gone(t, app)
	for _, obj := range []client.Object{d, s} { // There is no garbage collector here.
		plane.Read(t, obj)
		plane.Change(t, obj, func() { obj.SetOwnerReferences(nil) })
	}
	app = newApp(ns, "web")
	app.Annotations = map[string]string{appv1.AnnotationAdopt: "true"}
	plane.Create(t, app)
	plane.Stands(t, app, progressing...)
	label(d, appv1.LabelName, "prometheus")
	label(d, appv1.LabelInstance, "main")
	label(s, appv1.LabelInstance, "main")
	// One that is recreated has the operator's.
	plane.Read(t, s)
	plane.Delete(t, s)
	plane.Until(t, s, func() error {
		if s.GetAnnotations()[appv1.AnnotationKeptLabels] != "" || !maps.Equal(s.GetLabels(), childLabels("web")) {
			return fmt.Errorf("the Service has %v, %v", s.GetLabels(), s.GetAnnotations())
		}
		return nil
	})
	// A record that is stated together with a label keeps it, as for an object that an earlier release has adopted.
	plane.Read(t, s)
	plane.Change(t, s, func() {
		s.GetLabels()[appv1.LabelInstance] = "main"
		s.GetAnnotations()[appv1.AnnotationKeptLabels] = appv1.LabelInstance + "=web"
	}, intruder)
	m.Idle(t)
	label(s, appv1.LabelInstance, "main")
}

// labelsOf returns the labels by their keys that differ between two states, sorted.
func labelsOf(was, is map[string]string) []string {
	var keys []string
	for key, value := range is {
		if before, had := was[key]; !had || before != value {
			keys = append(keys, key)
		}
	}
	for key := range was {
		if _, has := is[key]; !has {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// TestPlannedLabels compares the labels that the plan of an adoption and the warning of it name with those that the adoption changes,
// where others have set all of them, some, or none.
func TestPlannedLabels(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(map[string]string){
		"all":  func(map[string]string) {},
		"Helm": func(all map[string]string) { all[appv1.LabelManagedBy] = "Helm" },
		"some": func(all map[string]string) { delete(all, appv1.LabelComponent) },
		"none": func(all map[string]string) { clear(all) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := plane.Namespace(t)
			startGuarded(t, ns)
			objects := chartObjects(ns, false)
			before := map[string]map[string]string{}
			for kind, obj := range objects {
				all := maps.Clone(obj.GetLabels())
				change(all)
				obj.SetLabels(all)
				plane.Create(t, obj)
				before[kind] = all
			}
			app := newServed(ns, "web", blockNames...)
			app.Spec.Labels = map[string]string{"shop": "a"}
			plane.Create(t, app)
			plane.Stands(t, app, "Stalled=True/ResourceExists")
			u := newUser(t)
			plane.Read(t, app)
			wanted := app.DeepCopy()
			wanted.Annotations = map[string]string{appv1.AnnotationAdopt: "true"}
			var warnings []string
			harness.Eventually(t, func() error { // On a busy machine, the API server may not wait for the webhook.
				if err := u.Update(t.Context(), wanted.DeepCopy(), client.DryRunAll); err != nil {
					return err
				}
				if warnings = u.warnings(); !slices.ContainsFunc(warnings, func(line string) bool { return strings.Contains(line, "will be adopted") }) {
					return fmt.Errorf("no warning about the adoption in %q", warnings)
				}
				return nil
			})
			made := askPlan(t, plane.Client, wanted)
			setAnnotation(t, app, appv1.AnnotationAdopt, "true")
			plane.Stands(t, app, "Applied=True/Applied")
			said := map[string][]string{}
			for _, object := range made.Objects {
				for _, field := range object.Fields {
					if key, ok := strings.CutPrefix(field.Path, "metadata.labels["); ok {
						said[object.Kind] = append(said[object.Kind], strings.TrimSuffix(key, "]"))
					}
				}
			}
			for kind, obj := range objects {
				plane.Read(t, obj)
				changed := labelsOf(before[kind], obj.GetLabels())
				if diff := cmp.Diff(changed, said[kind]); diff != "" {
					t.Errorf("%s: the plan says otherwise than what came (-came +planned):\n%s", kind, diff)
				}
				if kind == "Deployment" || kind == "Service" {
					if diff := cmp.Diff(changed, warnedLabels(t, warnings, kind)); diff != "" {
						t.Errorf("%s: the warning says otherwise than what came (-came +warned):\n%s in %q", kind, diff, warnings)
					}
				}
			}
		})
	}
}

// warnedLabels returns the labels that the warning of an adoption names, sorted.
func warnedLabels(t *testing.T, warnings []string, kind string) []string {
	t.Helper()
	i := slices.IndexFunc(warnings, func(line string) bool { return strings.HasPrefix(line, kind+" web exists and will be adopted") })
	if i < 0 {
		t.Fatalf("no warning about the %s in %q", kind, warnings)
	}
	if strings.Contains(warnings[i], "nothing else changes") {
		t.Errorf("a warning says that nothing else changes: %s", warnings[i])
	}
	_, rest, found := strings.Cut(warnings[i], "sets labels ")
	if !found {
		return nil
	}
	rest, _, _ = strings.Cut(rest, "; ")
	var keys []string
	if common, others, braces := strings.Cut(strings.TrimPrefix(rest, "app.kubernetes.io/{"), "}"); braces {
		for _, short := range strings.Split(common, ",") {
			keys = append(keys, "app.kubernetes.io/"+short)
		}
		rest = strings.TrimPrefix(others, ", ")
	}
	if rest != "" {
		keys = append(keys, strings.Split(rest, ", ")...)
	}
	slices.Sort(keys)
	return keys
}
