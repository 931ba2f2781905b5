package database

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/internal/workload"
	"huolala.cn/app-operator/resource"
)

// childrenOf describes the children of a request, in their order: kind and name, P for a prerequisite, I for one that is independent
// of those, R for one that replaces what lives, and K for one that is kept when the owner goes.
func childrenOf(req *apply.Request) []string {
	if req == nil {
		return nil
	}
	var names []string
	for _, c := range req.Objects {
		flags := ""
		for flag, set := range map[string]bool{"P": c.Prerequisite, "I": c.Independent, "R": c.Replace, "K": c.Retained} {
			if set {
				flags += flag
			}
		}
		sorted := []byte(flags)
		slices.Sort(sorted)
		kind := strings.TrimPrefix(fmt.Sprintf("%T", c.Desired), "*v1.")
		names = append(names, strings.TrimSpace(fmt.Sprintf("%s %s %s", kind, c.Desired.GetName(), sorted)))
	}
	return names
}

// TestDatabaseRequest checks which objects of a database are applied in which order, and which of them can go without the others.
func TestDatabaseRequest(t *testing.T) {
	good := secretOf("dbauth", map[string]string{resource.SecretUsername: "root", resource.SecretPassword: "a"})
	good.Annotations = map[string]string{appv1.AnnotationRetainedFor: "CloudManager.cm"}
	_, built := databaseOf(t, "1Gi")
	claim := claimOf(built, 0, "1Gi")
	claim.Namespace = "default"
	type databaseCase struct {
		objects []client.Object
		none    bool // Nothing lives.
		check   bool // The Secret is to be read.
		claims  []corev1.PersistentVolumeClaim
		how     workload.How
		grows   bool
		change  func(*testDatabase)
		want    []string
		reason  string
	}
	for name, c := range map[string]databaseCase{
		"new": {
			none: true, check: true,
			want: []string{"Secret dbauth KP", "StatefulSet db", "Service db-headless", "Service db"},
		},
		"new, with the Secret of an earlier one": {
			none: true, check: true, objects: []client.Object{good},
			want: []string{"Secret dbauth K", "StatefulSet db", "Service db-headless", "Service db"},
		},
		"new, with the volumes of an earlier one and no Secret": {
			none: true, check: true, objects: []client.Object{&claim}, reason: appv1.ReasonPasswordLost,
		},
		"another password is stated, next to the StatefulSet of an earlier one": {
			check: true, objects: []client.Object{good, &claim}, reason: appv1.ReasonPasswordMismatch,
			change: func(db *testDatabase) {
				db.seen.StatefulSet().OwnerReferences[0].UID, db.seen.Service, db.seen.headless = "earlier", nil, nil
				db.cm.Spec.DB.RootPass = "b"
			},
		},
		"another password is stated, next to a StatefulSet without a controller": {
			check: true, objects: []client.Object{good, &claim}, reason: appv1.ReasonPasswordMismatch,
			change: func(db *testDatabase) {
				db.seen.StatefulSet().OwnerReferences, db.seen.Service, db.seen.headless = nil, nil, nil
				db.cm.Spec.DB.RootPass = "b"
			},
			want: []string{"StatefulSet db", "Service db-headless", "Service db"},
		},
		"another password is stated, and the workload object alone is applied": {
			check: true, objects: []client.Object{good, &claim}, reason: appv1.ReasonPasswordMismatch, how: workload.How{Alone: true, Earlier: true},
			change: func(db *testDatabase) { db.cm.Spec.DB.RootPass = "b" },
			want:   []string{"StatefulSet db"},
		},
		"as it is": {
			want: []string{"StatefulSet db", "Service db-headless I", "Service db I"},
		},
		"the Secret is checked": {
			check: true, objects: []client.Object{good},
			want: []string{"Secret dbauth K", "StatefulSet db", "Service db-headless I", "Service db I"},
		},
		"the password is lost": {
			check: true, objects: []client.Object{&claim}, reason: appv1.ReasonPasswordLost,
			want: []string{"StatefulSet db", "Service db-headless I", "Service db I"},
		},
		"the password is lost, and the StatefulSet": {
			check: true, objects: []client.Object{&claim}, reason: appv1.ReasonPasswordLost, change: func(db *testDatabase) { db.seen.Object = nil },
			want: []string{"Service db-headless I", "Service db I"},
		},
		"another password is stated, and the StatefulSet is gone": {
			check: true, objects: []client.Object{good, &claim}, reason: appv1.ReasonPasswordMismatch,
			change: func(db *testDatabase) { db.seen.Object, db.cm.Spec.DB.RootPass = nil, "b" },
			want:   []string{"Secret dbauth K", "StatefulSet db", "Service db-headless I", "Service db I"},
		},
		"another password is stated": {
			check: true, objects: []client.Object{good, &claim}, reason: appv1.ReasonPasswordMismatch, change: func(db *testDatabase) { db.cm.Spec.DB.RootPass = "b" },
			want: []string{"Secret dbauth K", "StatefulSet db", "Service db-headless I", "Service db I"},
		},
		"the named Secret is missing": {
			check: true, objects: []client.Object{good}, reason: appv1.ReasonSecretNotFound,
			change: func(db *testDatabase) { db.cm.Spec.DB.RootPassSecretRef = &appv1.SecretKeyRef{Name: "mine"} },
			want:   []string{"Secret dbauth K", "StatefulSet db", "Service db-headless I", "Service db I"},
		},
		"the volumes grow": {
			grows: true, objects: []client.Object{good}, claims: []corev1.PersistentVolumeClaim{claimOf(built, 0, "500Mi")},
			want: []string{"Secret dbauth K", "PersistentVolumeClaim datadir-db-0 KP", "StatefulSet db R", "Service db-headless I", "Service db I"},
		},
		"the volumes grow later, and the password was lost meanwhile": {
			grows: true, objects: []client.Object{&claim}, claims: []corev1.PersistentVolumeClaim{claim}, reason: appv1.ReasonPasswordLost,
			want: []string{"StatefulSet db", "Service db-headless I", "Service db I"},
		},
		"the volumes grow, and the password is lost": {
			check: true, grows: true, objects: []client.Object{&claim}, claims: []corev1.PersistentVolumeClaim{claim}, reason: appv1.ReasonPasswordLost,
			want: []string{"StatefulSet db", "Service db-headless I", "Service db I"},
		},
		"the volumes grow, and another password is stated": {
			check: true, grows: true, objects: []client.Object{good, &claim}, claims: []corev1.PersistentVolumeClaim{claimOf(built, 0, "500Mi")},
			reason: appv1.ReasonPasswordMismatch, change: func(db *testDatabase) { db.cm.Spec.DB.RootPass = "b" },
			want: []string{"Secret dbauth K", "PersistentVolumeClaim datadir-db-0 KP", "StatefulSet db R", "Service db-headless I", "Service db I"},
		},
		"claims without guards": {
			objects: []client.Object{good}, claims: []corev1.PersistentVolumeClaim{unguarded(claimOf(built, 0, "1Gi"))},
			want: []string{"Secret dbauth K", "PersistentVolumeClaim datadir-db-0 K", "StatefulSet db", "Service db-headless I", "Service db I"},
		},
		"the workload object alone": {
			how: workload.How{Alone: true}, want: []string{"StatefulSet db"},
		},
		"paused, before the database exists": {
			none: true, check: true, change: func(db *testDatabase) { db.in.Paused = true },
			want: []string{"StatefulSet db", "Service db-headless", "Service db"},
		},
		"the StatefulSet is of others": {
			change: func(db *testDatabase) {
				set := db.seen.StatefulSet()
				set.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Other", Name: "other", UID: "o", Controller: ptr.To(true)}}
				db.seen = viewOf(db.seen.WithOwnership(db.r.Client.Scheme(), db.in, set))
			},
			want: []string{"StatefulSet db"},
		},
		"of an earlier name": {
			check: true, claims: []corev1.PersistentVolumeClaim{unguarded(claimOf(built, 0, "1Gi"))}, change: func(db *testDatabase) { db.previous = true },
			want: []string{"StatefulSet db", "Service db-headless I", "Service db I"},
		},
	} {
		cm, w := databaseOf(t, "1Gi")
		state := liveDatabase(cm, w)
		if c.none {
			state = emptyDatabase(cm)
		}
		state.claims = c.claims
		db := withObjects(t, cm, state, c.objects...)
		db.checkSecret = c.check
		if c.change != nil {
			c.change(db)
		}
		req, err := db.buildRequest(t.Context(), db.seen, w, c.how, c.grows)
		if got := childrenOf(req); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if req != nil && slices.ContainsFunc(req.Objects, isServiceOfNoPods) {
			t.Errorf("%s: a Service is not written with the StatefulSet whose pods it selects", name)
		}
		reason := ""
		if err != nil {
			reason, _ = reconciler.ReasonAndMessageOf(err)
		}
		if reason != c.reason {
			t.Errorf("%s: %v, want %q", name, err, c.reason)
		}
	}
}

// isServiceOfNoPods reports whether an object is a Service that does not name the database's StatefulSet.
func isServiceOfNoPods(o apply.Object) bool {
	_, ok := o.Desired.(*corev1.Service)
	set, names := o.AboutPodsOf.(*appsv1.StatefulSet)
	return ok && (!names || set.Name != "db")
}

// TestGrowthWaitsForTheSecret checks that volumes do not grow while a StatefulSet could not be recreated for want of the password: the StatefulSet
// follows the rest of the spec with the volumes that it has, and no claim grows.
func TestGrowthWaitsForTheSecret(t *testing.T) {
	for name, c := range map[string]struct {
		ref    *appv1.SecretKeyRef
		get    error // Of the API server, for each Secret.
		reason string
	}{
		"the password is lost":          {reason: appv1.ReasonPasswordLost},
		"the named Secret is missing":   {ref: &appv1.SecretKeyRef{Name: "mine"}, reason: appv1.ReasonSecretNotFound},
		"the Secret may not be read":    {get: apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "dbauth", errors.New("no role")), reason: appv1.ReasonForbidden},
		"the Secret cannot be read now": {get: errors.New("no answer"), reason: appv1.ReasonApplyFailed},
	} {
		cm, was := databaseOf(t, "1Gi")
		seen := liveDatabase(cm, was)
		claim := claimOf(was, 0, "1Gi")
		claim.Namespace = "default"
		seen.claims = []corev1.PersistentVolumeClaim{claim}
		cm.Spec.DB.RootPassSecretRef = c.ref
		db := withObjects(t, cm, seen, &claim)
		db.checkSecret = true
		if c.get != nil {
			db.r.Live = refusingSecrets(t, db.r.Client, c.get)
		}
		_, grown := databaseOf(t, "2Gi")
		grown.Template.Spec.Containers[0].Image = "mariadb:11"
		w, grows, err := fitVolumes(seen, grown, workload.How{})
		if err != nil || !grows {
			t.Fatalf("%s: grows %t, %v", name, grows, err)
		}
		req, err := db.buildRequest(t.Context(), seen, w, workload.How{Whole: true}, grows)
		if reason, _ := reconciler.ReasonAndMessageOf(err); reason != c.reason {
			t.Errorf("%s: %v, want %s", name, err, c.reason)
		}
		if got, want := childrenOf(req), []string{"StatefulSet db", "Service db-headless I", "Service db I"}; !slices.Equal(got, want) {
			t.Fatalf("%s: %q, want %q", name, got, want)
		}
		set, ok := req.Objects[0].Desired.(*appsv1.StatefulSet)
		if !ok || !equality.Semantic.DeepEqual(set.Spec.VolumeClaimTemplates, seen.StatefulSet().Spec.VolumeClaimTemplates) || set.Spec.Template.Spec.Containers[0].Image != "mariadb:11" {
			t.Errorf("%s: the StatefulSet is %+v", name, req.Objects[0].Desired)
		}
	}
}

// refusingSecrets returns a client that answers each read of a Secret with an error.
func refusingSecrets(t *testing.T, cl client.Client, err error) client.Client {
	t.Helper()
	withWatch, ok := cl.(client.WithWatch)
	if !ok {
		t.Fatalf("%T cannot be intercepted", cl)
	}
	return interceptor.NewClient(withWatch, interceptor.Funcs{
		Get: func(ctx context.Context, cl client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if _, secret := obj.(*corev1.Secret); secret {
				return err
			}
			return cl.Get(ctx, key, obj, opts...)
		},
	})
}

// TestDatabaseRequestIsWhole checks that a request which must not be carried out in part says so, and is the owner's.
func TestDatabaseRequestIsWhole(t *testing.T) {
	cm, w := databaseOf(t, "1Gi")
	cm.Annotations = map[string]string{appv1.AnnotationAdopt: "true"}
	for _, whole := range []bool{false, true} {
		db := withObjects(t, cm, liveDatabase(cm, w))
		req, err := db.buildRequest(t.Context(), db.seen, w, workload.How{Whole: whole}, false)
		if err != nil || req.Policy.AllOrNothing != whole || !req.Policy.Adopt || req.Owner != client.Object(cm) || req.Manager != resource.KindCloudManager.FieldManager() {
			t.Errorf("whole %t: %+v, %v", whole, req, err)
		}
	}
}

// TestListClaims checks that the claims of a StatefulSet's pods are told by their names, and come in the order of the pods.
func TestListClaims(t *testing.T) {
	cm, w := databaseOf(t, "1Gi")
	var objects []client.Object
	for _, name := range []string{
		"datadir-db-10", "datadir-db-2", "datadir-db-0", "datadir-db", "datadir-db-x", "datadir-db-01", "datadir-other-0", "data-db-0",
	} {
		objects = append(objects, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}})
	}
	objects = append(objects, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "datadir-db-1"}})
	db := withObjects(t, cm, liveDatabase(cm, w), objects...)
	claims, err := db.liveClaims(t.Context())
	var names []string
	for i := range claims {
		names = append(names, claims[i].Name)
	}
	if want := []string{"datadir-db-0", "datadir-db-2", "datadir-db-10"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("the claims are %v, %v; want %v", names, err, want)
	}
	db.r.Live = nil // They are listed once in a reconcile.
	if again, err := db.liveClaims(t.Context()); err != nil || len(again) != len(claims) {
		t.Errorf("listed again: %v, %v", again, err)
	}
}

// TestLostPods checks the number of pods that a recreated StatefulSet has: as many as the one that was deleted without them.
func TestLostPods(t *testing.T) {
	_, built := databaseOf(t, "1Gi")
	pod := func(name string, change ...func(*corev1.Pod)) client.Object {
		made := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, Labels: map[string]string{appv1.LabelCloudManager: "cm", appv1.LabelPart: "db"},
		}}
		for _, apply := range change {
			apply(made)
		}
		return made
	}
	ending := func(p *corev1.Pod) {
		p.DeletionTimestamp, p.Finalizers = ptr.To(metav1.Now()), []string{"a.example.com/b"}
	}
	elsewhere := func(p *corev1.Pod) { p.Labels[appv1.LabelPart] = "other" }
	controlled := func(kind, name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: name, Controller: ptr.To(true)}}
		}
	}
	for name, c := range map[string]struct {
		pods       []client.Object
		claims     int
		remembered *int32
		want       *int32
	}{
		"none":                     {nil, 3, nil, nil},
		"one":                      {[]client.Object{pod("db-0")}, 1, nil, ptr.To[int32](1)},
		"three":                    {[]client.Object{pod("db-0"), pod("db-1"), pod("db-2", controlled("StatefulSet", "db"))}, 3, nil, ptr.To[int32](3)},
		"one is missing":           {[]client.Object{pod("db-0"), pod("db-2")}, 3, nil, ptr.To[int32](3)},
		"the last one is ending":   {[]client.Object{pod("db-0"), pod("db-1", ending)}, 2, nil, ptr.To[int32](2)},
		"more claims than pods":    {[]client.Object{pod("db-0")}, 3, nil, ptr.To[int32](1)},
		"a pod without a claim":    {[]client.Object{pod("db-0"), pod("db-1999999999")}, 2, nil, ptr.To[int32](1)},
		"a pod of another":         {[]client.Object{pod("db-0"), pod("db-1", controlled("ReplicaSet", "db"))}, 2, nil, ptr.To[int32](1)},
		"others with such a name":  {[]client.Object{pod("db-0"), pod("db-1", elsewhere), pod("db-debug"), pod("db--1")}, 2, nil, ptr.To[int32](1)},
		"remembered":               {[]client.Object{pod("db-0")}, 1, ptr.To[int32](4), ptr.To[int32](4)},
		"scaled to nothing before": {nil, 3, ptr.To[int32](0), ptr.To[int32](0)},
	} {
		cm, w := databaseOf(t, "1Gi")
		cm.Name = "cm"
		db := withObjects(t, cm, liveDatabase(cm, w), c.pods...)
		data := &volumes{cm: cm, name: "db"}
		for ordinal := range c.claims {
			data.claims = append(data.claims, claimOf(built, ordinal, "1Gi"))
		}
		db.in.Existed = true
		seen := &workload.Observed{}
		seen.Remembered.Replaced = c.remembered
		got, err := lostPods(t.Context(), db.r, db.in, seen, data)
		if err != nil || !ptr.Equal(got, c.want) {
			t.Errorf("%s: %d pods, want %d: %v", name, ptr.Deref(got, -1), ptr.Deref(c.want, -1), err)
		}
	}
}

// TestPodsOfADeletedCloudManager checks that the pods of a CloudManager that was deleted do not count for the next one of its name, unless they
// were left without a StatefulSet.
func TestPodsOfADeletedCloudManager(t *testing.T) {
	for name, c := range map[string]struct {
		controlled bool
		status     appv1.WorkloadStatus
		want       *int32
	}{
		"pods that end":                  {controlled: true},
		"pods without a StatefulSet":     {want: ptr.To[int32](1)},
		"its own pods by the selector":   {controlled: true, status: appv1.WorkloadStatus{Selector: "a=b"}, want: ptr.To[int32](1)},
		"its own pods by the rendering":  {controlled: true, status: appv1.WorkloadStatus{Rendering: 2}, want: ptr.To[int32](1)},
		"its own without a StatefulSet ": {status: appv1.WorkloadStatus{Rendering: 2}, want: ptr.To[int32](1)},
	} {
		cm, w := databaseOf(t, "1Gi")
		cm.Name = "cm"
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: cm.Namespace, Name: "db-0", Labels: w.Selector}}
		if c.controlled {
			pod.OwnerReferences = []metav1.OwnerReference{{Kind: "StatefulSet", Name: "db", Controller: ptr.To(true)}}
		}
		db := withObjects(t, cm, liveDatabase(cm, w), pod)
		db.in.Before.Workload = c.status
		data := &volumes{cm: cm, name: "db", claims: []corev1.PersistentVolumeClaim{claimOf(w, 0, "1Gi")}}
		got, err := lostPods(t.Context(), db.r, db.in, &workload.Observed{}, data)
		if err != nil || !ptr.Equal(got, c.want) {
			t.Errorf("%s: %d pods, want %d: %v", name, ptr.Deref(got, -1), ptr.Deref(c.want, -1), err)
		}
	}
}

// TestWantedClaims checks that the API server is asked for claims only where more of them may be used than before.
func TestWantedClaims(t *testing.T) {
	_, built := databaseOf(t, "1Gi")
	foreign := claimOf(built, 1, "1Gi")
	foreign.Namespace, foreign.Annotations = "default", nil
	for name, c := range map[string]struct {
		replicas *int32
		none     bool
		want     int
	}{
		"as many pods":     {want: 0},
		"more pods":        {replicas: ptr.To[int32](2), want: 1},
		"fewer pods":       {replicas: ptr.To[int32](0), want: 0},
		"a first one":      {none: true, want: 0},
		"a first with two": {none: true, replicas: ptr.To[int32](2), want: 1},
	} {
		cm, w := databaseOf(t, "1Gi")
		w.Replicas = c.replicas
		state := liveDatabase(cm, w)
		state.StatefulSet().Spec.Replicas = nil
		if c.none {
			state.Object = nil
		}
		db := withObjects(t, cm, state, foreign.DeepCopy())
		wanted, unguarded, err := db.wantedClaims(t.Context(), db.seen, w)
		if err != nil || len(wanted) != c.want || len(unguarded) > 0 {
			t.Errorf("%s: %d claims, %d without guards, %v", name, len(wanted), len(unguarded), err)
		}
		asked := db.claims != nil
		if want := c.none || ptr.Deref(c.replicas, 1) > 1; asked != want {
			t.Errorf("%s: the API server is asked: %t, want %t", name, asked, want)
		}
	}
}

// TestLookAgain checks that the database never waits for ever for what is not watched.
func TestLookAgain(t *testing.T) {
	failed := errors.New("failed")
	for name, c := range map[string]struct {
		err  error
		want time.Duration
	}{
		"nothing":                        {nil, 0},
		"a Secret that is being deleted": {reconciler.Waiting(appv1.ReasonProgressing, "Secret a is being deleted"), workload.Unwatched},
		"waiting with a time":            {&reconciler.WaitingError{RetryAfter: time.Second}, time.Second},
		"another owner's Secret":         {reconciler.Stalled(appv1.ReasonResourceExists, "Secret a"), workload.Unwatched},
		"another owner's, with a time":   {&reconciler.StalledError{Reason: appv1.ReasonResourceExists, RetryAfter: time.Second}, time.Second},
		"what the spec says":             {reconciler.Stalled(appv1.ReasonInvalid, "a"), 0},
		"a failure, which is retried":    {failed, 0},
	} {
		var stalled *reconciler.StalledError
		var waiting *reconciler.WaitingError
		got := time.Duration(0)
		switch err := LookAgain(c.err); {
		case errors.As(err, &stalled):
			got = stalled.RetryAfter
		case errors.As(err, &waiting):
			got = waiting.RetryAfter
		case !errors.Is(err, c.err):
			t.Errorf("%s: %v became %v", name, c.err, err)
		}
		if got != c.want {
			t.Errorf("%s: it is looked at again after %s, want %s", name, got, c.want)
		}
	}
}
