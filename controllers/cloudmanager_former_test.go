package controllers

import (
	"errors"
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
	deleted := func(t *tierState) { t.previous[0].SetDeletionTimestamp(&metav1.Time{}) }
	renamedTo := func(i int, name string) func(*tiersPlan) {
		return func(p *tiersPlan) { tierRows[i].role.Component(p.cm).Name = name }
	}
	for name, c := range map[string]struct {
		plan   *tiersPlan
		change func(*tiersPlan)
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
		"paused":                             {plan: planOf(down, down, down).rename(front2).with(front2, func(t *tierState) { t.report.Pause = reconciler.Paused }), tier: front2},
		"several earlier ones":               {plan: planOf(down, down, down).rename(front2).with(front2, func(t *tierState) { t.previousSpec = "" }), tier: front2},
		"it is being deleted":                {plan: planOf(down, down, down).rename(front2).with(front2, deleted), tier: front2},
		"a record that is no spec":           {plan: planOf(down, down, down).rename(front2).with(front2, func(t *tierState) { t.previousSpec = "{}" }), tier: front2},
		"another tier has its name now":      {plan: planOf(down, down, down).rename(front2), change: renamedTo(identity1, "old-front"), tier: front2},
		"the database has its name now":      {plan: planOf(down, down, down).rename(identity1), change: renamedTo(database0, "old-identity"), tier: identity1},
		"a tier has the name of its Service": {plan: planOf(down, down, down).rename(database0), change: renamedTo(front2, "old-db-headless"), tier: database0},
		"another tier had its name before": {
			plan: planOf(down, down, down).rename(identity1, front2).with(identity1, func(t *tierState) { t.previous[0].SetName("old-front") }),
			tier: front2,
		},
	} {
		if c.change != nil {
			c.change(c.plan)
		}
		if got := componentNames(c.plan.specOfPrevious(c.tier)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestPreviousObjects checks which of the objects that a CloudManager controls are of an earlier name, and the tier that each is of.
func TestPreviousObjects(t *testing.T) {
	cm, _ := databaseOf(t, "1Gi")
	labelled := func(obj client.Object, name string, role resource.Tier) client.Object {
		obj.SetLabels(map[string]string{appv1.LabelComponent: string(role)})
		return withName(obj, name)
	}
	owned := []client.Object{
		labelled(&appsv1.StatefulSet{}, "db", "db"), labelled(&corev1.Service{}, "db", "db"), labelled(&corev1.Service{}, "db-headless", "db"),
		labelled(&appsv1.Deployment{}, "cm-identity", "identity"), labelled(&appsv1.Deployment{}, "cm-front", "front"), labelled(&corev1.Service{}, "cm-front", "front"),
		labelled(&appsv1.StatefulSet{}, "old", "db"), labelled(&corev1.Service{}, "old-headless", "db"),
		labelled(&appsv1.Deployment{}, "db", "identity"), // A Deployment of the database's name is none of the database's.
		labelled(&corev1.Service{}, "web", "front"), labelled(&appsv1.Deployment{}, "edited", "theirs"),
		labelled(&appsv1.StatefulSet{}, "cm-front", "db"),
	}
	got := map[resource.Tier]string{}
	for role, objects := range previousObjects(cm, owned) {
		for _, obj := range objects {
			got[role] += strings.TrimPrefix(fmt.Sprintf("%T %s;", obj, obj.GetName()), "*v1.")
		}
	}
	for role, want := range map[resource.Tier]string{
		resource.TierDatabase: "StatefulSet old;Service old-headless;StatefulSet cm-front;",
		resource.TierIdentity: "Deployment db;",
		resource.TierFront:    "Service web;Deployment edited;",
	} {
		if got[role] != want {
			t.Errorf("%s: %s, want %s", role, got[role], want)
		}
	}
	if len(got) != 3 {
		t.Errorf("there are tiers %v", got)
	}
}

// TestPreviousSecret checks when the Secret of a renamed database is deleted with it: only if its volumes are, and never on an old
// view of these.
func TestPreviousSecret(t *testing.T) {
	for name, c := range map[string]struct {
		retain  bool
		objects func(*resource.Workload) []client.Object
		want    bool
		stale   bool
	}{
		"the volumes go with it": {objects: func(*resource.Workload) []client.Object { return []client.Object{secretOf("dbauth", nil)} }, want: true},
		"there is no Secret":     {objects: func(*resource.Workload) []client.Object { return nil }},
		"the volumes stay":       {retain: true, objects: func(*resource.Workload) []client.Object { return []client.Object{secretOf("dbauth", nil)} }},
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
		secret, err := db.r.previousSecret(t.Context(), db.seen.set())
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

// TestRetainDatabase checks what is waited for before a renamed database is deleted whose volumes are to stay.
func TestRetainDatabase(t *testing.T) {
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
		db.seen.set().Generation = c.generation
		err := db.r.retainDatabase(t.Context(), nil, db.seen.set()) // It has the policy already: nothing is written.
		if (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}

// TestTierTarget checks what a tier's workload is: of its own component, with what the status tells of it by its name.
func TestTierTarget(t *testing.T) {
	cm, _ := databaseOf(t, "1Gi")
	cm.Spec.Identity.Deployment.Image, cm.Spec.Front.Deployment.Image, cm.Spec.Paused = "busybox", "nginx", true
	cm.Status.DB = appv1.TierStatus{Name: "db", Rendering: 1}
	cm.Status.Identity = appv1.TierStatus{Name: "earlier", Rendering: 1}
	r := &CloudManagerReconciler{}
	for role, name := range map[resource.Tier]string{resource.TierDatabase: "db", resource.TierIdentity: "cm-identity", resource.TierFront: "cm-front"} {
		d := r.newTarget(cm, role, nil, false)
		if d.name != name || d.tier != name || d.manager != resource.KindCloudManager.FieldManager() || !d.paused || d.owner != client.Object(cm) {
			t.Errorf("%s: the target is %+v", role, d)
		}
		if database := role == resource.TierDatabase; d.hadWorkload() != database {
			t.Errorf("%s: it existed: %t", role, d.hadWorkload())
		}
		w, errs := d.spec.Build(resource.BuildOptions{Inputs: resource.Inputs{Rendering: resource.RenderingLatest}})
		if len(errs) > 0 || w.Name != name || w.Labels[appv1.LabelComponent] != string(role) {
			t.Fatalf("%s: it builds %s, %v", role, w.Name, errs)
		}
		record := w.Record[appv1.AnnotationLastAppliedSpec]
		if changed, err := d.spec.Changed(record, resource.ScopePods); changed || err != nil {
			t.Errorf("%s: its own record differs: %v", role, err)
		}
		if _, err := resource.BuildRecorded(d.spec, record, resource.BuildOptions{}); err != nil {
			t.Errorf("%s: from its record: %v", role, err)
		}
		if _, err := resource.BuildRecorded(d.spec, strings.Replace(record, `"name":"`+name, `"name":"other`, 1), resource.BuildOptions{}); err == nil {
			t.Errorf("%s: it is built from the record of another component", role)
		}
	}
}

// simulated is a workload object of a CloudManager in a cluster of one: it is of a tier, uses objects of other tiers by their names,
// and is available or not.
type simulated struct {
	role      resource.Tier
	uses      []string
	available bool
}

// simulation is a cluster that does what a plan decides.
type simulation struct {
	t       *testing.T
	cm      *appv1.CloudManager
	objects map[string]*simulated
	existed map[string]bool
}

// TestPlanReplacesTiers has a CloudManager created, renamed and shaken in random order: no object is ever led to one that is not there,
// and once the cluster is quiet all is ready, and nothing of an earlier name is left.
func TestPlanReplacesTiers(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		s := &simulation{t: t, cm: planOf(absent, absent, absent).cm, objects: map[string]*simulated{}, existed: map[string]bool{}}
		for step := range 40 {
			row := tierRows[random.IntN(len(tierRows))]
			switch random.IntN(6) {
			case 0:
				row.role.Component(s.cm).Name = fmt.Sprintf("%s-%d", row.role, random.IntN(4))
			case 1, 2, 3:
				for _, name := range s.names() {
					s.objects[name].available = s.objects[name].available || random.IntN(2) == 0
				}
			case 4:
				for _, name := range s.names() {
					s.objects[name].available = random.IntN(3) > 0
				}
			}
			s.reconcile(fmt.Sprintf("seed %d, step %d", seed, step))
		}
		var phase appv1.Phase
		for range 10 {
			for _, obj := range s.objects {
				obj.available = true
			}
			phase = s.reconcile(fmt.Sprintf("seed %d, at the end", seed))
		}
		if phase != appv1.PhaseReady || len(s.objects) != len(tierRows) {
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
func (s *simulation) observe() *tiersPlan {
	p := &tiersPlan{cm: s.cm}
	for _, row := range tierRows {
		tier := tierState{tierRow: row, name: row.role.Component(s.cm).Name}
		tier.availability, tier.existed = s.availability(tier.name), s.existed[tier.name]
		var records []string
		for _, name := range s.names() {
			if s.objects[name].role == row.role && name != tier.name {
				tier.previous = append(tier.previous, withName(&appsv1.Deployment{}, name))
				records = append(records, fmt.Sprintf(`{"name":%q,"image":"a"}`, name))
				if row.role == resource.TierDatabase {
					records[len(records)-1] = fmt.Sprintf(`{"name":%q,"image":"a","storage":{"size":"1Gi"}}`, name)
				}
			}
		}
		if len(records) == 1 {
			tier.previousSpec = records[0]
		}
		p.tiers = append(p.tiers, tier)
	}
	return p
}

func (s *simulation) availability(name string) availability {
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
	for i := range p.tiers {
		tier, d := &p.tiers[i], p.decideTier(i)
		if d.action == tierApplied {
			s.apply(when, tier, p.specInForce(i))
		}
		now := s.availability(tier.name)
		p.noteOutcome(i, d, now, tierOutcome{report: reconciler.Report{Pods: health.Verdict{Ready: now.available && d.action == tierApplied}}})
	}
	for i := range p.tiers {
		if !p.canRemovePrevious(i) {
			continue
		}
		for _, obj := range p.tiers[i].previous {
			delete(s.objects, obj.GetName())
		}
	}
	for _, name := range s.names() {
		for _, used := range s.objects[name].uses {
			if s.objects[used] == nil && slices.Contains([]string{p.tiers[0].name, p.tiers[1].name, p.tiers[2].name}, name) {
				s.t.Fatalf("%s: %s uses %s, which is not there: %v", when, name, used, s.names())
			}
		}
	}
	phase, _ := p.phase("", "")
	return phase
}

// apply writes a tier's object as the specs in force mean it.
func (s *simulation) apply(when string, tier *tierState, cm *appv1.CloudManager) {
	s.t.Helper()
	var uses []string
	for _, role := range tier.after {
		uses = append(uses, role.Component(cm).Name)
	}
	before := s.objects[tier.name]
	if before != nil && slices.Equal(before.uses, uses) {
		return
	}
	for i, used := range uses {
		moved := before == nil || before.uses[i] != used
		if moved && (s.objects[used] == nil || before != nil && !s.objects[used].available) {
			s.t.Fatalf("%s: %s is led to %s, which is not available", when, tier.name, used)
		}
	}
	s.objects[tier.name], s.existed[tier.name] = &simulated{role: tier.role, uses: uses}, true
}
