package view

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
)

// TestHistoryNamesTheCause has revisions that differ from the one before by something else than the spec.
func TestHistoryNamesTheCause(t *testing.T) {
	app := &appv1.App{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "1"}}
	r, ok := ResourceOf(app)
	if !ok {
		t.Fatal("an App has no view")
	}
	controlled := func(kind, name string, uid types.UID) []metav1.OwnerReference {
		return []metav1.OwnerReference{{Kind: kind, Name: name, UID: uid, Controller: ptr.To(true)}}
	}
	s := &Snapshot{Resource: r, Deployments: []appsv1.Deployment{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "2", OwnerReferences: controlled("App", "web", "1"), Annotations: map[string]string{annotationRevision: "6"}},
	}}}
	steps := []struct {
		image             string
		pods, annotations map[string]string
		shown             string
	}{
		{"nginx:1", nil, nil, "image nginx:1"},
		{"nginx:1", map[string]string{AnnotationRestarted: "a"}, nil, "restarted"},
		{"nginx:1", map[string]string{AnnotationRestarted: "a", appv1.AnnotationConfig: "b"}, nil, "content of ConfigMaps or Secrets changed"},
		{"nginx:1", map[string]string{AnnotationRestarted: "c", appv1.AnnotationConfig: "d"}, nil, "restarted; content of ConfigMaps or Secrets changed"},
		{"nginx:1", map[string]string{AnnotationRestarted: "c", appv1.AnnotationConfig: "d"}, map[string]string{appv1.AnnotationLastAppliedInputs: "e"}, "newer rendering or size"},
		{"nginx:2", map[string]string{AnnotationRestarted: "f", appv1.AnnotationConfig: "d"}, nil, "image"},
	}
	for i, step := range steps {
		rs := appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: fmt.Sprintf("web-%d", i), OwnerReferences: controlled("Deployment", "web", "2"),
			Annotations: map[string]string{
				annotationRevision: fmt.Sprint(i + 1), appv1.AnnotationLastAppliedSpec: fmt.Sprintf(`{"image":%q}`, step.image),
				appv1.AnnotationLastAppliedInputs: step.annotations[appv1.AnnotationLastAppliedInputs],
			},
		}}
		rs.Spec.Template.Annotations = step.pods
		rs.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web", Image: step.image}}
		s.ReplicaSets = append(s.ReplicaSets, rs)
	}
	h, err := HistoryOf(s, "")
	if err != nil {
		t.Fatal(err)
	}
	if len(h.Revisions) != len(steps) {
		t.Fatalf("%d revisions, want %d", len(h.Revisions), len(steps))
	}
	lines := strings.Split(h.Text(Style{}, time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)), "\n")
	for i, step := range steps {
		if line := lines[len(steps)-i]; !strings.Contains(line, step.shown) {
			t.Errorf("revision %d: %q does not contain %q", i+1, line, step.shown)
		}
	}
}

// TestInForceSince checks that a revision whose ReplicaSet is used again has no time that Kubernetes does not know: the creation of the
// ReplicaSet is that of an earlier number.
func TestInForceSince(t *testing.T) {
	const revision = `{"f:metadata":{"f:annotations":{"f:deployment.kubernetes.io/revision":{}}},"f:spec":{"f:replicas":{}}}`
	entry := func(fields, subresource string, ago time.Duration) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Subresource: subresource, Time: ptr.To(before(ago)), FieldsV1: &metav1.FieldsV1{Raw: []byte(fields)}}
	}
	for name, c := range map[string]struct {
		earlier string
		entries []metav1.ManagedFieldsEntry
		want    string
	}{
		"new":                     {"", []metav1.ManagedFieldsEntry{entry(revision, "", 3*time.Minute)}, "9d"},
		"used again":              {"1", []metav1.ManagedFieldsEntry{entry(`{}`, "", time.Minute), entry(revision, "", 3*time.Minute)}, "over 3m"},
		"used again, by a status": {"1,3", []metav1.ManagedFieldsEntry{entry(revision, "status", 3*time.Minute)}, "not known"},
		"used again, unknown":     {"1", nil, "not known"},
	} {
		s := cases()["ready"]
		rs := replicaSet("cart-7d9c4", 5, 6, 6, "nginx:1.17.0", `{"image":"nginx:1.17.0"}`, 9*24*time.Hour)
		rs.ManagedFields = c.entries
		if c.earlier != "" {
			rs.Annotations[annotationRevisionHistory] = c.earlier
		}
		s.ReplicaSets = []appsv1.ReplicaSet{rs}
		h, err := HistoryOf(s, "")
		if err != nil {
			t.Fatal(err)
		}
		if got := h.Revisions[0].InForceFor(now); got != c.want {
			t.Errorf("%s: in force for %q, want %q", name, got, c.want)
		}
	}
}

// TestForgedRevisions has ReplicaSets of others that name the Deployment as their controller. The current revision is that of the Deployment,
// and no rollback takes a record that its pods do not run.
func TestForgedRevisions(t *testing.T) {
	const image = "nginx:1.16.1"
	for name, c := range map[string]struct {
		revision     int
		record, note string
	}{
		"a number that the Deployment has not reached": {math.MaxInt32, `{"image":"nginx:1.16.1"}`, "newer than the Deployment: no rollback"},
		"another image":                     {4, `{"image":"evil:1"}`, "record unlike its pods: no rollback"},
		"arguments":                         {4, `{"image":"nginx:1.16.1","args":["-x"]}`, "record unlike its pods: no rollback"},
		"a command":                         {4, `{"image":"nginx:1.16.1","command":["sh"]}`, "record unlike its pods: no rollback"},
		"a variable":                        {4, `{"image":"nginx:1.16.1","envs":[{"name":"A","value":"b"}]}`, "record unlike its pods: no rollback"},
		"an account":                        {4, `{"image":"nginx:1.16.1","serviceAccountName":"admin"}`, "record unlike its pods: no rollback"},
		"another container":                 {4, `{"image":"nginx:1.16.1","containers":[{"name":"b","image":"evil:1"}]}`, "record unlike its pods: no rollback"},
		"a volume":                          {4, `{"image":"nginx:1.16.1","volumes":[{"name":"v","secret":{"secretName":"s"}}]}`, "record unlike its pods: no rollback"},
		"a patch":                           {4, `{"image":"nginx:1.16.1","podTemplatePatch":{"spec":{"hostNetwork":true}}}`, "record unlike its pods: no rollback"},
		"a label":                           {4, `{"image":"nginx:1.16.1","podLabels":{"a":"b"}}`, "record unlike its pods: no rollback"},
		"a patch that cannot be applied":    {4, `{"image":"nginx:1.16.1","podTemplatePatch":{"spec":{"containers":{}}}}`, "record unlike its pods: no rollback"},
		"a record that makes its own pods":  {4, `{"image":"nginx:1.16.1"}`, ""},
		"fields that shape no pod in there": {4, `{"image":"nginx:1.16.1","replicas":3,"ingress":{"host":"a.example"}}`, ""},
	} {
		s := cases()["ready"]
		forged := replicaSet("cart-forged", c.revision, 0, 0, image, `{"image":"nginx:1.16.1"}`, time.Hour)
		forged.Annotations[appv1.AnnotationLastAppliedSpec] = c.record
		s.ReplicaSets = []appsv1.ReplicaSet{replicaSet("cart-7d9c4", 5, 6, 6, "nginx:1.17.0", `{"image":"nginx:1.17.0"}`, 2*time.Hour), forged}
		h, err := HistoryOf(s, "")
		if err != nil {
			t.Fatal(err)
		}
		for _, rev := range h.Revisions {
			if rev.Current != (rev.ReplicaSet == "cart-7d9c4") {
				t.Errorf("%s: ReplicaSet %s is current: %t", name, rev.ReplicaSet, rev.Current)
			}
			if rev.ReplicaSet == forged.Name && (rev.Note != c.note || (rev.Spec == nil) != (c.note != "")) {
				t.Errorf("%s: note %q, want %q", name, rev.Note, c.note)
			}
		}
		if to, err := h.OtherRevision(map[string]any{"image": "nginx:1.17.0"}); (err == nil) != (c.note == "") {
			t.Errorf("%s: the rollback goes to %v, %v", name, to, err)
		}
	}
}

// TestWantedRevision marks the revision of the present spec, to which no rollback leads: while the App is held, it is the one that is kept from
// running.
func TestWantedRevision(t *testing.T) {
	app := newApp("nginx:1.17.0", condition(appv1.ConditionReady, "False", appv1.ReasonHeld, "held"))
	s := rollout(app, running)
	s.ReplicaSets[3] = replicaSet("cart-7d9c4", 4, 0, 0, "nginx:1.17.0", `{"image":"nginx:1.17.0","replicas":2}`, time.Hour)
	s.ReplicaSets[1] = replicaSet("cart-6c9f2", 5, 6, 6, "nginx:1.16.1", `{"image":"nginx:1.16.1","replicas":6}`, 9*24*time.Hour)
	h, err := HistoryOf(s, "")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range h.Revisions {
		rev := &h.Revisions[i]
		got = append(got, fmt.Sprintf("%d %s %t %t", rev.Number, rev.Image, rev.Current, rev.Wanted))
	}
	want := []string{"5 nginx:1.16.1 true false", "4 nginx:1.17.0 false true", "3 nginx:1.15.0 false false", "2 nginx:1.15.0 false false"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestManyChanges has a revision with as many changes as an entry has, and with more.
func TestManyChanges(t *testing.T) {
	for number, more := range map[int]string{maxChanges: "", maxChanges + 1: "and 1 more changes", 300: "and 250 more changes"} {
		s := cases()["ready"]
		envs := []string{`{"name":"OTHER","value":"x"}`}
		for i := range number {
			envs = append(envs, fmt.Sprintf(`{"name":"V%d","value":"x"}`, i))
		}
		record := func(envs []string) string {
			return `{"image":"nginx:1.17.0","envs":[` + strings.Join(envs, ",") + `]}`
		}
		s.ReplicaSets[1] = replicaSet("cart-6c9f2", 4, 2, 2, "nginx:1.17.0", record(envs[:1]), 9*24*time.Hour)
		s.ReplicaSets[3] = replicaSet("cart-7d9c4", 5, 4, 2, "nginx:1.17.0", record(envs), 42*time.Second)
		changes := HappenedOf(s, 0)[0].Changes
		last := changes[len(changes)-1]
		if len(changes) != min(number, maxChanges+1) || more != "" && last != more || more == "" && strings.HasPrefix(last, "and ") {
			t.Errorf("%d variables: %d changes, the last one %q", number, len(changes), last)
		}
	}
}
