package tiers

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/health"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// The ways in which a workload object can be doing.
var (
	absent    = Availability{observed: true}
	foreign   = Availability{exists: true, observed: true}
	unknown   = Availability{exists: true, owned: true}
	down      = Availability{exists: true, owned: true, observed: true}
	available = Availability{exists: true, owned: true, observed: true, available: true}
)

var (
	errTaken   = reconciler.Stalled(appv1.ReasonResourceExists, "Deployment identity belongs to another owner")
	errRefused = reconciler.Stalled(appv1.ReasonInvalid, "image is missing")
	errWaiting = reconciler.Waiting(appv1.ReasonProgressing, "StatefulSet db is being replaced")
)

// The indexes of the tiers.
const (
	database0 = iota
	identity1
	front2
)

// planOf returns the plan of a CloudManager whose tiers are doing so, and have their names from their roles. None of them has an
// object of an earlier name.
func planOf(tiers ...Availability) *Plan {
	cm := &appv1.CloudManager{ObjectMeta: metav1.ObjectMeta{Name: "cm", Namespace: "default", UID: "cm-uid", Generation: 3}}
	p := &Plan{CloudManager: cm}
	for i, row := range Rows {
		component := row.Role.Component(cm)
		component.Name, component.Image = string(row.Role), "new"
		p.Tiers = append(p.Tiers, State{Row: row, Name: string(row.Role), Availability: tiers[i]})
		p.Tiers[i].Report.Pods.Ready = tiers[i].available
	}
	return p
}

// rename gives the tiers at some indexes an object of an earlier name, with a record.
func (p *Plan) rename(indexes ...int) *Plan {
	for _, i := range indexes {
		t := &p.Tiers[i]
		t.Previous = []client.Object{withName(&appsv1.Deployment{}, "old-"+t.Name)}
		t.PreviousSpec = fmt.Sprintf(`{"name":"old-%s","image":"old","storage":{"size":"1Gi"}}`, t.Name)
		if i != database0 {
			t.PreviousSpec = fmt.Sprintf(`{"name":"old-%s","image":"old"}`, t.Name)
		}
	}
	return p
}

// lacking takes the Service of a tier away.
func lacking(t *State) { t.Service.Lacking = true }

// lent gives the clients of a tier's former Service time to follow.
func lent(t *State) { t.Service.Grace = 20 * time.Second }

// lend adds to the objects of earlier names of the tier at an index a Service that stays for its clients.
func (p *Plan) lend(i int) *Plan {
	return p.with(i, func(t *State) {
		t.Previous = append(t.Previous, withName(&corev1.Service{}, "old-"+t.Name))
		lent(t)
	})
}

// with changes the tier at an index.
func (p *Plan) with(i int, change func(*State)) *Plan {
	change(&p.Tiers[i])
	return p
}

// componentNames returns the names of the components of a CloudManager.
func componentNames(cm *appv1.CloudManager) string {
	if cm == nil {
		return ""
	}
	var names []string
	for _, row := range Rows {
		names = append(names, row.Role.Component(cm).Name)
	}
	return strings.Join(names, " ")
}

// TestTierRows checks that each gate has only tiers that are applied before, so that its outcome is known when the gate is asked, and
// that every tier, phase and condition is there once.
func TestTierRows(t *testing.T) {
	var before []resource.Tier
	phases, conditions := map[appv1.Phase]bool{}, map[string]bool{}
	for _, row := range Rows {
		for _, role := range row.after {
			if !slices.Contains(before, role) {
				t.Errorf("%s waits for %s, which is not applied before it", row.Role, role)
			}
		}
		if slices.Contains(before, row.Role) || phases[row.phase] || conditions[row.condition] {
			t.Errorf("%+v is there twice", row)
		}
		before, phases[row.phase], conditions[row.condition] = append(before, row.Role), true, true
	}
	for _, role := range []resource.Tier{resource.TierDatabase, resource.TierIdentity, resource.TierFront} {
		if !slices.Contains(before, role) {
			t.Errorf("%s has no row", role)
		}
	}
}

// TestAvailabilityOf reads the availability of workload objects from their figures.
func TestAvailabilityOf(t *testing.T) {
	cm := &appv1.CloudManager{ObjectMeta: metav1.ObjectMeta{Name: "cm", UID: "cm-uid"}}
	object := func(uid string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Generation: 2, OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "app.huolala.cn/v1", Kind: "CloudManager", Name: "cm", UID: "cm-uid", Controller: ptr.To(uid == "cm-uid")},
		}}
	}
	deployment := func(uid string, replicas *int32, observed int64, ready int32) client.Object {
		return &appsv1.Deployment{
			ObjectMeta: object(uid), Spec: appsv1.DeploymentSpec{Replicas: replicas},
			Status: appsv1.DeploymentStatus{ObservedGeneration: observed, ReadyReplicas: ready},
		}
	}
	set := func(replicas *int32, observed int64, ready int32) client.Object {
		return &appsv1.StatefulSet{
			ObjectMeta: object("cm-uid"), Spec: appsv1.StatefulSetSpec{Replicas: replicas},
			Status: appsv1.StatefulSetStatus{ObservedGeneration: observed, ReadyReplicas: ready},
		}
	}
	for name, c := range map[string]struct {
		live client.Object
		want Availability
	}{
		"none":                                      {nil, absent},
		"another owner's, with all pods":            {deployment("other", nil, 2, 1), foreign},
		"its latest generation is not observed":     {deployment("cm-uid", nil, 1, 1), unknown},
		"the default of one pod, not ready":         {deployment("cm-uid", nil, 2, 0), down},
		"the default of one pod, ready":             {deployment("cm-uid", nil, 2, 1), available},
		"half of the pods":                          {deployment("cm-uid", ptr.To[int32](4), 2, 2), down},
		"more than half of the pods":                {deployment("cm-uid", ptr.To[int32](4), 2, 3), available},
		"scaled to nothing":                         {deployment("cm-uid", ptr.To[int32](0), 2, 0), available},
		"a StatefulSet, not observed":               {set(nil, 1, 1), unknown},
		"a StatefulSet, half of the pods":           {set(ptr.To[int32](2), 2, 1), down},
		"a StatefulSet with all its pods":           {set(ptr.To[int32](2), 2, 2), available},
		"a StatefulSet with a single pod not ready": {set(nil, 2, 0), down},
	} {
		if got := AvailabilityOf(c.live, cm); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// TestDecideTier checks what is applied of a tier in each situation of the tiers before it.
func TestDecideTier(t *testing.T) {
	existed := func(i int) func(*Plan) {
		return func(p *Plan) { p.Tiers[i].Existed = true }
	}
	for name, c := range map[string]struct {
		plan     *Plan
		change   func(*Plan)
		tier     int
		want     Action
		waitsFor string
	}{
		"the database waits for nothing":         {plan: planOf(absent, absent, absent), tier: database0},
		"identity before the database":           {plan: planOf(absent, absent, absent), tier: identity1, want: Blocked, waitsFor: "db"},
		"identity once the database is there":    {plan: planOf(available, absent, absent), tier: identity1},
		"front waits for the first that is down": {plan: planOf(down, absent, absent), tier: front2, want: Blocked, waitsFor: "db"},
		"front waits for identity":               {plan: planOf(available, down, absent), tier: front2, want: Blocked, waitsFor: "identity"},
		"front once both are there":              {plan: planOf(available, available, absent), tier: front2},
		"unknown is not available":               {plan: planOf(unknown, absent, absent), tier: identity1, want: Blocked, waitsFor: "db"},
		"an existing front goes on":              {plan: planOf(down, down, down), tier: front2},
		"a front that was deleted is recreated":  {plan: planOf(down, down, absent), change: existed(front2), tier: front2},
		"a front of another owner is not new":    {plan: planOf(down, available, foreign), tier: front2, want: Blocked, waitsFor: "db"},
		"the name of identity is taken": {
			plan: planOf(available, available, absent).with(identity1, func(t *State) { t.Err = errTaken }),
			tier: front2, want: Blocked, waitsFor: "identity",
		},
		"identity is refused, and available": {
			plan: planOf(available, available, absent).with(identity1, func(t *State) { t.Err = errRefused }), tier: front2,
		},
		"the database is being replaced":     {plan: planOf(absent, available, available).rename(database0), tier: front2, want: Kept, waitsFor: "db"},
		"the new database is on its way":     {plan: planOf(unknown, available, available).rename(database0), tier: identity1, want: Kept, waitsFor: "db"},
		"the new database lacks its Service": {plan: planOf(available, available, available).rename(database0).with(database0, lacking), tier: front2, want: Kept, waitsFor: "db"},
		"its Service is another's": {
			plan: planOf(available, available, available).rename(database0).with(database0, func(t *State) { t.Err = errTaken }), tier: identity1, want: Kept, waitsFor: "db",
		},
		"a new front, and a Service is lacking": {plan: planOf(available, available, absent).with(identity1, lacking), tier: front2, want: Blocked, waitsFor: "identity"},
		"an existing front goes on without it":  {plan: planOf(available, available, available).with(identity1, lacking), tier: front2},
		"the new database is available":         {plan: planOf(available, available, available).rename(database0), tier: identity1},
		"identity too, which is new":            {plan: planOf(down, absent, available).rename(database0, identity1), tier: identity1, want: Blocked, waitsFor: "db"},
		"identity is being replaced":            {plan: planOf(available, down, available).rename(identity1), tier: front2, want: Kept, waitsFor: "identity"},
		"identity is replaced, database down":   {plan: planOf(down, down, available).rename(identity1), tier: front2, want: Kept, waitsFor: "db"},
		"front is being replaced itself":        {plan: planOf(available, available, absent).rename(front2), tier: front2},
	} {
		if c.change != nil {
			c.change(c.plan)
		}
		if got, want := c.plan.Decide(c.tier), (Decision{c.want, c.waitsFor}); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

// TestDecideTierKeepsItsPromises goes through all states of three tiers and checks what holds for every decision.
func TestDecideTierKeepsItsPromises(t *testing.T) {
	count := 0
	for _, p := range allPlans() {
		for i := range p.Tiers {
			tier, d := &p.Tiers[i], p.Decide(i)
			closed, replaced := "", false
			for _, gate := range p.Tiers[:i] {
				open := gate.Availability.available && !errors.Is(gate.Err, errTaken) && !gate.Service.Lacking
				if !open && closed == "" {
					closed = gate.Name
				}
				replaced = replaced || len(gate.Previous) > 0 && !open
			}
			isNew := !tier.Availability.owned && !tier.Existed
			count++
			switch {
			case (d.waitsFor == "") != (d.Action == Applied):
				t.Fatalf("%s of %+v: a tier waits exactly if it is not applied: %+v", tier.Name, p.Tiers, d)
			case d.Action == Applied && closed != "" && isNew:
				t.Fatalf("%s of %+v is created behind a closed gate", tier.Name, p.Tiers)
			case d.Action == Applied && replaced:
				t.Fatalf("%s of %+v is led to a tier that is not available yet", tier.Name, p.Tiers)
			case d.Action != Applied && closed == "":
				t.Fatalf("%s of %+v waits although its gate is open", tier.Name, p.Tiers)
			case d.Action != Applied && !isNew && !replaced:
				t.Fatalf("%s of %+v exists, and is not kept as the spec asks", tier.Name, p.Tiers)
			case d.Action != Applied && d.waitsFor != closed:
				t.Fatalf("%s of %+v waits for %q, want the first that is closed, %q", tier.Name, p.Tiers, d.waitsFor, closed)
			case (d.Action == Blocked) != (d.Action != Applied && isNew):
				t.Fatalf("%s of %+v: blocked are those that never existed: %+v", tier.Name, p.Tiers, d)
			}
		}
	}
	if count < 10000 {
		t.Errorf("%d decisions are not all states", count)
	}
}

// allPlans returns plans in all states of the three tiers: their availability, whether they existed, were renamed, and met an object
// of another owner.
func allPlans() []*Plan {
	var states []State
	for _, a := range []Availability{absent, foreign, unknown, down, available} {
		for bits := range 16 {
			s := State{Availability: a, Existed: bits&1 != 0}
			if bits&2 != 0 {
				s.Previous = []client.Object{nil}
			}
			if bits&4 != 0 {
				s.Err = errTaken
			}
			s.Service.Lacking = bits&8 != 0
			states = append(states, s)
		}
	}
	var plans []*Plan
	for _, db := range states {
		for _, identity := range states {
			for _, front := range states[:10] { // What comes after front does not exist: its name and error lead nowhere.
				p := planOf(absent, absent, absent)
				for i, s := range []State{db, identity, front} {
					s.Row, s.Name = p.Tiers[i].Row, p.Tiers[i].Name
					p.Tiers[i] = s
				}
				plans = append(plans, p)
			}
		}
	}
	return plans
}

// TestNoteOutcome checks what the report of a tier that waits says.
func TestNoteOutcome(t *testing.T) {
	pods := reconciler.Report{Pods: health.Verdict{Reason: appv1.ReasonProgressing, Message: "1 of 2 pods"}}
	waits := Decision{Blocked, "db"}
	for name, c := range map[string]struct {
		decided Decision
		now     Availability
		err     error
		want    string
	}{
		"applied":                          {Decision{}, down, nil, "Progressing: 1 of 2 pods"},
		"blocked, and nothing is there":    {waits, absent, nil, "DependencyNotReady: Waiting for db to be available before creating identity"},
		"blocked by another owner's":       {waits, foreign, nil, "DependencyNotReady: Waiting for db to be available before creating identity"},
		"blocked, and its spec is refused": {waits, absent, errRefused, "Progressing: 1 of 2 pods"},
		"kept, and its pods run":           {Decision{Kept, "db"}, available, nil, "Progressing: 1 of 2 pods"},
	} {
		p := planOf(absent, absent, absent)
		p.NoteOutcome(identity1, c.decided, c.now, Outcome{Report: pods, Err: c.err, LastApplied: "{}"})
		got := &p.Tiers[identity1]
		if said := got.Report.Pods.Reason + ": " + got.Report.Pods.Message; said != c.want {
			t.Errorf("%s: %s, want %s", name, said, c.want)
		}
		if got.Availability != c.now || got.Decision != c.decided || !errors.Is(got.Err, c.err) || got.LastApplied != "{}" {
			t.Errorf("%s: the outcome is not noted: %+v", name, got)
		}
	}
}

// TestSpecInForce checks which tiers a later tier is led to.
func TestSpecInForce(t *testing.T) {
	refusedWith := func(record string) func(*State) {
		return func(t *State) { t.Err, t.LastApplied = errRefused, record }
	}
	for name, c := range map[string]struct {
		plan *Plan
		tier int
		want string
	}{
		"all as the spec says":                 {planOf(available, available, available), front2, "db identity front"},
		"a new database on its way":            {planOf(down, available, available).rename(database0), identity1, "old-db identity front"},
		"a new database not created yet":       {planOf(absent, available, available).rename(database0), front2, "old-db identity front"},
		"a new database that is available":     {planOf(available, available, available).rename(database0), front2, "db identity front"},
		"database and identity on their way":   {planOf(down, absent, available).rename(database0, identity1), front2, "old-db old-identity front"},
		"a tier is not led to itself":          {planOf(down, down, down).rename(database0, identity1, front2), database0, "db identity front"},
		"nor to those after it":                {planOf(down, down, down).rename(database0, identity1, front2), identity1, "old-db identity front"},
		"the spec of the database is refused":  {planOf(available, available, available).with(database0, refusedWith(`{"name":"then","image":"a"}`)), front2, "then identity front"},
		"what is refused counts before a name": {planOf(down, down, down).rename(database0).with(database0, refusedWith(`{"name":"then","image":"a"}`)), front2, "then identity front"},
		"a record that is no spec":             {planOf(down, down, down).with(database0, refusedWith(`{"name":"then"}`)), front2, "db identity front"},
		"a record without a name":              {planOf(down, down, down).with(database0, refusedWith(`{"image":"a"}`)), front2, "db identity front"},
		"a record of nothing but a hash":       {planOf(down, down, down).with(identity1, refusedWith("sha256:"+strings.Repeat("0", 64))), front2, "db identity front"},
	} {
		before := c.plan.CloudManager.DeepCopy()
		if got := componentNames(c.plan.SpecInForce(c.tier)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if diff := cmp.Diff(before, c.plan.CloudManager); diff != "" {
			t.Errorf("%s: the CloudManager was changed:\n%s", name, diff)
		}
	}
}

// TestRecordOfOnly checks when a workload object of an earlier name says what the tier was.
func TestRecordOfOnly(t *testing.T) {
	set, deployment, service := &appsv1.StatefulSet{}, &appsv1.Deployment{}, &corev1.Service{}
	for _, obj := range []client.Object{set, deployment, service} {
		obj.SetAnnotations(map[string]string{appv1.AnnotationLastAppliedSpec: fmt.Sprintf("%T", obj)})
	}
	for name, c := range map[string]struct {
		objects []client.Object
		owns    bool
		want    string
	}{
		"none":                        {nil, true, ""},
		"a Service alone":             {[]client.Object{service}, true, ""},
		"a StatefulSet with Services": {[]client.Object{set, service, service}, true, "*v1.StatefulSet"},
		"two":                         {[]client.Object{set, deployment}, true, ""},
		"a record of another writer":  {[]client.Object{deployment, service}, false, ""},
	} {
		if got := RecordOfOnly(c.objects, func(client.Object) bool { return c.owns }); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestNeedsSecretCheck checks when a reconcile costs a read of the Secret.
func TestNeedsSecretCheck(t *testing.T) {
	for name, c := range map[string]struct {
		plan    *Plan
		checked int64
		want    bool
	}{
		"never checked":                 {planOf(available, available, available), 0, true},
		"checked for an earlier spec":   {planOf(available, available, available), 2, true},
		"checked for this spec":         {planOf(available, available, available), 3, false},
		"the database is down":          {planOf(down, available, available), 3, false},
		"there is no StatefulSet":       {planOf(absent, available, available), 3, true},
		"a pod of the front lacks one":  {planOf(available, available, down).with(front2, func(t *State) { t.LacksSecret = true }), 3, true},
		"the StatefulSet is of another": {planOf(foreign, absent, absent), 3, false},
	} {
		if c.checked > 0 {
			meta.SetStatusCondition(&c.plan.CloudManager.Status.Conditions, metav1.Condition{
				Type: appv1.ConditionPasswordInClearText, Status: metav1.ConditionFalse, Reason: "a", ObservedGeneration: c.checked,
			})
		}
		if got := c.plan.NeedsSecretCheck(); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}

// TestLacksSecret checks which pods tell that a Secret is missing.
func TestLacksSecret(t *testing.T) {
	waiting := func(reason string) corev1.Pod {
		return corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
			{Name: "main", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}},
		}}}
	}
	for name, c := range map[string]struct {
		pods []corev1.Pod
		want bool
	}{
		"no pods":                {nil, false},
		"a missing image":        {[]corev1.Pod{waiting("ImagePullBackOff")}, false},
		"a missing Secret":       {[]corev1.Pod{waiting("ImagePullBackOff"), waiting("CreateContainerConfigError")}, true},
		"nothing to complain of": {[]corev1.Pod{{}}, false},
	} {
		if got := LacksSecret(c.pods); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}

// TestRetainsPrevious checks when the volumes of a renamed database are told to stay.
func TestRetainsPrevious(t *testing.T) {
	for name, c := range map[string]struct {
		retain       *bool
		paused, want bool
	}{
		"by default": {nil, false, true},
		"stated":     {ptr.To(true), false, true},
		"not":        {ptr.To(false), false, false},
		"paused":     {nil, true, false},
	} {
		p := planOf(available, available, available)
		p.CloudManager.Spec.DB.StatefulSet.Storage.Retain = c.retain
		if c.paused {
			p.CloudManager.Spec.Paused = true
		}
		if got := p.RetainsPrevious(); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}

// TestCanRemovePrevious checks when the objects of an earlier name are removed: no sooner than nothing uses them.
func TestCanRemovePrevious(t *testing.T) {
	notReady := func(t *State) { t.Report.Pods.Ready = false }
	failed := func(t *State) { t.Err = errWaiting }
	kept := func(t *State) { t.Decision = Decision{Kept, "db"} }
	for name, c := range map[string]struct {
		plan *Plan
		want [3]bool
	}{
		"all ready":                       {planOf(available, available, available), [3]bool{true, true, true}},
		"the new one is not available":    {planOf(down, available, available), [3]bool{false, true, true}},
		"it is not known":                 {planOf(unknown, available, available), [3]bool{false, true, true}},
		"a user's pods are replaced":      {planOf(available, available, available).with(front2, notReady), [3]bool{false, false, true}},
		"identity's pods are replaced":    {planOf(available, available, available).with(identity1, notReady), [3]bool{false, true, true}},
		"the database's own are replaced": {planOf(available, available, available).with(database0, notReady), [3]bool{true, true, true}},
		"a user has an error":             {planOf(available, available, available).with(identity1, failed), [3]bool{false, false, true}},
		"it lacks its Service":            {planOf(available, available, available).with(identity1, lacking), [3]bool{true, false, true}},
		"its volumes are being retained":  {planOf(available, available, available).with(database0, func(t *State) { t.Retaining = true }), [3]bool{false, true, true}},
		"a Service's clients follow":      {planOf(available, available, available).rename(front2).lend(front2), [3]bool{false, false, false}},
		"it had no Service":               {planOf(available, available, available).rename(front2).with(front2, lent), [3]bool{false, false, true}},
		"a former user is about to go":    {planOf(available, available, available).rename(database0, identity1), [3]bool{false, true, true}},
		"a user's former Service stays":   {planOf(available, available, available).lend(front2), [3]bool{true, true, false}},
		"identity keeps its last spec":    {planOf(available, available, available).with(identity1, kept), [3]bool{false, false, true}},
		"front keeps its last spec":       {planOf(available, available, available).with(front2, kept), [3]bool{false, false, false}},
		"paused":                          {planOf(available, available, available).with(front2, func(t *State) { t.Report.Pause = reconciler.Paused }), [3]bool{true, true, false}},
	} {
		for i, want := range c.want {
			if got := c.plan.CanRemovePrevious(i); got != want {
				t.Errorf("%s: the earlier %s can go: %t, want %t", name, c.plan.Tiers[i].Name, got, want)
			}
		}
	}
}

// TestPhase checks the phase in every way in which tiers can stand.
func TestPhase(t *testing.T) {
	for name, c := range map[string]struct {
		before  appv1.Phase
		tiers   [3]Availability
		renamed int // The tier with objects of an earlier name, from 1.
		want    appv1.Phase
		ready   string
	}{
		"nothing":                    {"", [3]Availability{absent, absent, absent}, 0, appv1.PhasePending, "0/3"},
		"another owner's database":   {"", [3]Availability{foreign, absent, absent}, 0, appv1.PhaseDatabase, "0/3"},
		"the database on its way":    {appv1.PhasePending, [3]Availability{unknown, absent, absent}, 0, appv1.PhaseDatabase, "0/3"},
		"identity next":              {appv1.PhaseDatabase, [3]Availability{available, absent, absent}, 0, appv1.PhaseIdentity, "1/3"},
		"front next":                 {appv1.PhaseIdentity, [3]Availability{available, available, down}, 0, appv1.PhaseFront, "2/3"},
		"all up":                     {appv1.PhaseFront, [3]Availability{available, available, available}, 0, appv1.PhaseReady, "3/3"},
		"one falls":                  {appv1.PhaseReady, [3]Availability{available, down, available}, 0, appv1.PhaseDegraded, "2/3"},
		"one falls before it was up": {appv1.PhaseFront, [3]Availability{down, available, down}, 0, appv1.PhaseDatabase, "1/3"},
		"one was changed":            {appv1.PhaseReady, [3]Availability{available, unknown, available}, 0, appv1.PhaseReady, "before"},
		"still fallen":               {appv1.PhaseDegraded, [3]Availability{down, unknown, available}, 0, appv1.PhaseDegraded, "1/3"},
		"fallen, and changed":        {appv1.PhaseDegraded, [3]Availability{unknown, available, available}, 0, appv1.PhaseDegraded, "before"},
		"up again":                   {appv1.PhaseDegraded, [3]Availability{available, available, available}, 0, appv1.PhaseReady, "3/3"},
		"renamed":                    {appv1.PhaseReady, [3]Availability{available, absent, available}, 2, appv1.PhaseIdentity, "2/3"},
		"renamed, the old one left":  {appv1.PhaseIdentity, [3]Availability{available, available, available}, 2, appv1.PhaseIdentity, "3/3"},
	} {
		p := planOf(c.tiers[:]...)
		if c.renamed > 0 {
			p.rename(c.renamed - 1)
		}
		if phase, ready := p.nextPhase(c.before, "before"); phase != c.want || ready != c.ready {
			t.Errorf("%s: %s %s, want %s %s", name, phase, ready, c.want, c.ready)
		}
	}
}

// TestPhaseOfReplacedStatefulSet checks that a StatefulSet which is deleted to be recreated is no failure: its tier waits.
func TestPhaseOfReplacedStatefulSet(t *testing.T) {
	p := planOf(absent, available, available)
	if phase, ready := p.nextPhase(appv1.PhaseReady, "3/3"); phase != appv1.PhaseDegraded || ready != "2/3" {
		t.Errorf("deleted by others: %s %s", phase, ready)
	}
	p.Tiers[database0].Err = errWaiting
	if phase, ready := p.nextPhase(appv1.PhaseReady, "3/3"); phase != appv1.PhaseReady || ready != "3/3" {
		t.Errorf("replaced: %s %s, want what was said before", phase, ready)
	}
}

// TestSummarizeTiers checks what the report on three tiers says.
func TestSummarizeTiers(t *testing.T) {
	ready := func(message string) reconciler.Report {
		return reconciler.Report{Pods: health.Verdict{Ready: true, Reason: appv1.ReasonReady, Message: message}}
	}
	notReady := reconciler.Report{Pods: health.Verdict{Reason: "CrashLoopBackOff", Message: "it crashes", Stalled: true}}
	overridden := func(message string) reconciler.ReasonAndMessage {
		return reconciler.ReasonAndMessage{Reason: appv1.ReasonOverridden, Message: message}
	}
	all := reconciler.Report{Pods: health.Verdict{Ready: true, Reason: appv1.ReasonReady, Message: "a; b; c"}}
	for name, c := range map[string]struct {
		change func(*Plan)
		want   func(*reconciler.Report)
	}{
		"all ready": {func(*Plan) {}, func(*reconciler.Report) {}},
		"the first that is not ready tells": {
			func(p *Plan) {
				p.Tiers[identity1].Report, p.Tiers[front2].Report = notReady, reconciler.Report{Pods: health.Verdict{Reason: "Progressing", Message: "soon"}}
			},
			func(r *reconciler.Report) {
				r.Pods.Ready, r.Pods.Stalled, r.Pods.Reason, r.Pods.Message = false, true, "CrashLoopBackOff", "it crashes"
			},
		},
		"an earlier name is left": {
			func(p *Plan) { p.rename(identity1) },
			func(r *reconciler.Report) {
				r.Pods.Ready, r.Pods.Reason, r.Pods.Message = false, appv1.ReasonProgressing, "Removing old-identity, which identity replaces"
			},
		},
		"the Service of an earlier name stays for its clients": {
			func(p *Plan) { p.rename(identity1).lend(identity1) },
			func(r *reconciler.Report) {
				r.Pods.Ready, r.Pods.Reason, r.RetryAfter = false, appv1.ReasonProgressing, 20*time.Second
				r.Pods.Message = "identity replaces old-identity, which stays until the clients of its Service have had their time to follow"
			},
		},
		"not ready, with an earlier name": {
			func(p *Plan) { p.rename(database0).Tiers[front2].Report = notReady },
			func(r *reconciler.Report) {
				r.Pods.Ready, r.Pods.Stalled, r.Pods.Reason, r.Pods.Message = false, true, "CrashLoopBackOff", "it crashes"
			},
		},
		"changes of two": {
			func(p *Plan) {
				p.Tiers[database0].Report.Event.Action, p.Tiers[database0].Report.Event.Changes = "Created", "Created StatefulSet db"
				p.Tiers[front2].Report.Event.Action, p.Tiers[front2].Report.Event.Changes = "Configured", "Configured Deployment front"
			},
			func(r *reconciler.Report) {
				r.Event.Action, r.Event.Changes = "Created", "Created StatefulSet db; Configured Deployment front"
			},
		},
		"a repair of an earlier name": {
			func(p *Plan) {
				p.Tiers[identity1].Report.Event.Action, p.Tiers[identity1].Report.Event.Changes = "Created", "Created Deployment id"
				p.NoteRepair(identity1, reconciler.Event{Action: "Repaired", Changes: "Repaired Deployment old"})
				p.NoteRepair(front2, reconciler.Event{Action: "Repaired", Changes: "Repaired Deployment web"})
				p.NoteRepair(database0, reconciler.Event{})
			},
			func(r *reconciler.Report) {
				r.Event.Action, r.Event.Changes = "Created", "Created Deployment id; Repaired Deployment old; Repaired Deployment web"
			},
		},
		"one is paused and pends": {
			func(p *Plan) {
				p.Tiers[front2].Report.Pause, p.Tiers[identity1].Report.Pause = reconciler.Paused, reconciler.Pending
			},
			func(r *reconciler.Report) { r.Pause = reconciler.Pending },
		},
		"the first warning, the soonest time": {
			func(p *Plan) {
				p.Tiers[identity1].Report.Event.Warning, p.Tiers[front2].Report.Event.Warning = "long", "longer"
				p.Tiers[identity1].Report.RetryAfter, p.Tiers[front2].Report.RetryAfter = time.Minute, time.Second
			},
			func(r *reconciler.Report) { r.Event.Warning, r.RetryAfter = "long", time.Second },
		},
		"notes of one reason": {
			func(p *Plan) {
				p.Tiers[database0].Report.Note, p.Tiers[front2].Report.Note = overridden("One."), overridden("Two.")
				p.Tiers[identity1].Report.Note = reconciler.ReasonAndMessage{Reason: appv1.ReasonReplicasIgnored, Message: "Three."}
			},
			func(r *reconciler.Report) { r.Note = overridden("One. Two.") },
		},
		"overridden fields before any other note": {
			func(p *Plan) {
				p.Tiers[database0].Report.Note = reconciler.ReasonAndMessage{Reason: appv1.ReasonVolumeResizeFailed, Message: "One."}
				p.Tiers[identity1].Report.Note, p.Tiers[front2].Report.Note = overridden("Two."), overridden("Three.")
			},
			func(r *reconciler.Report) { r.Note = overridden("Two. Three.") },
		},
		"the first that waits tells": {
			func(p *Plan) {
				p.Tiers[identity1].Decision = Decision{Kept, "db"}
				p.Tiers[front2].Decision = Decision{Blocked, "identity"}
			},
			func(r *reconciler.Report) {
				r.InForce = reconciler.Earlier
				r.Why = reconciler.ReasonAndMessage{
					Reason: appv1.ReasonDependencyNotReady, Message: "Waiting for db to be available before updating identity, which keeps its last applied spec",
				}
			},
		},
	} {
		p := planOf(available, available, available)
		for i, message := range []string{"a", "b", "c"} {
			p.Tiers[i].Report = ready(message)
		}
		c.change(p)
		want := all
		c.want(&want)
		if diff := cmp.Diff(want, p.summarizeTiers()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestReadyCondition checks the condition of one tier.
func TestReadyCondition(t *testing.T) {
	for name, c := range map[string]struct {
		report reconciler.Report
		err    error
		want   string
	}{
		"ready":                    {reconciler.Report{Pods: health.Verdict{Ready: true, Reason: "Ready", Message: "1 of 1 pods"}}, nil, "True Ready: 1 of 1 pods"},
		"not ready":                {reconciler.Report{Pods: health.Verdict{Reason: "Progressing", Message: "0 of 1 pods"}}, nil, "False Progressing: 0 of 1 pods"},
		"refused, with ready pods": {reconciler.Report{Pods: health.Verdict{Ready: true, Reason: "Ready", Message: "1 of 1 pods"}}, errRefused, "False Invalid: image is missing"},
		"waiting":                  {reconciler.Report{}, errWaiting, "False Progressing: StatefulSet db is being replaced"},
		"paused, and a change waits": {
			reconciler.Report{Pause: reconciler.Pending, Pods: health.Verdict{Ready: true}}, nil,
			"Unknown Paused: A change of identity waits until the CloudManager is resumed: status.pending has it",
		},
		"paused, and nothing waits": {reconciler.Report{Pause: reconciler.Paused, Pods: health.Verdict{Ready: true, Reason: "Ready", Message: "1 of 1 pods"}}, nil, "True Ready: 1 of 1 pods"},
	} {
		p := planOf(available, available, available)
		p.Tiers[identity1].Report, p.Tiers[identity1].Err = c.report, c.err
		got := p.Tiers[identity1].readyCondition(7)
		if said := fmt.Sprintf("%s %s: %s", got.Status, got.Reason, got.Message); said != c.want {
			t.Errorf("%s: %s, want %s", name, said, c.want)
		}
		if got.Type != appv1.ConditionIdentityReady || got.ObservedGeneration != 7 {
			t.Errorf("%s: it is the condition %s of generation %d", name, got.Type, got.ObservedGeneration)
		}
	}
}

// TestReadyConditionOfKeptTier checks that a tier that keeps its last applied spec is not ready for the present one.
func TestReadyConditionOfKeptTier(t *testing.T) {
	p := planOf(available, available, available)
	p.Tiers[identity1].Decision = Decision{Kept, "db"}
	const want = "False DependencyNotReady: Waiting for db to be available before updating identity, which keeps its last applied spec"
	if c := p.Tiers[identity1].readyCondition(7); fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message) != want {
		t.Errorf("the condition is %+v", c)
	}
}

// TestReportTiers checks the status that a plan leads to, and the event that tells of it.
func TestReportTiers(t *testing.T) {
	removed := apply.ChangeSet{{Action: apply.Deleted, Kind: "Deployment", Name: "old"}}
	for name, c := range map[string]struct {
		before             appv1.Phase
		plan               *Plan
		removed            apply.ChangeSet
		want               appv1.Phase
		event, note, lines string
	}{
		"new":                        {"", planOf(absent, absent, absent), nil, appv1.PhasePending, "", "", ""},
		"the first phase":            {"", planOf(unknown, absent, absent), nil, appv1.PhaseDatabase, "Updated", "phase Database", ""},
		"the next phase":             {appv1.PhaseDatabase, planOf(available, absent, absent), nil, appv1.PhaseIdentity, "Updated", "phase Identity", ""},
		"the same phase":             {appv1.PhaseReady, planOf(available, available, available), nil, appv1.PhaseReady, "", "", ""},
		"an earlier name is removed": {appv1.PhaseReady, planOf(available, available, available), removed, appv1.PhaseReady, "Deleted", "", "Deleted Deployment old"},
		"removed, with other changes": {
			appv1.PhaseReady, planOf(available, available, available).with(front2, func(t *State) {
				t.Report.Event.Action, t.Report.Event.Changes = "Repaired", "Repaired Service front"
			}), removed, appv1.PhaseReady, "Deleted", "", "Repaired Service front; Deleted Deployment old",
		},
	} {
		c.plan.Tiers[identity1].Status = appv1.WorkloadStatus{Ready: "1/2", Endpoint: "identity.default.svc:80", Rendering: 1, LatestRendering: 2}
		status, report := c.plan.Report(&appv1.CloudManagerStatus{Phase: c.before}, c.removed)
		if status.Phase != c.want || report.Event.Reason != c.event || report.Event.Note != c.note || report.Event.Changes != c.lines {
			t.Errorf("%s: phase %s, event %q, %q, %q", name, status.Phase, report.Event.Reason, report.Event.Note, report.Event.Changes)
		}
		want := appv1.TierStatus{Name: "identity", Ready: "1/2", Endpoint: "identity.default.svc:80", Rendering: 1, LatestRendering: 2}
		if diff := cmp.Diff(want, status.Identity); diff != "" {
			t.Errorf("%s: the status of identity (-want +got):\n%s", name, diff)
		}
		report.SetConditions(&status.Conditions)
		for _, row := range Rows {
			if meta.FindStatusCondition(status.Conditions, row.condition) == nil {
				t.Errorf("%s: the condition %s is missing", name, row.condition)
			}
		}
	}
}

// TestTierErrors checks that no error of a tier is lost.
func TestTierErrors(t *testing.T) {
	p := planOf(down, down, down)
	p.Tiers[database0].Err, p.Tiers[front2].Err = errRefused, errWaiting
	if got := p.Errors(); len(got) != 3 || !errors.Is(got[0], errRefused) || got[1] != nil || !errors.Is(got[2], errWaiting) {
		t.Errorf("the errors are %v", got)
	}
}
