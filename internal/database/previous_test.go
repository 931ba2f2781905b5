package database

import (
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// TestPreviousSecret checks when the Secret of a renamed database is deleted with it: only if its volumes are, and never on an old
// view of these.
func TestPreviousSecret(t *testing.T) {
	for name, c := range map[string]struct {
		retain  bool
		objects func(*resource.Workload) []client.Object
		want    bool
		stale   bool
		named   string
	}{
		"the volumes go with it": {objects: func(*resource.Workload) []client.Object { return []client.Object{secretOf("dbauth", nil)} }, want: true},
		"the spec names it":      {objects: func(*resource.Workload) []client.Object { return []client.Object{secretOf("dbauth", nil)} }, named: "dbauth"},
		"the spec names another": {
			objects: func(*resource.Workload) []client.Object { return []client.Object{secretOf("dbauth", nil)} }, named: "other", want: true,
		},
		"there is no Secret": {objects: func(*resource.Workload) []client.Object { return nil }},
		"the volumes stay":   {retain: true, objects: func(*resource.Workload) []client.Object { return []client.Object{secretOf("dbauth", nil)} }},
		"a volume still goes with it": {retain: true, objects: func(w *resource.Workload) []client.Object {
			return []client.Object{inCluster(goneWith(claimOf(w, 0, "1Gi"), "set-uid"))}
		}, stale: true},
		"a volume goes with another": {retain: true, objects: func(w *resource.Workload) []client.Object {
			return []client.Object{inCluster(goneWith(claimOf(w, 0, "1Gi"), ""))}
		}},
		"a volume of another database goes it": {retain: true, objects: func(w *resource.Workload) []client.Object {
			c := goneWith(claimOf(w, 0, "1Gi"), "set-uid")
			c.Name = "datadir-data-0"
			return []client.Object{inCluster(c)}
		}},
	} {
		cm, w := databaseOf(t, "1Gi", func(s *appv1.Storage) { s.Retain = &c.retain })
		db := withObjects(t, cm, liveDatabase(cm, w), c.objects(w)...)
		if c.named != "" {
			cm.Spec.DB.RootPassSecretRef = &appv1.SecretKeyRef{Name: c.named}
		}
		secret, err := PreviousSecret(t.Context(), db.r, cm, db.seen.StatefulSet())
		if (secret != nil) != c.want || errors.Is(err, reconciler.ErrStale) != c.stale || err != nil && !c.stale {
			t.Errorf("%s: %v, %v", name, secret, err)
		}
	}
}

// inCluster returns a claim as it is in the namespace.
func inCluster(claim corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	claim.Namespace = "default"
	return &claim
}

// TestRetain checks what is waited for before a renamed database is deleted whose volumes are to stay.
func TestRetain(t *testing.T) {
	for name, c := range map[string]struct {
		generation int64
		claims     []client.Object
		says       string
	}{
		"nothing is left to do":             {},
		"its controller has not seen it":    {generation: 2, says: "retain the volumes of StatefulSet db"},
		"a claim is not released":           {claims: []client.Object{nil}, says: "PersistentVolumeClaim datadir-db-0"},
		"not seen, and a claim not release": {generation: 2, claims: []client.Object{nil}, says: "retain the volumes of StatefulSet db"},
	} {
		cm, w := databaseOf(t, "1Gi")
		objects := slices.Clone(c.claims)
		for i := range objects {
			objects[i] = inCluster(goneWith(claimOf(w, i, "1Gi"), "set-uid"))
		}
		db := withObjects(t, cm, liveDatabase(cm, w), objects...)
		db.seen.StatefulSet().Generation = c.generation
		err := Retain(t.Context(), db.r, nil, db.seen.StatefulSet()) // It has the policy already: nothing is written.
		if (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}
