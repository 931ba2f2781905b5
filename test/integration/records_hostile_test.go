package integration

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	appv1 "huolala.cn/app-operator/api/v1"
)

// hostile are values of the operator's annotations that would take seconds, and hundreds of megabytes, to decode.
var hostile = map[string][]string{
	appv1.AnnotationLastAppliedSpec: {
		`{"image":"a","resources":{"limits":{"cpu":"1e-100000000"}}}`,
		zipRecord([]byte(`{"image":"a","resources":{"limits":{"cpu":"` + strings.Repeat("9", 4_000_000) + `"}}}`)),
		zipRecord([]byte(`{"image":"a","podTemplatePatch":{"spec":{"overhead":{"cpu":"` + strings.Repeat("9", 60_000) + `"}}}}`)),
	},
	appv1.AnnotationLastAppliedInputs: {
		`{"rendering":2,"size":{"name":"small","requests":{"cpu":"1e-100000000"}}}`,
		`{"rendering":2,"size":{"name":"small","limits":{"cpu":1e-100000000}}}`,
		`{"rendering":2,"size":{"name":"small","limits":{"hugepages-1e-100000000":"1"}}}`,
	},
}

// hostileRecords returns Apps for hostile values, 12 of them for the one that each worker would be busy with.
func hostileRecords(namespace string) []*brokenRecord {
	var records []*brokenRecord
	add := func(key, value string) {
		app := newFullApp(namespace, fmt.Sprintf("app-%d", len(records)))
		records = append(records, &brokenRecord{app: app, key: key, value: value})
	}
	for range 12 {
		add(appv1.AnnotationLastAppliedInputs, hostile[appv1.AnnotationLastAppliedInputs][0])
	}
	for key, values := range hostile {
		for _, value := range values {
			add(key, value)
		}
	}
	return records
}

// TestHostileRecords annotates the Deployments of many Apps at once with what takes minutes to decode, while the manager runs and
// while none does. Other Apps are served meanwhile, and the annotations are repaired.
func TestHostileRecords(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	m := plane.Start(t, ns)
	records := hostileRecords(ns)
	forEachNumber(t, len(records), func(i int) {
		createInPlace(t, records[i].app)
		records[i].was = asUnstructured(t, plane, deployment(records[i].app))
	})
	m.Idle(t)
	forEachNumber(t, len(records), func(i int) { records[i].spoil(t) })
	createInPlace(t, newApp(ns, "meanwhile"))
	forEachNumber(t, len(records), func(i int) { records[i].repaired(t) })
	m.Idle(t)
	m.Stop(t)

	forEachNumber(t, len(records), func(i int) { records[i].spoil(t) })
	m = plane.Start(t, ns)
	createInPlace(t, newApp(ns, "after"))
	forEachNumber(t, len(records), func(i int) { records[i].repaired(t) })
	m.Idle(t)
}

// TestHostileTutorialRecords takes over what a tutorial's operator has left of Apps that are annotated with what takes minutes to
// decode. What cannot be read restarts nothing.
func TestHostileTutorialRecords(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	values := hostile[appv1.AnnotationLastAppliedSpec]
	apps := make([]*appv1.App, 12)
	templates := make([]corev1.PodTemplateSpec, len(apps))
	for i := range apps {
		apps[i] = newTutorialApp(ns, fmt.Sprintf("app-%d", i))
		d, _ := leaveByTutorial(t, apps[i])
		templates[i] = d.Spec.Template
		plane.Read(t, apps[i])
		plane.Change(t, apps[i], func() {
			apps[i].Annotations = map[string]string{appv1.AnnotationTutorialSpec: values[i%len(values)]}
		})
	}
	m := plane.Start(t, ns)
	createInPlace(t, newApp(ns, "meanwhile"))
	for i, app := range apps {
		plane.Stands(t, app, progressing...)
		sameTemplate(t, deployment(app), templates[i])
	}
	m.Idle(t)
}
