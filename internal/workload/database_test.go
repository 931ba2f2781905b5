package workload

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// knownVolume is the observation of a database whose volumes have a size, empty if nothing is known of them.
type knownVolume string

func (knownVolume) LostInputs() string                             { return "" }
func (knownVolume) LostReplicas() *int32                           { return nil }
func (knownVolume) Note() reconciler.ReasonAndMessage              { return reconciler.ReasonAndMessage{} }
func (knownVolume) LiveObject(client.Object) (client.Object, bool) { return nil, false }
func (v knownVolume) After(client.Object) (Data, bool)             { return v, false }
func (v knownVolume) Volume(*Observed) *corev1.PersistentVolumeClaim {
	if v == "" {
		return nil
	}
	claim := &corev1.PersistentVolumeClaim{}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: apiresource.MustParse(string(v))}
	claim.Spec.StorageClassName = ptr.To("standard")
	return claim
}

// newDatabase returns the input of the database db of a size, its workload, and its live StatefulSet and Service.
func newDatabase(t *testing.T, size string) (*Input, *resource.Workload, *Observed) {
	t.Helper()
	cm := &appv1.CloudManager{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "cm", UID: "cm-uid"}}
	cm.SetGroupVersionKind(appv1.GroupVersion.WithKind(resource.KindCloudManager.Name))
	cm.Spec.DB.StatefulSet.Name, cm.Spec.DB.StatefulSet.Image = "db", "mariadb:10.3"
	cm.Spec.DB.StatefulSet.Replicas, cm.Spec.DB.StatefulSet.Storage.Size = ptr.To[int32](2), apiresource.MustParse(size)
	cm.DefaultNames()
	w, errs := resource.CloudManagerDatabase(cm, resource.BuildOptions{Inputs: resource.BuildInputs{Rendering: resource.RenderingLatest}})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	seen := &Observed{Data: knownVolume("")}
	for _, obj := range w.Objects() {
		switch obj := obj.(type) {
		case *appsv1.StatefulSet:
			seen.Object = obj
		case *corev1.Service:
			if obj.Name == w.Name {
				seen.Service = obj
			}
		}
	}
	return &Input{
		Owner: cm, Kind: resource.KindCloudManager, Name: "db", Tier: resource.TierDatabase, Spec: resource.TierSpec(cm, resource.TierDatabase),
	}, w, seen
}

// TestReportDatabase has the status and the health of the pods of a database.
func TestReportDatabase(t *testing.T) {
	for name, c := range map[string]struct {
		change   func(*Observed)
		ready    string
		endpoint string
		message  string
		isReady  bool
	}{
		"nothing":             {func(s *Observed) { s.Object, s.Service = nil, nil }, "0/2", "", "StatefulSet db does not exist yet", false},
		"a Service alone":     {func(s *Observed) { s.Object = nil }, "0/2", "db.default.svc:3306", "StatefulSet db does not exist yet", false},
		"of another owner":    {func(s *Observed) { s.StatefulSet().OwnerReferences, s.Service.OwnerReferences = nil, nil }, "0/2", "", "StatefulSet db does not exist yet", false},
		"one of two is ready": {func(s *Observed) { s.StatefulSet().Status.ReadyReplicas = 1 }, "1/2", "db.default.svc:3306", "", false},
		"both are, and newest": {func(s *Observed) {
			s.StatefulSet().Status = appsv1.StatefulSetStatus{Replicas: 2, ReadyReplicas: 2, AvailableReplicas: 2, UpdatedReplicas: 2, CurrentRevision: "1", UpdateRevision: "1"}
		}, "2/2", "db.default.svc:3306", "", true},
	} {
		in, _, seen := newDatabase(t, "1Gi")
		c.change(seen)
		made, _ := newResult(in, &decision{today: resource.BuildInputs{Rendering: resource.RenderingLatest}}, &ApplyResult{Seen: seen.WithObject(seen.Object)})
		status, pods := made.Status.Workload, made.Report.Pods
		if status.Ready != c.ready || status.Endpoint != c.endpoint || pods.Ready != c.isReady || !containsAll(pods.Message, c.message) {
			t.Errorf("%s: %q at %q, ready %t: %s", name, status.Ready, status.Endpoint, pods.Ready, pods.Message)
		}
		if known := status.Rendering != 0; known != seen.isOwned(in.Owner) {
			t.Errorf("%s: the rendering is %d", name, status.Rendering)
		}
	}
}

// TestSubstitute applies a refused workload with the live volumes where the StatefulSet is gone, and finds out which volumes grow.
func TestSubstitute(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Observed)
		want   string
		grows  bool
	}{
		"the record was written by others": {func(s *Observed) { s.Data = knownVolume("5Gi") }, "", true},
		"the StatefulSet is gone":          {func(s *Observed) { s.Object, s.Data = nil, knownVolume("20Gi") }, "20Gi", false},
		"nothing is left":                  {func(s *Observed) { s.Object = nil }, "", false},
		"no database":                      {func(s *Observed) { s.Object, s.Data = nil, nil }, "", false},
	} {
		in, w, seen := newDatabase(t, "10Gi")
		c.change(seen)
		decide := decider{in: in, seen: seen}
		if got := decide.growsVolume(w); got != c.grows {
			t.Errorf("%s: grows is %t", name, got)
		}
		got := ""
		if substitute := decide.substituteWorkload(w); substitute != nil {
			got = substitute.Claims[0].Spec.Resources.Requests.Storage().String()
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestSubstituteClass checks the class of the volumes of a rebuilt StatefulSet: the claims have the cluster's default where the spec states none, and
// no default is written into the StatefulSet, where it could not be changed.
func TestSubstituteClass(t *testing.T) {
	for name, c := range map[string]struct{ stated, want *string }{
		"none":           {nil, nil},
		"the claims'":    {ptr.To("standard"), ptr.To("standard")},
		"one other":      {ptr.To("fast"), ptr.To("standard")},
		"no provisioner": {ptr.To(""), ptr.To("standard")},
	} {
		in, w, seen := newDatabase(t, "10Gi")
		seen.Object, seen.Data = nil, knownVolume("20Gi")
		w.Claims[0].Spec.StorageClassName = c.stated
		substitute := decider{in: in, seen: seen}.substituteWorkload(w)
		if got := substitute.Claims[0].Spec.StorageClassName; !ptr.Equal(got, c.want) || !ptr.Equal(w.Claims[0].Spec.StorageClassName, c.stated) {
			t.Errorf("%s: %q, want %q", name, ptr.Deref(got, "none"), ptr.Deref(c.want, "none"))
		}
	}
}

// TestDescribeRollouts checks that the text about a live workload object changes with its rollout, and with nothing else.
func TestDescribeRollouts(t *testing.T) {
	live := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
	live.Status = appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 1}
	text := func() string { return describeRollouts(&apply.Request{Objects: []apply.Object{{Live: live}}}) }
	for _, step := range []struct {
		does    string
		change  func()
		another bool
	}{
		{"one more pod of it is made", func() { live.Status.UpdatedReplicas = 2 }, false},
		{"pods become ready", func() { live.Status.ReadyReplicas = 3 }, false},
		{"the rollout ends", func() { live.Status.Replicas = 2 }, true},
		{"its template is changed", func() { live.Generation = 3 }, true},
	} {
		before := text()
		step.change()
		if another := text() != before; another != step.another {
			t.Errorf("%s: the text is another one: %t", step.does, another)
		}
	}
}
