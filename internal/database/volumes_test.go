package database

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/internal/workload"
	"huolala.cn/app-operator/resource"
)

// databaseOf returns a CloudManager with a database of a size, and the workload that it means.
func databaseOf(t *testing.T, size string, change ...func(*appv1.Storage)) (*appv1.CloudManager, *resource.Workload) {
	t.Helper()
	cm := &appv1.CloudManager{ObjectMeta: metav1.ObjectMeta{Name: "cm", Namespace: "default", UID: "cm-uid", Generation: 3}}
	cm.SetGroupVersionKind(appv1.GroupVersion.WithKind(resource.KindCloudManager.Name))
	cm.Spec.DB.StatefulSet.Name, cm.Spec.DB.StatefulSet.Image = "db", "mariadb:10.3"
	cm.Spec.DB.StatefulSet.Storage.Size = apiresource.MustParse(size)
	cm.DefaultNames()
	for _, c := range change {
		c(&cm.Spec.DB.StatefulSet.Storage)
	}
	w, errs := resource.CloudManagerDatabase(cm, resource.BuildOptions{Inputs: resource.BuildInputs{Rendering: resource.RenderingLatest}})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return cm, w
}

// liveDatabase returns the state of a database whose objects are as a workload means them.
func liveDatabase(cm *appv1.CloudManager, w *resource.Workload) view {
	s := viewOf(&workload.Observed{Services: workload.Services{ServiceName: w.ServiceName}, Data: &volumes{cm: cm, name: w.Name}})
	for _, obj := range w.Objects() {
		switch obj := obj.(type) {
		case *appsv1.StatefulSet:
			obj.UID = "set-uid"
			s.Object = obj
		case *corev1.Service:
			if obj.Name == w.Name {
				s.Service = obj
			} else {
				s.headless = obj
			}
		}
	}
	return s
}

// emptyDatabase returns the state of a database without an object.
func emptyDatabase(cm *appv1.CloudManager) view {
	return viewOf(&workload.Observed{Data: &volumes{cm: cm, name: "db"}})
}

// claimOf returns a claim of a pod of the database as the StatefulSet controller makes it.
func claimOf(w *resource.Workload, ordinal int, size string) corev1.PersistentVolumeClaim {
	claim := *resource.Claim(w, fmt.Sprintf("%s-%s-%d", resource.DataVolume, w.Name, ordinal))
	claim.Spec = *w.Claims[0].Spec.DeepCopy()
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: apiresource.MustParse(size)}
	return claim
}

// unguarded removes from a claim the annotations that keep tools from deleting it.
func unguarded(claim corev1.PersistentVolumeClaim) corev1.PersistentVolumeClaim {
	claim.Annotations = map[string]string{appv1.AnnotationRetainedFor: claim.Annotations[appv1.AnnotationRetainedFor]}
	return claim
}

// goneWith gives a claim a reference to the StatefulSet that it goes with.
func goneWith(claim corev1.PersistentVolumeClaim, uid string) corev1.PersistentVolumeClaim {
	claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db", UID: "set-uid"}}
	claim.OwnerReferences[0].UID = "other"
	if uid != "" {
		claim.OwnerReferences[0].UID = "set-uid"
	}
	return claim
}

// TestVolumeChange checks which changes of the storage are possible: nothing but to grow, whatever is left of the database.
func TestVolumeChange(t *testing.T) {
	class := func(name string) func(*appv1.Storage) { return func(s *appv1.Storage) { s.Class = &name } }
	mode := func(s *appv1.Storage) { s.AccessModes = corev1.ReadWriteMany }
	const live = "10Gi"
	for name, c := range map[string]struct {
		size   string
		was    []func(*appv1.Storage)
		now    []func(*appv1.Storage)
		left   string // What is left of the database: the StatefulSet, claims without it, or nothing.
		before string // The reason of DatabaseReady before.
		grows  bool
		reason string
		says   string
	}{
		"nothing lives":                   {size: "1Gi"},
		"the same size":                   {size: live, left: "set"},
		"the same size in another unit":   {size: "10240Mi", left: "set"},
		"larger":                          {size: "20Gi", left: "set", grows: true},
		"smaller":                         {size: "1Gi", left: "set", reason: appv1.ReasonVolumeResizeFailed, says: "cannot shrink from 10Gi to 1Gi"},
		"another class":                   {size: live, was: []func(*appv1.Storage){class("a")}, now: []func(*appv1.Storage){class("b")}, left: "set", reason: appv1.ReasonImmutableField, says: `from "a" to "b"`},
		"a class in place of the default": {size: live, now: []func(*appv1.Storage){class("b")}, left: "set", reason: appv1.ReasonImmutableField, says: "from the cluster's default to"},
		"the default in place of a class": {size: live, was: []func(*appv1.Storage){class("a")}, left: "set", reason: appv1.ReasonImmutableField, says: "to the cluster's default"},
		"another access mode":             {size: live, now: []func(*appv1.Storage){mode}, left: "set", reason: appv1.ReasonImmutableField, says: "from [ReadWriteOnce] to [ReadWriteMany]"},
		"larger, of another class":        {size: "20Gi", now: []func(*appv1.Storage){class("b")}, left: "set", reason: appv1.ReasonImmutableField, says: "class"},
		"claims alone, the same size":     {size: live, left: "claims"},
		"claims alone, larger":            {size: "20Gi", left: "claims", grows: true},
		"claims alone that are larger":    {size: "1Gi", left: "claims"},
		"claims that were refused before": {size: "1Gi", left: "claims", before: appv1.ReasonVolumeResizeFailed, reason: appv1.ReasonVolumeResizeFailed, says: "shrink"},
		"claims of the cluster's default": {size: live, was: []func(*appv1.Storage){class("standard")}, left: "claims"},
		"claims of another class":         {size: live, was: []func(*appv1.Storage){class("a")}, now: []func(*appv1.Storage){class("b")}, left: "claims"},
		"larger claims of another class":  {size: "20Gi", was: []func(*appv1.Storage){class("a")}, now: []func(*appv1.Storage){class("b")}, left: "claims", grows: true},
		"claims of another access mode":   {size: live, now: []func(*appv1.Storage){mode}, left: "claims"},
		"a class that was refused before": {
			size: live, was: []func(*appv1.Storage){class("a")}, now: []func(*appv1.Storage){class("b")}, left: "claims", before: appv1.ReasonImmutableField,
			reason: appv1.ReasonImmutableField, says: `"b"`,
		},
		"a StatefulSet of another resource": {size: "1Gi", left: "foreign"},
	} {
		was, built := databaseOf(t, live, c.was...)
		s := liveDatabase(was, built)
		switch c.left {
		case "":
			s.Object, s.headless, s.Service = nil, nil, nil
		case "claims":
			s.Object, s.claims = nil, []corev1.PersistentVolumeClaim{claimOf(built, 0, live)}
		case "foreign":
			s.StatefulSet().OwnerReferences[0].UID = "other"
		}
		if c.before != "" {
			meta.SetStatusCondition(&was.Status.Conditions, metav1.Condition{Type: appv1.ConditionDatabaseReady, Status: metav1.ConditionFalse, Reason: c.before})
		}
		_, w := databaseOf(t, c.size, c.now...)
		grows, err := s.volumeChange(w)
		reason, message := "", ""
		if err != nil {
			reason, message = reconciler.ReasonAndMessageOf(err)
		}
		if grows != c.grows || reason != c.reason || !strings.Contains(message, c.says) {
			t.Errorf("%s: grows %t, %s %s; want %t, %s %s", name, grows, reason, message, c.grows, c.reason, c.says)
		}
		if volume := s.Volume(s.Observed); err == nil && grows != (volume != nil &&
			w.Claims[0].Spec.Resources.Requests.Storage().Cmp(*volume.Spec.Resources.Requests.Storage()) > 0) {
			t.Errorf("%s: the volume is %v", name, volume)
		}
	}
}

// TestClaimTemplate checks what says how large the volumes are.
func TestClaimTemplate(t *testing.T) {
	cm, w := databaseOf(t, "10Gi")
	others := claimOf(w, 2, "1Gi")
	others.Annotations = nil
	claims := []corev1.PersistentVolumeClaim{claimOf(w, 0, "30Gi"), claimOf(w, 1, "20Gi"), others}
	for name, c := range map[string]struct {
		change func(view)
		want   string
	}{
		"the StatefulSet":                  {func(view) {}, "10Gi"},
		"the smallest claim of ours":       {func(s view) { s.Object = nil }, "20Gi"},
		"by the status alone":              {func(s view) { s.Object, s.headless, s.Service, s.existed = nil, nil, nil, true }, "20Gi"},
		"claims of an earlier database":    {func(s view) { s.Object, s.headless, s.Service = nil, nil, nil }, ""},
		"no claims":                        {func(s view) { s.Object, s.claims = nil, nil }, ""},
		"another owner's StatefulSet":      {func(s view) { s.StatefulSet().OwnerReferences[0].UID = "other" }, ""},
		"a StatefulSet without owner":      {func(s view) { s.StatefulSet().OwnerReferences = nil }, "10Gi"},
		"a StatefulSet of other templates": {func(s view) { s.StatefulSet().Spec.VolumeClaimTemplates[0].Name = "data" }, ""},
	} {
		s := liveDatabase(cm, w)
		s.Object = s.StatefulSet().DeepCopy() // The workload's claims are in it.
		s.claims = claims
		c.change(s)
		got := ""
		if template := s.claimTemplate(); template != nil {
			got = template.Spec.Resources.Requests.Storage().String()
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestRemainsToApply checks what tells that a database was made before: then its Services are repaired without its Secret.
func TestRemainsToApply(t *testing.T) {
	cm, w := databaseOf(t, "1Gi")
	foreign := func(obj client.Object) {
		obj.SetOwnerReferences([]metav1.OwnerReference{{Kind: "App", Name: "a", UID: "other", Controller: ptr.To(true)}})
	}
	for name, c := range map[string]struct {
		change func(view)
		want   bool
	}{
		"nothing":             {func(s view) { s.Object, s.headless, s.Service = nil, nil, nil }, false},
		"all":                 {func(view) {}, true},
		"the StatefulSet":     {func(s view) { s.headless, s.Service = nil, nil }, true},
		"the Service":         {func(s view) { s.Object, s.headless = nil, nil }, true},
		"the second Service":  {func(s view) { s.Object, s.Service = nil, nil }, true},
		"objects of others":   {func(s view) { foreign(s.StatefulSet()); foreign(s.headless); foreign(s.Service) }, false},
		"what the status has": {func(s view) { s.Object, s.headless, s.Service, s.existed = nil, nil, nil, true }, true},
	} {
		s := liveDatabase(cm, w)
		c.change(s)
		if got := s.remainsToApply(); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}

// TestDatabaseProvenance checks what tells how a StatefulSet was made: itself, and, while it is replaced, its Service.
func TestDatabaseProvenance(t *testing.T) {
	cm, w := databaseOf(t, "1Gi")
	s := liveDatabase(cm, w)
	if s.Selector()[appv1.LabelPart] != "db" {
		t.Errorf("of a StatefulSet: %v", s.Selector())
	}
	s.Object = nil
	inputs := resource.BuildInputs{Rendering: resource.RenderingLatest}.Encode()
	if got := s.LostInputs(); got != inputs {
		t.Errorf("of the Service that is left: %q", got)
	}
	s.headless.OwnerReferences = nil
	if got := s.LostInputs(); got != "" {
		t.Errorf("of a Service without owner: %q", got)
	}
	if s.Selector() != nil {
		t.Error("there is a selector of nothing")
	}
}

// TestDatabaseLiveObject checks with which live object each wanted one is compared, and that nothing is nil.
func TestDatabaseLiveObject(t *testing.T) {
	cm, w := databaseOf(t, "1Gi")
	whole, nothing := liveDatabase(cm, w), emptyDatabase(cm)
	for _, obj := range w.Objects() {
		live := whole.Observed.LiveObject(obj)
		if live == nil || live.GetName() != obj.GetName() {
			t.Errorf("%T %s is compared with %v", obj, obj.GetName(), live)
		}
		if live := nothing.Observed.LiveObject(obj); live != nil {
			t.Errorf("%T %s is compared with %T %v", obj, obj.GetName(), live, live)
		}
	}
	if live := whole.Observed.LiveObject(&corev1.Secret{}); live != nil {
		t.Errorf("a Secret is compared with %v", live)
	}
	var children []apply.Outcome
	for _, obj := range w.Objects() {
		children = append(children, apply.Outcome{Object: apply.Object{Desired: obj}, Live: obj})
	}
	children = append(children, apply.Outcome{Object: apply.Object{Desired: &corev1.Secret{}}})
	after := viewOf(workload.NewApplyResult(nothing.Observed, &apply.Outcomes{Objects: children}, 0).Seen)
	if after.StatefulSet() == nil || after.Service.Name != "db" || after.headless.Name != "db-headless" {
		t.Errorf("what was written is noted as %+v", after)
	}
	if nothing.Object != nil || nothing.Service != nil || nothing.headless != nil {
		t.Errorf("what was observed is overwritten: %+v", nothing)
	}
}

// TestPodsOf checks how many pods are counted on: those that the spec states, or those that are there.
func TestPodsOf(t *testing.T) {
	for name, c := range map[string]struct {
		live      *int32
		none      bool
		stated    *int32
		had, pods int32
	}{
		"new":                      {none: true, had: 0, pods: 1},
		"new, three":               {none: true, stated: ptr.To[int32](3), had: 0, pods: 3},
		"as it is":                 {live: ptr.To[int32](2), had: 2, pods: 2},
		"the default":              {had: 1, pods: 1},
		"scaled to nothing":        {live: ptr.To[int32](0), had: 0, pods: 1},
		"scaled to nothing stated": {live: ptr.To[int32](2), stated: ptr.To[int32](0), had: 2, pods: 0},
		"scaled up":                {live: ptr.To[int32](2), stated: ptr.To[int32](5), had: 2, pods: 5},
	} {
		cm, w := databaseOf(t, "1Gi")
		s := liveDatabase(cm, w)
		s.StatefulSet().Spec.Replicas, w.Replicas = c.live, c.stated
		if c.none {
			s.Object = nil
		}
		if had, pods := s.podsOf(w); had != c.had || pods != c.pods {
			t.Errorf("%s: had %d, wants %d; want %d and %d", name, had, pods, c.had, c.pods)
		}
	}
}

// TestClaimChildren checks which claims are written, and which of them nothing may go on without.
func TestClaimChildren(t *testing.T) {
	cm, w := databaseOf(t, "10Gi")
	w.Replicas = ptr.To[int32](2)
	others := func(ordinal int) corev1.PersistentVolumeClaim {
		claim := claimOf(w, ordinal, "10Gi")
		claim.Annotations = nil
		return claim
	}
	for name, c := range map[string]struct {
		claims            []corev1.PersistentVolumeClaim
		wanted, unguarded []string
	}{
		"none":                                  {},
		"as they should be":                     {claims: []corev1.PersistentVolumeClaim{claimOf(w, 0, "10Gi"), claimOf(w, 1, "10Gi")}},
		"larger than asked for":                 {claims: []corev1.PersistentVolumeClaim{claimOf(w, 0, "20Gi")}},
		"too small":                             {claims: []corev1.PersistentVolumeClaim{claimOf(w, 0, "10Gi"), claimOf(w, 1, "5Gi")}, wanted: []string{"datadir-db-1=10Gi"}},
		"too small, of a pod scaled away":       {claims: []corev1.PersistentVolumeClaim{claimOf(w, 7, "5Gi")}, wanted: []string{"datadir-db-7=10Gi"}},
		"of others, about to be used":           {claims: []corev1.PersistentVolumeClaim{others(1)}, wanted: []string{"datadir-db-1=10Gi"}},
		"of others, not to be used":             {claims: []corev1.PersistentVolumeClaim{others(2)}},
		"without guards":                        {claims: []corev1.PersistentVolumeClaim{unguarded(claimOf(w, 0, "20Gi")), unguarded(claimOf(w, 5, "10Gi"))}, unguarded: []string{"datadir-db-0=20Gi", "datadir-db-5=10Gi"}},
		"too small and without guards, at once": {claims: []corev1.PersistentVolumeClaim{unguarded(claimOf(w, 0, "5Gi"))}, wanted: []string{"datadir-db-0=10Gi"}},
	} {
		s := liveDatabase(cm, w)
		said := func(children []apply.Object, prerequisite bool) (names []string) {
			for _, child := range children {
				claim, ok := child.Desired.(*corev1.PersistentVolumeClaim)
				if !ok || child.Live == nil || !child.Retained || child.Prerequisite != prerequisite || child.Replace {
					t.Errorf("%s: the child %+v", name, child)
					continue
				}
				names = append(names, claim.Name+"="+claim.Spec.Resources.Requests.Storage().String())
			}
			return names
		}
		wanted, unguarded := s.claimChildren(w, c.claims)
		if got := said(wanted, true); !slices.Equal(got, c.wanted) {
			t.Errorf("%s: wants %v, want %v", name, got, c.wanted)
		}
		if got := said(unguarded, false); !slices.Equal(got, c.unguarded) {
			t.Errorf("%s: guards %v, want %v", name, got, c.unguarded)
		}
	}
}

// TestVolumeNote checks the note about a volume that does not grow though the API server has accepted its size.
func TestVolumeNote(t *testing.T) {
	cm, w := databaseOf(t, "10Gi")
	failing := func(ordinal int, change ...func(*corev1.PersistentVolumeClaim)) corev1.PersistentVolumeClaim {
		claim := claimOf(w, ordinal, "10Gi")
		claim.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{
			Type: corev1.PersistentVolumeClaimControllerResizeError, Status: corev1.ConditionTrue, Message: "beyond the quota",
		}}
		for _, apply := range change {
			apply(&claim)
		}
		return claim
	}
	infeasible := func(c *corev1.PersistentVolumeClaim) {
		c.Status.Conditions = nil
		c.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{corev1.ResourceStorage: corev1.PersistentVolumeClaimNodeResizeInfeasible}
	}
	for name, c := range map[string]struct {
		claims []corev1.PersistentVolumeClaim
		says   string
	}{
		"none":          {},
		"as they are":   {claims: []corev1.PersistentVolumeClaim{claimOf(w, 0, "10Gi")}},
		"the second":    {[]corev1.PersistentVolumeClaim{claimOf(w, 0, "10Gi"), failing(1)}, "PersistentVolumeClaim datadir-db-1 cannot grow to 10Gi: beyond the quota. "},
		"without words": {[]corev1.PersistentVolumeClaim{failing(0, infeasible)}, "PersistentVolumeClaim datadir-db-0 cannot grow to 10Gi. "},
		"of others":     {claims: []corev1.PersistentVolumeClaim{failing(0, func(c *corev1.PersistentVolumeClaim) { c.Annotations = nil })}},
	} {
		note := (&volumes{cm: cm, name: "db", claims: c.claims}).Note()
		if (note.Reason == appv1.ReasonVolumeResizeFailed) != (c.says != "") || !strings.Contains(note.Message, c.says) {
			t.Errorf("%s: %+v", name, note)
		}
	}
}

// TestLeavesClaims checks when the password is kept although the volumes are not: while one of them stays.
func TestLeavesClaims(t *testing.T) {
	cm, w := databaseOf(t, "1Gi", func(s *appv1.Storage) { s.Retain = ptr.To(false) })
	for name, c := range map[string]struct {
		claims []corev1.PersistentVolumeClaim
		none   bool
		want   bool
	}{
		"none":                              {nil, false, false},
		"of a pod":                          {[]corev1.PersistentVolumeClaim{claimOf(w, 0, "1Gi")}, false, false},
		"of a pod scaled away":              {[]corev1.PersistentVolumeClaim{claimOf(w, 0, "1Gi"), claimOf(w, 1, "1Gi")}, false, true},
		"scaled away, and going with it":    {[]corev1.PersistentVolumeClaim{goneWith(claimOf(w, 1, "1Gi"), "set-uid")}, false, false},
		"scaled away, going with another":   {[]corev1.PersistentVolumeClaim{goneWith(claimOf(w, 1, "1Gi"), "")}, false, true},
		"without a StatefulSet, to be used": {[]corev1.PersistentVolumeClaim{claimOf(w, 0, "1Gi")}, true, false},
		"without a StatefulSet":             {[]corev1.PersistentVolumeClaim{claimOf(w, 1, "1Gi")}, true, true},
	} {
		s := liveDatabase(cm, w)
		s.claims = c.claims
		if c.none {
			s.Object = nil
		}
		if got := s.leavesClaims(w); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}

// TestClaimsReleased checks when a StatefulSet that is to leave its claims behind may be deleted.
func TestClaimsReleased(t *testing.T) {
	_, w := databaseOf(t, "1Gi")
	var waiting *reconciler.WaitingError
	var stalled *reconciler.StalledError
	for name, c := range map[string]struct {
		change func(*appsv1.StatefulSet)
		claims []corev1.PersistentVolumeClaim
		want   any
		says   string
	}{
		"no claims":                       {},
		"released":                        {claims: []corev1.PersistentVolumeClaim{claimOf(w, 0, "1Gi"), goneWith(claimOf(w, 1, "1Gi"), "")}},
		"its pod's is not released":       {claims: []corev1.PersistentVolumeClaim{claimOf(w, 1, "1Gi"), goneWith(claimOf(w, 0, "1Gi"), "set-uid")}, want: &waiting, says: "datadir-db-0"},
		"nor is that of one scaled away":  {claims: []corev1.PersistentVolumeClaim{goneWith(claimOf(w, 1, "1Gi"), "set-uid")}, want: &stalled, says: "Remove metadata.ownerReferences"},
		"several pods":                    {change: func(s *appsv1.StatefulSet) { s.Spec.Replicas = ptr.To[int32](2) }, claims: []corev1.PersistentVolumeClaim{goneWith(claimOf(w, 1, "1Gi"), "set-uid")}, want: &waiting, says: "datadir-db-1"},
		"its controller has not observed": {change: func(s *appsv1.StatefulSet) { s.Generation = 2 }, claims: []corev1.PersistentVolumeClaim{goneWith(claimOf(w, 1, "1Gi"), "set-uid")}},
		"they are to go with it": {change: func(s *appsv1.StatefulSet) {
			s.Spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted = appsv1.DeletePersistentVolumeClaimRetentionPolicyType
		}, claims: []corev1.PersistentVolumeClaim{goneWith(claimOf(w, 0, "1Gi"), "set-uid")}},
	} {
		cm, built := databaseOf(t, "1Gi")
		set := liveDatabase(cm, built).StatefulSet()
		if c.change != nil {
			c.change(set)
		}
		err := claimsReleased(set, c.claims)
		switch {
		case c.want == nil && err != nil, c.want != nil && !errors.As(err, c.want):
			t.Errorf("%s: %v", name, err)
		case c.want != nil && !strings.Contains(err.Error(), c.says):
			t.Errorf("%s: %v, want %q in it", name, err, c.says)
		}
	}
	if deletesClaims(&appsv1.StatefulSet{}) {
		t.Error("a StatefulSet without a policy takes its claims along")
	}
}

// TestFitVolumes checks which volumes a workload states: those that the database has, unless they grow.
func TestFitVolumes(t *testing.T) {
	for name, c := range map[string]struct {
		size  string
		how   workload.How
		want  string
		grows bool
		fails bool
	}{
		"as it is":                     {size: "10Gi", want: "10Gi"},
		"larger":                       {size: "20Gi", want: "20Gi", grows: true},
		"smaller":                      {size: "1Gi", want: "1Gi", fails: true},
		"an earlier spec was smaller":  {size: "1Gi", how: workload.How{Earlier: true}, want: "10Gi"},
		"an earlier spec asked for it": {size: "20Gi", how: workload.How{Earlier: true}, want: "10Gi"},
	} {
		cm, built := databaseOf(t, "10Gi")
		seen := liveDatabase(cm, built)
		seen.StatefulSet().Spec.VolumeClaimTemplates[0].Annotations = map[string]string{appv1.AnnotationRetainedFor: "CloudManager.cm"}
		_, wanted := databaseOf(t, c.size)
		w, grows, err := fitVolumes(seen, wanted, c.how)
		if got := w.Claims[0].Spec.Resources.Requests.Storage().String(); got != c.want || grows != c.grows || (err != nil) != c.fails {
			t.Errorf("%s: %s, grows %t, %v", name, got, grows, err)
		}
		// The template of a release without guards cannot be changed, except by a new one.
		if kept := len(w.Claims[0].Annotations) == 1; !c.fails && kept == c.grows {
			t.Errorf("%s: the annotations of the template are %v", name, w.Claims[0].Annotations)
		}
	}
}
