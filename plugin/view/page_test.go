package view

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"huolala.cn/app-operator/api/plan"
	appv1 "huolala.cn/app-operator/api/v1"
)

// hostileMarkup is a text that is markup, changes the direction of text and moves the cursor.
const hostileMarkup = "\"><script>alert(1)</script>\u202e\x1b[2J"

// withIngress adds an Ingress of the App cart with hosts to a snapshot.
func withIngress(t *testing.T, s *Snapshot, hosts ...string) {
	t.Helper()
	ingress := &networkingv1.Ingress{ObjectMeta: objectMeta("cart", "ingress", "app", time.Hour)}
	ingress.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{"tls.example.com"}, SecretName: "cart-tls"}}
	for _, host := range hosts {
		ingress.Spec.Rules = append(ingress.Spec.Rules, networkingv1.IngressRule{Host: host, IngressRuleValue: networkingv1.IngressRuleValue{
			HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{Path: "/shop"}}},
		}})
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(ingress)
	if err != nil {
		t.Fatal(err)
	}
	object["kind"] = "Ingress"
	s.Around = append(s.Around, unstructured.Unstructured{Object: object})
}

// TestWay goes from the hosts to the pods. Only the name of one host becomes a link, to nothing but that host.
func TestWay(t *testing.T) {
	s := cases()["image"]
	withIngress(t, s, "shop.example.com", "tls.example.com", "", "*.example.com", hostileMarkup, "javascript:alert(1)", "a/../b")
	var urls []string
	for _, p := range PlacesOf(s) {
		urls = append(urls, p.URL)
	}
	want := []string{"http://shop.example.com/shop", "https://tls.example.com/shop", "", "", "", "", ""}
	if diff := cmp.Diff(want, urls); diff != "" {
		t.Errorf("links (-want +got):\n%s", diff)
	}
	var titles []string
	for _, stop := range WayOf(s) {
		titles = append(titles, stop.Title+" "+strings.Join(stop.Notes, "; "))
	}
	want = []string{" ", "Ingress no address", "Service :8080 → 80", "4 of 6 pods ready 1.17.0, 1.16.1; autoscaled 2–10"}
	if diff := cmp.Diff(want, titles); diff != "" {
		t.Errorf("stops (-want +got):\n%s", diff)
	}
	s.Services = nil
	if way := WayOf(s); way != nil {
		t.Errorf("without a Service, the way is %+v", way)
	}
}

// TestTiers draws the tiers of a CloudManager: what fails, and what waits for it.
func TestTiers(t *testing.T) {
	var got []string
	for _, stop := range WayOf(cloudManager()) {
		got = append(got, fmt.Sprintf("%s %s %t %s", stop.Title, stop.Mark, stop.Waits, strings.Join(stop.Notes, "; ")))
	}
	want := []string{"db bad false 0 of 1 pod ready; mariadb:11; OOMKilled", "identity  true waits for db", "front  true waits for identity"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestPodRows draws the pods by version, and counts what has no cell.
func TestPodRows(t *testing.T) {
	var labels []string
	s := cases()["image"]
	for _, row := range PodRows(s) {
		labels = append(labels, row.Label())
		if len(row.Cells) != row.Ready+row.Failing+row.Starting || len(row.Missing()) != row.ToCome {
			t.Errorf("%+v", row)
		}
	}
	want := []string{"Version 1.17.0, new: 2 ready, 3 failing, 1 to come", "Version 1.16.1, earlier: 2 ready"}
	if diff := cmp.Diff(want, labels); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for i := range 2 * maxCells {
		s.Pods = append(s.Pods, newPod(fmt.Sprintf("more-%d", i), "cart-7d9c4", "node-1", running))
	}
	if rows := PodRows(s); len(rows[0].Cells) != 0 || rows[0].Ready != 2+2*maxCells || rows[0].Missing() != nil {
		t.Errorf("with many pods, the row is %+v", rows[0])
	}
	if lines, more := PodLines(s); len(lines) != maxPodLines || more != 7+2*maxCells-maxPodLines {
		t.Errorf("%d lines, and %d more", len(lines), more)
	}
}

// TestPodLines has how a container ended, with its own words.
func TestPodLines(t *testing.T) {
	s := cases()["image"]
	status := &s.Pods[0].Status.ContainerStatuses[0]
	status.RestartCount = 4
	status.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 3, Reason: "Error", FinishedAt: before(time.Hour), Message: hostileMarkup}
	lines, _ := PodLines(s)
	for _, line := range lines {
		if line.Name != s.Pods[0].Name {
			continue
		}
		if line.Restarts != 4 || line.Last != `cart: exit code 3, 60 min ago: "><script>alert(1)</script>[2J` {
			t.Errorf("the line is %+v", line)
		}
	}
}

// TestHappened merges revisions, events and the present state, the latest first, without the events of others.
func TestHappened(t *testing.T) {
	s := cases()["image"]
	event := func(name, reason string, age time.Duration) corev1.Event {
		return corev1.Event{
			ObjectMeta: objectMeta(name, name, "", age), Reason: reason, Message: "words", LastTimestamp: before(age),
			InvolvedObject: corev1.ObjectReference{Kind: "Deployment", UID: s.Deployments[0].UID},
		}
	}
	s.Events = append(s.Events, event("a", "FailedCreate", time.Second), event("b", reasonScaling, time.Second))
	foreign := event("c", "Foreign", time.Second)
	foreign.InvolvedObject.UID = "other"
	s.Events = append(s.Events, foreign)
	var titles []string
	for _, h := range HappenedOf(s, 10) {
		titles = append(titles, h.Title+": "+strings.Join(append(h.Changes, h.Text), ", "))
	}
	want := []string{
		"FailedCreate: Deployment: words", "Revision 5: +envs, image 1.16.1 → 1.17.0, ", "Stalled: nginx:1.17.0 cannot be pulled: 429 Too Many Requests",
		"Configured: Deployment cart", "Revision 4: image nginx:1.16.1", "Revision 3: image nginx:1.15.0", "Revision 2: image nginx:1.15.0",
	}
	if diff := cmp.Diff(want, titles); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestSuggestions checks the action that a page offers first.
func TestSuggestions(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Snapshot)
		want   string
	}{
		"what serves": {func(*Snapshot) {}, "rollback 4 1.16.1"},
		"from Git": {func(s *Snapshot) {
			s.Resource.ObjectMeta.Labels = map[string]string{"argocd.argoproj.io/instance": "x"}
		}, ""},
		"nothing else": {func(s *Snapshot) { s.ReplicaSets = s.ReplicaSets[3:] }, ""},
		"paused":       {func(s *Snapshot) { s.Resource.Status.Conditions[1].Reason = appv1.ReasonPaused }, "resume  "},
		"held": {func(s *Snapshot) {
			s.Resource.Status.Conditions = []metav1.Condition{condition(appv1.ConditionReady, metav1.ConditionFalse, appv1.ReasonHeld, "m")}
			s.Resource.ObjectMeta.Annotations = map[string]string{appv1.AnnotationHold: LastGood}
		}, "unhold  "},
		"canary": {func(s *Snapshot) {
			s.Resource.Status.Conditions = []metav1.Condition{condition(appv1.ConditionReady, metav1.ConditionUnknown, appv1.ReasonCanary, "m")}
			s.Resource.Canary = &appv1.CanaryStatus{UID: "7"}
		}, "abort 7 "},
	} {
		s := cases()["image"]
		c.change(s)
		got := ""
		if w := WhyOf(s, 0); w.Suggested != nil {
			got = w.Suggested.Do + " " + w.Suggested.Value + " " + w.Suggested.Version
			for _, line := range w.Further() {
				if strings.HasSuffix(line, w.Suggested.Command) {
					t.Errorf("%s: the advice repeats the action: %s", name, line)
				}
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestPieces marks only the differing parts of two values.
func TestPieces(t *testing.T) {
	from, to := diffPieces("imagepullbackoff.test/shop/checkout:5.2.0", "registry.example.com/shop/checkout:5.1.1")
	if diff := cmp.Diff([]Piece{{"imagepullbackoff.test", true}, {"/shop/checkout:", false}, {"5.2.0", true}}, from); diff != "" {
		t.Errorf("from (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Piece{{"registry.example.com", true}, {"/shop/checkout:", false}, {"5.1.1", true}}, to); diff != "" {
		t.Errorf("to (-want +got):\n%s", diff)
	}
	long := strings.Repeat("a ", maxPieces)
	if from, to := diffPieces(long, long+"b"); len(from) != 1 || len(to) != 1 {
		t.Errorf("of long values, %d and %d pieces", len(from), len(to))
	}
}

// TestReplaced counts the pods that a rollback replaces: those of other revisions, as far as the revision lacks pods.
func TestReplaced(t *testing.T) {
	s := cases()["image"]
	w, err := s.Resource.RecordedWorkload("")
	if err != nil {
		t.Fatal(err)
	}
	for number, want := range map[int64]int{5: 2, 4: 2, 2: 4} {
		if got := s.CountReplaced(w, &Revision{Number: number}); got != want {
			t.Errorf("revision %d: %d pods, want %d", number, got, want)
		}
	}
}

// TestPlanRows has the rows of an object whose change, or the number of whose pods, is known in part.
func TestPlanRows(t *testing.T) {
	rows := func(o plan.Object) string {
		var lines []string
		for _, row := range PlanOf(&plan.Plan{Objects: []plan.Object{o}}).TableRows() {
			line := row.Object + ": " + row.Effect + "; " + row.Field
			for _, piece := range row.From {
				line += " from " + piece.Text
			}
			for _, piece := range row.To {
				line += " to " + piece.Text
			}
			lines = append(lines, line)
		}
		return strings.Join(lines, "\n")
	}
	canary := &plan.Pods{Canary: true, Running: 4, Wanted: 1}
	for want, o := range map[string]plan.Object{
		"Deployment web: changed (not asked in time); ":                        {Action: plan.Changed, Unasked: true},
		"Deployment web: created, unless others have an object of this name; ": {Action: plan.Created, Unseen: true},
		"Deployment web: taken over, unless pods of others use it; ":           {Action: plan.Changed, Unseen: true, TakenOver: true},
		"Deployment web: created; pods from 0 to 2":                            {Action: plan.Created, Pods: &plan.Pods{Wanted: 2}},
		"Deployment web: changed; pods from 2 to 3":                            {Action: plan.Changed, Pods: &plan.Pods{Running: 2, Wanted: 3}},
		"Deployment web: created; pods to 1":                                   {Action: plan.Created, Pods: canary},
		"Deployment web: created; pods to 2":                                   {Action: plan.Created, Pods: &plan.Pods{Canary: true, Running: 2, Wanted: 2}},
		"Deployment web: recreated; pods to 1":                                 {Action: plan.Recreated, Pods: canary},
		"Deployment web: deleted; pods from 1 to 0":                            {Action: plan.Deleted, Pods: &plan.Pods{Canary: true, Running: 1}},
		"Deployment web: changed; pods from 1 to 2":                            {Action: plan.Changed, Pods: &plan.Pods{Canary: true, Running: 1, Wanted: 2}},
		"Deployment web: blocked: Forbidden: no right; ":                       {Action: plan.Blocked, Problem: &plan.Problem{Reason: "Forbidden", Message: "no right"}},
	} {
		o.Kind, o.Name = "Deployment", "web"
		if got := rows(o); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestCountRestarts sums up the pods that plans replace: now, once a canary is promoted, once all of the resources are resumed, and as far as that is known.
func TestCountRestarts(t *testing.T) {
	restart := plan.Object{Kind: "Deployment", Action: plan.Changed, Pods: &plan.Pods{Replaced: true, Running: 2, Wanted: 2}}
	canary := plan.Object{Kind: "Deployment", Action: plan.Created, Pods: &plan.Pods{Canary: true, Running: 4, Wanted: 1}}
	problem := func(reason string) *plan.Problem { return &plan.Problem{Reason: reason, Message: "db is not ready."} }
	for name, c := range map[string]struct {
		plans []*plan.Plan
		want  CountedRestarts
	}{
		"nothing":         {[]*plan.Plan{{}}, CountedRestarts{}},
		"two":             {[]*plan.Plan{{Objects: []plan.Object{restart}}, {Objects: []plan.Object{restart}}}, CountedRestarts{Pods: 4}},
		"a canary":        {[]*plan.Plan{{Objects: []plan.Object{canary}}, {Objects: []plan.Object{restart}}}, CountedRestarts{Pods: 2, Promoted: 4}},
		"incomplete":      {[]*plan.Plan{{Incomplete: true}}, CountedRestarts{Unknown: "not all was answered in time"}},
		"incomplete, one": {[]*plan.Plan{{}, {Incomplete: true, Kind: "App", Name: "web", Objects: []plan.Object{restart}}}, CountedRestarts{Pods: 2, Unknown: "App web: not all was answered in time"}},
		"a tier waits":    {[]*plan.Plan{{Problem: problem(appv1.ReasonDependencyNotReady)}}, CountedRestarts{Unknown: "DependencyNotReady: db is not ready"}},
		"a tier, and one that is incomplete": {
			[]*plan.Plan{{}, {Kind: "App", Name: "web", Problem: problem(appv1.ReasonDependencyNotReady)}, {Kind: "App", Name: "api", Incomplete: true}},
			CountedRestarts{Unknown: "App web: DependencyNotReady: db is not ready"},
		},
		"held":                    {[]*plan.Plan{{Problem: problem(appv1.ReasonHeld)}}, CountedRestarts{}},
		"rolled back":             {[]*plan.Plan{{Problem: problem(appv1.ReasonRolledBack)}}, CountedRestarts{}},
		"paused":                  {[]*plan.Plan{{Paused: true, Objects: []plan.Object{restart}}}, CountedRestarts{Pods: 2, Paused: 1}},
		"paused, and a canary":    {[]*plan.Plan{{Paused: true, Objects: []plan.Object{canary}}}, CountedRestarts{Promoted: 4, Paused: 1}},
		"paused, and incomplete":  {[]*plan.Plan{{Paused: true, Incomplete: true}}, CountedRestarts{Unknown: "not all was answered in time", Paused: 1}},
		"paused, without a pod":   {[]*plan.Plan{{Paused: true}}, CountedRestarts{}},
		"both paused":             {[]*plan.Plan{{Paused: true, Objects: []plan.Object{restart}}, {Paused: true, Objects: []plan.Object{canary}}}, CountedRestarts{Pods: 2, Promoted: 4, Paused: 2}},
		"one paused, one stays":   {[]*plan.Plan{{Paused: true, Objects: []plan.Object{restart}}, {}}, CountedRestarts{Pods: 2, Paused: 1}},
		"one paused of two":       {[]*plan.Plan{{Paused: true, Objects: []plan.Object{restart}}, {Objects: []plan.Object{restart}}}, CountedRestarts{Pods: 4}},
		"one paused, one unknown": {[]*plan.Plan{{Paused: true, Objects: []plan.Object{restart}}, {Kind: "App", Name: "api", Incomplete: true}}, CountedRestarts{Pods: 2, Unknown: "App api: not all was answered in time"}},
	} {
		if got := PlanOf(c.plans...).CountRestarts(); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// TestSummary has the effects of a plan as a sentence.
func TestSummary(t *testing.T) {
	for want, objects := range map[string]Objects{
		"No object changes.": {}, "1 object changes.": {Changed: 1}, "2 objects change, 1 object is created, 3 objects are deleted.": {Created: 1, Changed: 2, Deleted: 3},
	} {
		if got := (&Plan{Objects: objects}).Summary(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestRollout has the times of the pods, and a guess of the end.
func TestRollout(t *testing.T) {
	s := cases()["progressing"]
	for i := range s.Pods {
		s.Pods[i].CreationTimestamp = before(time.Duration(60-i) * time.Second)
		if podReady(&s.Pods[i]) {
			s.Pods[i].Status.Conditions[0].LastTransitionTime = before(time.Duration(30-i) * time.Second)
		}
	}
	r := RolloutOf(s)
	if r == nil || r.Version != "1.17.0" || r.Wanted != 6 || len(r.Ready) != 2 || r.Elapsed != 60*time.Second || r.Left != 0 {
		t.Fatalf("the rollout is %+v", r)
	}
	if RolloutOf(cases()["ready"]) != nil {
		t.Error("a rollout that has finished is drawn")
	}
}

// TestRolloutOfOldPods has pods that are older than what is going on: a rollout back to a revision whose pods were kept, also after a failed rollout, a larger
// number of pods before and after the Deployment's controller has seen it, and pods that were lost.
func TestRolloutOfOldPods(t *testing.T) {
	const week = 7 * 24 * time.Hour
	progressing := func(reason string) appsv1.DeploymentCondition {
		return appsv1.DeploymentCondition{Type: appsv1.DeploymentProgressing, Reason: reason}
	}
	for name, c := range map[string]struct {
		condition appsv1.DeploymentCondition
		// seen is the generation that the Deployment's controller has seen, earlier how many pods of the other revision are left.
		seen    int64
		earlier int
		// old is how many pods are ready since a week, and fresh are since when further pods are ready, in seconds.
		old   int
		fresh []int
		// unready is since when the resource is not ready, written since when the Deployment has its template, unknown if it is zero.
		unready, written time.Duration
		want             *Rollout
	}{
		"back to kept pods": {progressing("ReplicaSetUpdated"), 2, 2, 2, []int{30}, time.Minute, 0, &Rollout{
			Version: "1.17.0", Wanted: 6, Elapsed: time.Minute, Ready: []time.Duration{0, 0, 30 * time.Second},
		}},
		"a rate": {progressing("ReplicaSetUpdated"), 2, 1, 2, []int{40, 30, 20}, time.Minute, 0, &Rollout{
			Version: "1.17.0", Wanted: 6, Elapsed: time.Minute, Left: 20 * time.Second, Ready: []time.Duration{0, 0, 20 * time.Second, 30 * time.Second, 40 * time.Second},
		}},
		"no rate": {progressing("ReplicaSetUpdated"), 2, 1, 3, nil, time.Minute, 0, &Rollout{
			Version: "1.17.0", Wanted: 6, Elapsed: time.Minute, Ready: []time.Duration{0, 0, 0},
		}},
		"before the first progress": {progressing("NewReplicaSetAvailable"), 2, 2, 1, nil, time.Minute, 0, &Rollout{
			Version: "1.17.0", Wanted: 6, Elapsed: time.Minute, Ready: []time.Duration{0},
		}},
		"scaled, not seen yet": {progressing("NewReplicaSetAvailable"), 1, 0, 2, nil, time.Minute, 0, &Rollout{
			Version: "1.17.0", Wanted: 6, Elapsed: time.Minute, Ready: []time.Duration{0, 0},
		}},
		"back after two hours without success": {progressing("ReplicaSetUpdated"), 2, 1, 2, []int{40, 30, 20}, 2 * time.Hour, time.Minute, &Rollout{
			Version: "1.17.0", Wanted: 6, Elapsed: time.Minute, Left: 20 * time.Second, Ready: []time.Duration{0, 0, 20 * time.Second, 30 * time.Second, 40 * time.Second},
		}},
		"back and forth while it is not ready": {progressing("ReplicaSetUpdated"), 2, 1, 1, []int{5400, 30}, 2 * time.Hour, time.Minute, &Rollout{
			Version: "1.17.0", Wanted: 6, Elapsed: time.Minute, Ready: []time.Duration{0, 0, 30 * time.Second},
		}},
		"not ready after the change": {progressing("ReplicaSetUpdated"), 2, 1, 2, []int{30}, 50 * time.Second, time.Minute, &Rollout{
			Version: "1.17.0", Wanted: 6, Elapsed: time.Minute, Ready: []time.Duration{0, 0, 30 * time.Second},
		}},
		"pods after the change": {progressing("ReplicaSetUpdated"), 2, 1, 0, []int{50, 30}, 2 * time.Hour, time.Minute, &Rollout{
			Version: "1.17.0", Wanted: 6, Elapsed: 50 * time.Second, Ready: []time.Duration{0, 20 * time.Second},
		}},
		"a clock that is ahead": {progressing("ReplicaSetUpdated"), 2, 1, 0, []int{50, 30}, time.Minute, -time.Minute, &Rollout{
			Version: "1.17.0", Wanted: 6, Elapsed: 50 * time.Second, Ready: []time.Duration{0, 20 * time.Second},
		}},
		"scaled":    {progressing("NewReplicaSetAvailable"), 2, 0, 2, []int{10}, time.Minute, 0, nil},
		"lost pods": {progressing("NewReplicaSetAvailable"), 2, 0, 5, nil, time.Minute, 0, nil},
	} {
		s := cases()["progressing"]
		s.Resource.Status.Conditions[0].LastTransitionTime = before(c.unready)
		s.Pods = nil
		for i := range c.old + len(c.fresh) + c.earlier {
			set, since := "cart-7d9c4", week
			switch {
			case i >= c.old+len(c.fresh):
				set = "cart-6c9f2"
			case i >= c.old:
				since = time.Duration(c.fresh[i-c.old]) * time.Second
			}
			pod := newPod(fmt.Sprintf("%s-%d", set, i), set, "node-1", running)
			pod.CreationTimestamp, pod.Status.Conditions[0].LastTransitionTime = before(since), before(since)
			s.Pods = append(s.Pods, pod)
		}
		d := &s.Deployments[0]
		d.Status.Conditions, d.Status.ObservedGeneration = []appsv1.DeploymentCondition{c.condition}, c.seen
		d.Status.UpdatedReplicas = int32(c.old + len(c.fresh))
		d.Status.Replicas = int32(len(s.Pods))
		if c.written != 0 {
			template := &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:template":{}}}`)}
			d.ManagedFields = []metav1.ManagedFieldsEntry{{Time: ptr.To(before(c.written)), FieldsV1: template}}
		}
		if diff := cmp.Diff(c.want, RolloutOf(s)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestHostilePage checks that no view of the page has an invisible part of a text of others.
func TestHostilePage(t *testing.T) {
	s := cases()["image"]
	withIngress(t, s, hostileMarkup)
	s.Resource.Image, s.Resource.Endpoint, s.Resource.Size = hostileMarkup, hostileMarkup, hostileMarkup
	for i := range s.Pods {
		s.Pods[i].Name, s.Pods[i].Spec.NodeName = hostileMarkup, hostileMarkup
	}
	s.Events[0].Message, s.Events[0].Reason = hostileMarkup, hostileMarkup
	s.Resource.Status.Pending = []string{hostileMarkup, hostileMarkup}
	lines, _ := PodLines(s)
	text := fmt.Sprintf("%+v %+v %+v %+v %+v %+v %+v", WhyOf(s, 3), FactsOf(s), WayOf(s), PodRows(s), lines, HappenedOf(s, 5), RowOf(&s.Resource))
	if strings.ContainsAny(text, "\u202e\x1b") || !strings.Contains(text, "<script>") {
		t.Errorf("%q", text)
	}
}
