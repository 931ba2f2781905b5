package tiers

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/health"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// TestSpecOfPrevious checks by what the objects of an earlier name are repaired: by their own record, with the tiers that they use,
// and only while they are needed and nothing else has their names.
func TestSpecOfPrevious(t *testing.T) {
	deleted := func(t *State) { t.Previous[0].SetDeletionTimestamp(&metav1.Time{}) }
	renamedTo := func(i int, name string) func(*Plan) {
		return func(p *Plan) { Rows[i].Role.Component(p.CloudManager).Name = name }
	}
	for name, c := range map[string]struct {
		plan   *Plan
		change func(*Plan)
		tier   int
		want   string
	}{
		"nothing was renamed":                {plan: planOf(available, available, available), tier: front2},
		"the new database is on its way":     {plan: planOf(down, available, available).rename(database0), tier: database0, want: "old-db identity front"},
		"no other tier is renamed":           {plan: planOf(down, available, available).rename(database0), tier: identity1},
		"users are not replaced yet":         {plan: planOf(available, available, down).rename(database0), tier: database0, want: "old-db identity front"},
		"it is about to be removed":          {plan: planOf(available, available, available).rename(database0), tier: database0},
		"all are renamed":                    {plan: planOf(down, absent, absent).rename(database0, identity1, front2), tier: front2, want: "old-db old-identity old-front"},
		"it uses the former database":        {plan: planOf(available, down, available).rename(database0, identity1), tier: identity1, want: "old-db old-identity front"},
		"paused":                             {plan: planOf(down, down, down).rename(front2).with(front2, func(t *State) { t.Report.Pause = reconciler.Paused }), tier: front2},
		"several earlier ones":               {plan: planOf(down, down, down).rename(front2).with(front2, func(t *State) { t.PreviousSpec = "" }), tier: front2},
		"it is being deleted":                {plan: planOf(down, down, down).rename(front2).with(front2, deleted), tier: front2},
		"a record that is no spec":           {plan: planOf(down, down, down).rename(front2).with(front2, func(t *State) { t.PreviousSpec = "{}" }), tier: front2},
		"it has the Service of the new one":  {plan: planOf(down, down, down).rename(front2).with(front2, func(t *State) { t.SharesService = true }), change: renamedTo(front2, "front"), tier: front2, want: "db identity old-front"},
		"another tier has its name now":      {plan: planOf(down, down, down).rename(front2), change: renamedTo(identity1, "old-front"), tier: front2},
		"the database has its name now":      {plan: planOf(down, down, down).rename(identity1), change: renamedTo(database0, "old-identity"), tier: identity1},
		"a tier has the name of its Service": {plan: planOf(down, down, down).rename(database0), change: renamedTo(front2, "old-db-headless"), tier: database0},
		"the last spec of the new one has its Service": {
			plan: planOf(down, down, down).rename(front2).with(front2, func(t *State) {
				t.PreviousSpec = `{"name":"old-front","image":"old","service":{"name":"shop"}}`
				t.LastApplied = `{"name":"front","image":"new","service":{"name":"shop"}}`
			}), tier: front2,
		},
		"the last spec of the new one has its Service, which is held": {
			plan: planOf(down, down, down).rename(front2).with(front2, func(t *State) {
				t.PreviousSpec = `{"name":"old-front","image":"old","service":{"name":"shop"}}`
				t.LastApplied, t.Service.Held = `{"name":"front","image":"new","service":{"name":"shop"}}`, true
			}), tier: front2, want: "db identity old-front",
		},
		"another tier had its name before": {
			plan: planOf(down, down, down).rename(identity1, front2).with(identity1, func(t *State) { t.Previous[0].SetName("old-front") }),
			tier: front2,
		},
	} {
		if c.change != nil {
			c.change(c.plan)
		}
		if got := componentNames(c.plan.SpecOfPrevious(c.tier)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestPreviousObjects checks which of the objects that a CloudManager controls are of an earlier name, and the tier that each is of.
func TestPreviousObjects(t *testing.T) {
	cm := &appv1.CloudManager{ObjectMeta: metav1.ObjectMeta{Name: "cm"}}
	cm.Spec.DB.StatefulSet.Name = "db"
	cm.DefaultNames()
	labelled := func(obj client.Object, name string, role resource.Tier) client.Object {
		obj.SetLabels(map[string]string{appv1.LabelComponent: string(role)})
		return withName(obj, name)
	}
	part := func(name string) map[string]string { return map[string]string{appv1.LabelPart: name} }
	owned := []client.Object{
		labelled(&appsv1.StatefulSet{}, "db", "db"), labelled(&corev1.Service{}, "db", "db"), labelled(&corev1.Service{}, "db-headless", "db"),
		labelled(&appsv1.Deployment{}, "cm-identity", "identity"), labelled(&appsv1.Deployment{}, "cm-front", "front"), labelled(&corev1.Service{}, "cm-front", "front"),
		labelled(&appsv1.StatefulSet{}, "old", "db"), labelled(&corev1.Service{}, "old-headless", "db"),
		labelled(&appsv1.Deployment{}, "db", "identity"), // A Deployment of the database's name is none of the database's.
		labelled(&corev1.Service{}, "web", "front"), labelled(&appsv1.Deployment{}, "edited", "theirs"),
		labelled(&appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Selector: &metav1.LabelSelector{MatchLabels: part("data")}}}, "data", "mysql"),
		labelled(&corev1.Service{Spec: corev1.ServiceSpec{Selector: part("data")}}, "data", "mysql"),
		labelled(&appsv1.Deployment{Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: part("shop")}}}, "shop", "front"),
		labelled(&corev1.Service{Spec: corev1.ServiceSpec{Selector: part("shop")}}, "shop", "theirs"), labelled(&corev1.Service{}, "unknown", "theirs"),
		labelled(&corev1.Service{Spec: corev1.ServiceSpec{Selector: part("cm-front")}}, "renamed", "theirs"),   // Its Deployment is the present one.
		labelled(&appsv1.StatefulSet{}, "cm-front", "db"), labelled(&corev1.Service{}, "cm-identity", "front"), // Another tier wants the name of a Service.
	}
	got := map[resource.Tier]string{}
	for role, objects := range PreviousObjects(cm, owned, ownSigns) {
		for _, obj := range objects {
			got[role] += strings.TrimPrefix(fmt.Sprintf("%T %s;", obj, obj.GetName()), "*v1.")
		}
	}
	for role, want := range map[resource.Tier]string{
		resource.TierDatabase: "StatefulSet old;Service old-headless;StatefulSet data;Service data;Service unknown;StatefulSet cm-front;",
		resource.TierIdentity: "Deployment db;Deployment edited;",
		resource.TierFront:    "Service web;Deployment shop;Service shop;Service renamed;Service cm-identity;",
	} {
		if got[role] != want {
			t.Errorf("%s: %s, want %s", role, got[role], want)
		}
	}
	if len(got) != 3 {
		t.Errorf("there are tiers %v", got)
	}
}

// simulated is a workload object of a CloudManager in a cluster of one: it is of a tier, uses objects of other tiers by their names,
// and is available or not.
type simulated struct {
	role      resource.Tier
	uses      []string
	available bool
	// unserved is true while the API server refuses its Service.
	unserved bool
}

// simulation is a cluster that does what a plan decides.
type simulation struct {
	t       *testing.T
	cm      *appv1.CloudManager
	objects map[string]*simulated
	existed map[string]bool
	// refuses is true while the API server refuses new Services.
	refuses bool
}

// TestPlanReplacesTiers has a CloudManager created, renamed and shaken in random order: no object is ever led to one that is not there,
// and once the cluster is quiet all is ready, and nothing of an earlier name is left.
func TestPlanReplacesTiers(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		s := &simulation{t: t, cm: planOf(absent, absent, absent).CloudManager, objects: map[string]*simulated{}, existed: map[string]bool{}}
		for step := range 40 {
			row := Rows[random.IntN(len(Rows))]
			switch random.IntN(6) {
			case 0:
				row.Role.Component(s.cm).Name = fmt.Sprintf("%s-%d", row.Role, random.IntN(4))
			case 1, 2, 3:
				for _, name := range s.names() {
					s.objects[name].available = s.objects[name].available || random.IntN(2) == 0
				}
			case 4:
				for _, name := range s.names() {
					s.objects[name].available = random.IntN(3) > 0
				}
			case 5:
				s.refuses = random.IntN(2) == 0
			}
			s.reconcile(fmt.Sprintf("seed %d, step %d", seed, step))
		}
		var phase appv1.Phase
		for range 10 {
			s.refuses = false
			for _, obj := range s.objects {
				obj.available = true
			}
			phase = s.reconcile(fmt.Sprintf("seed %d, at the end", seed))
		}
		if phase != appv1.PhaseReady || len(s.objects) != len(Rows) {
			t.Fatalf("seed %d: the phase is %s, with %v of %s", seed, phase, s.names(), componentNames(s.cm))
		}
	}
}

func (s *simulation) names() []string {
	var names []string
	for name := range s.objects {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// observe returns the plan that begins with what is in the cluster.
func (s *simulation) observe() *Plan {
	p := &Plan{CloudManager: s.cm}
	for _, row := range Rows {
		tier := State{Row: row, Name: row.Role.Component(s.cm).Name}
		tier.Availability, tier.Existed = s.availability(tier.Name), s.existed[tier.Name]
		var records []string
		for _, name := range s.names() {
			if s.objects[name].role == row.Role && name != tier.Name {
				tier.Previous = append(tier.Previous, withName(&appsv1.Deployment{}, name))
				records = append(records, fmt.Sprintf(`{"name":%q,"image":"a"}`, name))
				if row.Role == resource.TierDatabase {
					records[len(records)-1] = fmt.Sprintf(`{"name":%q,"image":"a","storage":{"size":"1Gi"}}`, name)
				}
			}
		}
		if len(records) == 1 {
			tier.PreviousSpec = records[0]
		}
		p.Tiers = append(p.Tiers, tier)
	}
	return p
}

func (s *simulation) availability(name string) Availability {
	switch obj := s.objects[name]; {
	case obj == nil:
		return absent
	case obj.available:
		return available
	}
	return down
}

// reconcile does what a plan decides, and checks that each object that is written uses what is there.
func (s *simulation) reconcile(when string) appv1.Phase {
	s.t.Helper()
	p := s.observe()
	for i := range p.Tiers {
		tier, d := &p.Tiers[i], p.Decide(i)
		if d.Action == Applied {
			s.apply(when, tier, p.SpecInForce(i))
		}
		obj := s.objects[tier.Name]
		if obj != nil && obj.unserved {
			obj.unserved = s.refuses // The Service is applied each time.
		}
		now := s.availability(tier.Name)
		p.NoteOutcome(i, d, now, Outcome{
			Report: reconciler.Report{Pods: health.Verdict{Ready: now.available}}, Service: ServiceState{Lacking: obj == nil || obj.unserved},
		})
	}
	for i := range p.Tiers {
		if !p.CanRemovePrevious(i) {
			continue
		}
		for _, obj := range p.Tiers[i].Previous {
			delete(s.objects, obj.GetName())
		}
	}
	for _, name := range s.names() {
		for _, used := range s.objects[name].uses {
			if s.objects[used] == nil {
				s.t.Fatalf("%s: %s uses %s, which is not there: %v", when, name, used, s.names())
			}
		}
	}
	phase, _ := p.nextPhase("", "")
	return phase
}

// apply writes a tier's object as the specs in force mean it.
func (s *simulation) apply(when string, tier *State, cm *appv1.CloudManager) {
	s.t.Helper()
	var uses []string
	for _, role := range tier.after {
		uses = append(uses, role.Component(cm).Name)
	}
	before := s.objects[tier.Name]
	if before != nil && slices.Equal(before.uses, uses) {
		return
	}
	for i, used := range uses {
		moved := before == nil || before.uses[i] != used
		if moved && (s.objects[used] == nil || before != nil && (!s.objects[used].available || s.objects[used].unserved)) {
			s.t.Fatalf("%s: %s is led to %s, which is not available, or has no Service", when, tier.Name, used)
		}
	}
	after := &simulated{role: tier.Role, uses: uses, unserved: s.refuses}
	if before != nil {
		after.unserved = before.unserved && s.refuses
	}
	s.objects[tier.Name], s.existed[tier.Name] = after, true
}
